// Passes over LLVM IR, for `opt --load-pass-plugin`. Build:
//   clang++-22 -shared -fPIC $(llvm-config-22 --cxxflags) ir_plugin.cpp -o ir_plugin.so
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"

using namespace llvm;

namespace {

/// Every `fadd` becomes an `fsub`: the simplest change a caller can see.
struct AddToSub : PassInfoMixin<AddToSub> {
  PreservedAnalyses run(Function &function, FunctionAnalysisManager &) {
    SmallVector<BinaryOperator *> adds;
    for (Instruction &instruction : instructions(function))
      if (instruction.getOpcode() == Instruction::FAdd)
        adds.push_back(cast<BinaryOperator>(&instruction));
    for (BinaryOperator *add : adds) {
      IRBuilder<> builder(add);
      add->replaceAllUsesWith(builder.CreateFSub(add->getOperand(0), add->getOperand(1)));
      add->eraseFromParent();
    }
    return adds.empty() ? PreservedAnalyses::all() : PreservedAnalyses::none();
  }
};

/// Each thread prints its id when it starts. On the cpu stack a thread is a call of `<kernel>.thread(..., tx, ...)`.
struct ThreadPrint : PassInfoMixin<ThreadPrint> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    bool changed = false;
    for (Function &function : module) {
      if (function.isDeclaration())
        continue;
      for (Argument &argument : function.args())
        if (argument.getName() == "tx" && function.getName().ends_with(".thread")) {
          print(module, function, argument);
          changed = true;
        }
    }
    return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }

  static void print(Module &module, Function &function, Value &id) {
    IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
    FunctionCallee printf = module.getOrInsertFunction(
        "printf", FunctionType::get(builder.getInt32Ty(), {builder.getPtrTy()}, /*isVarArg=*/true));
    Value *format = builder.CreateGlobalString("thread %ld\n");
    builder.CreateCall(printf, {format, &id});
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "fly-example", "1", [](PassBuilder &builder) {
            builder.registerPipelineParsingCallback(
                [](StringRef name, ModulePassManager &manager, ArrayRef<PassBuilder::PipelineElement>) {
                  if (name == "example-add-to-sub")
                    manager.addPass(createModuleToFunctionPassAdaptor(AddToSub()));
                  else if (name == "example-thread-print")
                    manager.addPass(ThreadPrint());
                  else
                    return false;
                  return true;
                });
          }};
}
