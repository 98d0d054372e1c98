// IR passes that do harm, for tests of what is reported.
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"

using namespace llvm;

static bool isKernel(const Function &function) {
  return !function.isDeclaration() && !function.hasLocalLinkage() && function.getReturnType()->isVoidTy();
}

namespace {

struct DropKernel : PassInfoMixin<DropKernel> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    for (Function &function : make_early_inc_range(module))
      if (isKernel(function))
        function.eraseFromParent();
    return PreservedAnalyses::none();
  }
};

struct RenameKernel : PassInfoMixin<RenameKernel> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    for (Function &function : module)
      if (isKernel(function))
        function.setName("renamed");
    return PreservedAnalyses::none();
  }
};

struct Crash : PassInfoMixin<Crash> {
  PreservedAnalyses run(Module &, ModuleAnalysisManager &) { __builtin_trap(); }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "broken", "1", [](PassBuilder &builder) {
            builder.registerPipelineParsingCallback(
                [](StringRef name, ModulePassManager &manager, ArrayRef<PassBuilder::PipelineElement>) {
                  if (name == "broken-drop-kernel")
                    manager.addPass(DropKernel());
                  else if (name == "broken-rename-kernel")
                    manager.addPass(RenameKernel());
                  else if (name == "broken-crash")
                    manager.addPass(Crash());
                  else
                    return false;
                  return true;
                });
          }};
}
