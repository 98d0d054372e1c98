#include "probe.h"
#include "pipeline.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/CodeGen/MachineFrameInfo.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace fly {

namespace {

class Probe : public MachineFunctionPass {
public:
  static char ID;
  Probe(std::shared_ptr<Watch> watch, bool after) : MachineFunctionPass(ID), watch(std::move(watch)), after(after) {}

  StringRef getPassName() const override { return after ? "fly-llc: after injected pass" : "fly-llc: before injected pass"; }

  void getAnalysisUsage(AnalysisUsage &usage) const override {
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

  bool runOnMachineFunction(MachineFunction &function) override {
    std::string name = function.getName().str();
    if (watch->print || watch->compare) {
      std::string text;
      raw_string_ostream stream(text);
      function.print(stream);
      if (watch->print)
        errs() << "# " << (after ? "after" : "before") << " injected pass " << watch->pass << " (" << watch->origin
               << ")\n"
               << text;
      if (after)
        watch->changed |= text != watch->text[name];
      else
        watch->text[name] = std::move(text);
    }
    if (watch->verify)
      verify(function, name);
    return false;
  }

private:
  void verify(MachineFunction &function, const std::string &name) {
    if (!after) {
      watch->sound[name] = function.verify(this, "before an injected pass", &nulls(), /*AbortOnError=*/false);
      return;
    }
    std::string problems;
    raw_string_ostream stream(problems);
    if (function.verify(this, watch->pass.c_str(), &stream, /*AbortOnError=*/false))
      return;
    if (!watch->sound[name]) {
      errs() << "fly-llc: warning: " << name << " does not verify before pass " << watch->pass
             << " either; what it did cannot be checked\n";
      return;
    }
    errs() << problems;
    fail(ExitVerifier, "machine verifier: pass '" + watch->pass + "' (" + watch->origin + ") broke function " + name);
  }

  std::shared_ptr<Watch> watch;
  bool after;
};

char Probe::ID = 0;

class Counter : public MachineFunctionPass {
public:
  static char ID;
  explicit Counter(json::Array &functions) : MachineFunctionPass(ID), functions(functions) {}

  StringRef getPassName() const override { return "fly-llc: count"; }

  void getAnalysisUsage(AnalysisUsage &usage) const override {
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

  bool runOnMachineFunction(MachineFunction &function) override {
    DenseSet<unsigned> physical, virtual_;
    uint64_t instructions = 0;
    for (const MachineBasicBlock &block : function)
      for (const MachineInstr &instruction : block) {
        instructions += !instruction.isMetaInstruction();
        for (const MachineOperand &operand : instruction.operands())
          if (operand.isReg() && operand.getReg())
            (operand.getReg().isVirtual() ? virtual_ : physical).insert(operand.getReg().id());
      }
    const MachineFrameInfo &frame = function.getFrameInfo();
    unsigned spills = 0;
    for (int i = frame.getObjectIndexBegin(); i < frame.getObjectIndexEnd(); ++i)
      spills += i >= 0 && !frame.isDeadObjectIndex(i) && frame.isSpillSlotObjectIndex(i);
    functions.push_back(json::Object{{"name", function.getName()},
                                     {"instructions", int64_t(instructions)},
                                     {"physical_registers", int64_t(physical.size())},
                                     {"virtual_registers", int64_t(virtual_.size())},
                                     {"spill_slots", int64_t(spills)},
                                     {"stack_bytes", int64_t(frame.getStackSize())}});
    return false;
  }

private:
  json::Array &functions;
};

char Counter::ID = 0;

} // namespace

Pass *createProbe(std::shared_ptr<Watch> watch, bool after) { return new Probe(std::move(watch), after); }

Pass *createCounter(json::Array &functions) { return new Counter(functions); }

} // namespace fly
