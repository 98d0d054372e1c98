// Named points of the code-generation pipeline.
#pragma once

#include "pipeline.h"

#include "llvm/Support/raw_ostream.h"

namespace fly {

/// Before or after the pass at an index.
struct Place {
  size_t index = 0;
  bool after = false;
};

/// The place of a point; fails with ExitPoint if there is no such point, with ExitAnchor if this pipeline has none.
Place findPoint(const std::vector<Entry> &entries, llvm::StringRef point, bool optimised);

/// A table of every point: its anchor in this pipeline, or that it has none.
void listPoints(llvm::raw_ostream &out, const std::vector<Entry> &entries, bool optimised);

} // namespace fly
