// For stock `llc -load=fly-llc-injector.so`: adds passes after anchors, as FLY_LLC_INJECT="anchor:pass;anchor:pass" says.
// It can do less than fly-llc: only "after", once per occurrence of the anchor, and an absent anchor goes unnoticed.
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/PassInfo.h"
#include "llvm/PassRegistry.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Target/RegisterTargetPassConfigCallback.h"

#include <cstdlib>

using namespace llvm;

static void inject(TargetMachine &, PassManagerBase &, TargetPassConfig *config) {
  const char *specs = std::getenv("FLY_LLC_INJECT");
  StringRef rest = specs ? specs : "";
  while (!rest.empty()) {
    StringRef spec;
    std::tie(spec, rest) = rest.split(';');
    auto [anchor, pass] = spec.split(':');
    PassRegistry &registry = *PassRegistry::getPassRegistry();
    const PassInfo *where = registry.getPassInfo(anchor), *what = registry.getPassInfo(pass);
    if (!where || !what)
      reportFatalUsageError("fly-llc-injector: unknown pass '" + (where ? pass : anchor) + "'");
    config->insertPass(where->getTypeInfo(), what->getTypeInfo());
  }
}

static RegisterTargetPassConfigCallback callback{inject};
