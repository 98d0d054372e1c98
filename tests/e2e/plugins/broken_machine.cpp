// Machine passes that do harm, for tests of what is reported.
#include "fly_mir.h"

using namespace llvm;

namespace {

/// Puts an ordinary instruction after the first terminator.
struct Unsound : MachineFunctionPass {
  static char ID;
  Unsound() : MachineFunctionPass(ID) {}
  bool runOnMachineFunction(MachineFunction &function) override {
    for (MachineBasicBlock &block : function)
      if (!block.empty() && block.back().isTerminator()) {
        fly::insertNop(block, block.end());
        return true;
      }
    return false;
  }
};

struct Crash : MachineFunctionPass {
  static char ID;
  Crash() : MachineFunctionPass(ID) {}
  StringRef getPassName() const override { return "Crash on purpose"; }
  bool runOnMachineFunction(MachineFunction &) override { __builtin_trap(); }
};

char Unsound::ID = 0;
char Crash::ID = 0;
RegisterPass<Unsound> unsound("broken-unsound", "A no-op after a terminator");
RegisterPass<Crash> crash("broken-crash-machine", "Crash");

} // namespace
