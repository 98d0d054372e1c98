// Helpers for machine passes that are built against LLVM's public headers only.
//
// The enums of a target's opcodes and registers are private to LLVM, so opcodes are looked up by name at run time.
// Everything here is inline: a plugin includes this file and links nothing.
#pragma once

#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineInstrBuilder.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetOpcodes.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/IR/InlineAsm.h"

#include <optional>

namespace fly {

inline const llvm::TargetInstrInfo &instrInfo(const llvm::MachineFunction &function) {
  return *function.getSubtarget().getInstrInfo();
}

inline const llvm::TargetRegisterInfo &registerInfo(const llvm::MachineFunction &function) {
  return *function.getSubtarget().getRegisterInfo();
}

/// The number of an opcode such as "S_NOP" in this function's target, if it has one of that name.
inline std::optional<unsigned> opcodeByName(const llvm::MachineFunction &function, llvm::StringRef name) {
  const llvm::TargetInstrInfo &info = instrInfo(function);
  for (unsigned opcode = 0; opcode < info.getNumOpcodes(); ++opcode)
    if (info.getName(opcode) == name)
      return opcode;
  return std::nullopt;
}

inline llvm::StringRef opcodeName(const llvm::MachineInstr &instruction) {
  return instrInfo(*instruction.getMF()).getName(instruction.getOpcode());
}

inline bool isMemoryOp(const llvm::MachineInstr &instruction) { return instruction.mayLoadOrStore(); }

inline bool readsPhysReg(const llvm::MachineInstr &instruction, llvm::MCRegister reg) {
  return instruction.readsRegister(reg, &registerInfo(*instruction.getMF()));
}

inline bool writesPhysReg(const llvm::MachineInstr &instruction, llvm::MCRegister reg) {
  return instruction.modifiesRegister(reg, &registerInfo(*instruction.getMF()));
}

/// Inserts an instruction that does nothing: S_NOP, NOOP, or where the target has none a comment in the assembly.
/// x86's NOOP counts as dead code until registers are allocated; until then it is written as inline assembly.
inline void insertNop(llvm::MachineBasicBlock &block, llvm::MachineBasicBlock::iterator where) {
  llvm::MachineFunction &function = *block.getParent();
  const llvm::TargetInstrInfo &info = instrInfo(function);
  if (std::optional<unsigned> nop = opcodeByName(function, "S_NOP"))
    BuildMI(block, where, llvm::DebugLoc(), info.get(*nop)).addImm(0);
  else if (std::optional<unsigned> nop = opcodeByName(function, "NOOP"); nop && function.getProperties().hasNoVRegs())
    BuildMI(block, where, llvm::DebugLoc(), info.get(*nop));
  else
    BuildMI(block, where, llvm::DebugLoc(), info.get(llvm::TargetOpcode::INLINEASM))
        .addExternalSymbol(nop ? "nop" : "// fly nop")
        .addImm(llvm::InlineAsm::Extra_HasSideEffects);
}

/// Where a block's ordinary instructions begin: after phis, labels and what sets up the frame.
inline llvm::MachineBasicBlock::iterator firstOrdinary(llvm::MachineBasicBlock &block) {
  auto where = block.SkipPHIsLabelsAndDebug(block.begin());
  while (where != block.end() && where->getFlag(llvm::MachineInstr::FrameSetup))
    ++where;
  return where;
}

/// Whether an instruction may move at all.
inline bool isMovable(const llvm::MachineInstr &instruction) {
  return !instruction.isTerminator() && !instruction.isPosition() && !instruction.isDebugInstr() &&
         !instruction.isCall() && !instruction.isInlineAsm() && !instruction.isBundled() && !instruction.isPHI() &&
         !instruction.isCFIInstruction() && !instruction.isMetaInstruction() &&
         !instruction.hasUnmodeledSideEffects() && !instruction.hasOrderedMemoryRef() &&
         !instruction.getFlag(llvm::MachineInstr::FrameSetup) && !instruction.getFlag(llvm::MachineInstr::FrameDestroy);
}

/// Whether two neighbours compute the same in either order. Two memory operations never count as independent: wait
/// counts on AMD GPUs depend on their order.
inline bool canSwap(const llvm::MachineInstr &first, const llvm::MachineInstr &second) {
  if (!isMovable(first) || !isMovable(second) || (isMemoryOp(first) && isMemoryOp(second)))
    return false;
  const llvm::TargetRegisterInfo &registers = registerInfo(*first.getMF());
  for (const llvm::MachineOperand &a : first.operands()) {
    if (a.isRegMask())
      return false;
    if (!a.isReg() || !a.getReg())
      continue;
    for (const llvm::MachineOperand &b : second.operands()) {
      if (b.isRegMask())
        return false;
      if (!b.isReg() || !b.getReg() || !registers.regsOverlap(a.getReg(), b.getReg()))
        continue;
      // A shared input is harmless unless one of the two is marked as its last use.
      if (a.isDef() || b.isDef() || a.isKill() || b.isKill())
        return false;
    }
  }
  return true;
}

} // namespace fly
