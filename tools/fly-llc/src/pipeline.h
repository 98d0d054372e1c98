// The code-generation pipeline as a list that can be edited before it is given to LLVM's pass manager.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Pass.h"

#include <memory>
#include <string>
#include <vector>

namespace fly {

/// What the process ends with.
enum Exit : int {
  ExitOk = 0,
  ExitUsage = 1,
  ExitPlugin = 2,
  ExitParse = 3,
  ExitTarget = 4,
  ExitPass = 5,
  ExitPoint = 6,
  ExitAnchor = 7,
  ExitEmit = 8,
  ExitVerifier = 9,
  ExitIO = 10,
};

/// Prints "fly-llc: error: <text>" and ends the process.
[[noreturn]] void fail(Exit code, const llvm::Twine &text);

/// One pass of the pipeline.
struct Entry {
  llvm::Pass *pass = nullptr;
  /// The name passes are asked for by (`-stop-after=<name>`); empty for a pass that has none.
  std::string name;
  /// Its name in words.
  std::string title;
  /// Counts passes of the same name from 1.
  unsigned instance = 1;
  /// Where the user asked for it; empty for LLVM's own.
  std::string origin;
};

/// Takes passes as a pass manager does but only keeps them, so that the order can still change.
class Collector : public llvm::legacy::PassManagerBase {
public:
  ~Collector() override;
  void add(llvm::Pass *pass) override;

  std::vector<Entry> entries;
};

/// What the user asked to change.
struct Edit {
  enum Kind { Inject, Before, After, Replace, Disable } kind;
  /// Name of a point, or of an anchor pass.
  std::string where;
  /// Which instance of the anchor, 0 if not said.
  unsigned instance = 0;
  /// The pass to add; empty for Disable.
  std::string pass;
  /// The text given on the command line.
  std::string text;
};

/// `anchor#2:a,b` as one edit per pass; fails with ExitUsage.
std::vector<Edit> parseEdits(Edit::Kind kind, llvm::StringRef text);

/// Applies the edits to LLVM's own order: several at one place keep their order.
void apply(std::vector<Entry> &entries, const std::vector<Edit> &edits, bool optimised);

/// A pass by its registered name; fails with ExitPass.
llvm::Pass *createPass(llvm::StringRef name);

/// Index of the pass that prints the code: the one before the pass that frees machine functions, or -1.
int printerIndex(const std::vector<Entry> &entries);

} // namespace fly
