// A pass plugin of another API version, as one built for another LLVM would be.
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"

extern "C" llvm::PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION + 40, "wrong", "1", nullptr};
}
