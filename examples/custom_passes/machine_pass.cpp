// Machine passes for fly-llc. Build:
//   clang++-22 -shared -fPIC $(llvm-config-22 --cxxflags) -I ../../tools/fly-llc/include machine_pass.cpp -o machine_pass.so
#include "fly_mir.h"

using namespace llvm;

namespace {

/// Four instructions that do nothing at the start of every function.
struct NopSled : MachineFunctionPass {
  static char ID;
  NopSled() : MachineFunctionPass(ID) {}

  bool runOnMachineFunction(MachineFunction &function) override {
    MachineBasicBlock &block = function.front();
    auto where = fly::firstOrdinary(block);
    for (int i = 0; i < 4; ++i)
      fly::insertNop(block, where);
    return true;
  }
};

/// Swaps neighbours that do not depend on each other: the same instructions in another order.
struct Reorder : MachineFunctionPass {
  static char ID;
  Reorder() : MachineFunctionPass(ID) {}

  bool runOnMachineFunction(MachineFunction &function) override {
    bool changed = false;
    for (MachineBasicBlock &block : function)
      for (auto it = block.begin(); it != block.end() && std::next(it) != block.end(); ++it) {
        MachineInstr &first = *it, &second = *std::next(it);
        if (!fly::canSwap(first, second))
          continue;
        block.splice(first.getIterator(), &block, second.getIterator());
        changed = true;
      }
    return changed;
  }
};

char NopSled::ID = 0;
char Reorder::ID = 0;
RegisterPass<NopSled> sled("example-nop-sled", "Four no-ops at the start of every function");
RegisterPass<Reorder> reorder("example-reorder", "Swap independent neighbours");

} // namespace
