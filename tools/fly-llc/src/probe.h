// Passes that watch an injected pass: verify, print and compare around it, and count at the end.
#pragma once

#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fly {

/// What is known of one injected pass.
struct Watch {
  std::string pass;
  std::string origin;
  bool verify = true;
  bool print = false;
  /// Compare the function's text before and after.
  bool compare = false;
  bool changed = false;
  /// By function: its text before the pass; whether it verified then.
  std::map<std::string, std::string> text;
  std::map<std::string, bool> sound;
};

llvm::Pass *createProbe(std::shared_ptr<Watch> watch, bool after);

/// Adds one record per function to `functions`: registers, spills, stack, instructions.
llvm::Pass *createCounter(llvm::json::Array &functions);

} // namespace fly
