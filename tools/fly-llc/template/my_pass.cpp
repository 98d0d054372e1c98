// A machine pass to start from. Build it with
//   clang++-22 -shared -fPIC $(llvm-config-22 --cxxflags) -fno-rtti -I tools/fly-llc/include my_pass.cpp -o my_pass.so
// and run it with @flyc.jit(llvm_codegen_passes=["pre-emit:my-pass"], llvm_codegen_plugins=["my_pass.so"]).
#include "fly_mir.h"

using namespace llvm;

namespace {

struct MyPass : MachineFunctionPass {
  static char ID;
  MyPass() : MachineFunctionPass(ID) {}

  bool runOnMachineFunction(MachineFunction &function) override {
    for (MachineBasicBlock &block : function)
      for (MachineInstr &instruction : block)
        (void)instruction;
    return false; // Whether anything was changed.
  }
};

char MyPass::ID = 0;
RegisterPass<MyPass> registration("my-pass", "What it does");

} // namespace
