// fly-llc: LLVM IR (or MIR) to an object or assembly, with user machine passes at chosen points.
//
// The target adds its passes to a Collector instead of a pass manager; the list is edited, then given to the real one.
// With nothing asked for, the list is what llc runs, and so is the output.
#include "pipeline.h"
#include "points.h"
#include "probe.h"

#include "llvm/Analysis/RuntimeLibcallInfo.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/CodeGen/CommandFlags.h"
#include "llvm/CodeGen/MIRParser/MIRParser.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/InitializePasses.h"
#include "llvm/MC/MCTargetOptionsCommandFlags.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetLoweringObjectFile.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <dlfcn.h>

using namespace llvm;
using namespace fly;

static codegen::RegisterCodeGenFlags CodeGenFlags;

static cl::OptionCategory Category("fly-llc options");
static cl::opt<std::string> Input(cl::Positional, cl::desc("<input .ll, .bc or .mir>"), cl::cat(Category));
static cl::opt<std::string> Output("o", cl::desc("Output file"), cl::value_desc("file"), cl::cat(Category));
static cl::opt<std::string> TripleText("mtriple", cl::desc("Target triple, default the module's"), cl::cat(Category));
static cl::opt<char> Level("O", cl::Prefix, cl::init('2'), cl::desc("Code generation level -O0 to -O3, default 2"),
                           cl::cat(Category));
enum class Emit { Object, Assembly, MIR, Null };
static cl::opt<Emit> EmitKind("emit", cl::desc("What to write"), cl::init(Emit::Object), cl::cat(Category),
                              cl::values(clEnumValN(Emit::Object, "obj", "object file"),
                                         clEnumValN(Emit::Assembly, "asm", "assembly text"),
                                         clEnumValN(Emit::MIR, "mir", "machine IR before printing"),
                                         clEnumValN(Emit::Null, "null", "nothing")));
static cl::list<std::string> Plugins("plugin", cl::desc("Shared object that registers machine passes"),
                                     cl::value_desc("so"), cl::cat(Category));
static cl::list<std::string> Inject("inject", cl::desc("Add passes at a named point"),
                                    cl::value_desc("point:pass[,pass]"), cl::cat(Category));
static cl::list<std::string> Before("before", cl::desc("Add passes before a pass"),
                                    cl::value_desc("pass[#n]:mine[,mine]"), cl::cat(Category));
static cl::list<std::string> After("after", cl::desc("Add passes after a pass"),
                                   cl::value_desc("pass[#n]:mine[,mine]"), cl::cat(Category));
static cl::list<std::string> Replace("replace", cl::desc("Run another pass instead"),
                                     cl::value_desc("pass[#n]:mine"), cl::cat(Category));
static cl::list<std::string> Disable("disable", cl::desc("Leave a pass out"), cl::value_desc("pass[#n]"),
                                     cl::cat(Category));
static cl::opt<bool> ListPasses("list-passes", cl::desc("Print the final pipeline, then go on"), cl::cat(Category));
static cl::opt<bool> ListPoints("list-points", cl::desc("Print the points of this target and level, then go on"),
                                cl::cat(Category));
static cl::opt<bool> VerifyInjected("verify-injected", cl::init(true),
                                    cl::desc("Machine verifier after each injected pass (default)"), cl::cat(Category));
static cl::opt<bool> NoVerifyInjected("no-verify-injected", cl::desc("No machine verifier"), cl::cat(Category));
static cl::opt<bool> PrintInjected("print-injected", cl::desc("Print MIR before and after each injected pass"),
                                   cl::cat(Category));
enum class Report { None, Json };
static cl::opt<Report> ReportKind("report", cl::desc("Report order, changes, registers and spills"),
                                  cl::init(Report::None), cl::cat(Category),
                                  cl::values(clEnumValN(Report::Json, "json", "one JSON object")));
static cl::list<std::string> LlvmArgs("llvm-arg", cl::desc("An option for LLVM itself"), cl::value_desc("flag"),
                                      cl::cat(Category));

namespace {

std::string libraryPath() {
  Dl_info info;
  return dladdr(reinterpret_cast<void *>(&PassRegistry::getPassRegistry), &info) && info.dli_fname ? info.dli_fname
                                                                                                   : "unknown";
}

/// What LLVM says while it works; an error in it is one of the whole run.
struct Diagnostics : DiagnosticHandler {
  bool &failed;
  explicit Diagnostics(bool &failed) : failed(failed) {}
  bool handleDiagnostics(const DiagnosticInfo &info) override {
    if (info.getSeverity() == DS_Remark && !isAnyRemarkEnabled())
      return true;
    failed |= info.getSeverity() == DS_Error;
    DiagnosticPrinterRawOStream printer(errs());
    errs() << LLVMContext::getDiagnosticMessagePrefix(info.getSeverity()) << ": ";
    info.print(printer);
    errs() << "\n";
    return true;
  }
};

/// Plugins and --llvm-arg come before option parsing: either may define or set options of LLVM.
std::vector<const char *> preprocess(int argc, char **argv, StringSaver &saver) {
  std::vector<const char *> args;
  auto value = [&](int &i, StringRef name) -> std::optional<StringRef> {
    StringRef arg = argv[i];
    if (!arg.consume_front("--") && !arg.consume_front("-"))
      return std::nullopt;
    if (!arg.consume_front(name))
      return std::nullopt;
    if (arg.consume_front("="))
      return arg;
    if (arg.empty() && i + 1 < argc)
      return StringRef(argv[++i]);
    return std::nullopt;
  };
  for (int i = 0; i < argc; ++i) {
    int start = i;
    if (auto flag = value(i, "llvm-arg")) {
      args.push_back(saver.save(flag->starts_with("-") ? *flag : "-" + flag->str()).data());
      continue;
    }
    if (auto path = value(i, "plugin")) {
      std::string error;
      if (!sys::fs::exists(*path))
        fail(ExitPlugin, "plugin '" + *path + "' does not exist");
      if (sys::DynamicLibrary::LoadLibraryPermanently(path->str().c_str(), &error))
        fail(ExitPlugin, "plugin '" + *path + "' cannot be loaded: " + error);
    }
    for (int k = start; k <= i; ++k)
      args.push_back(argv[k]);
  }
  return args;
}

void printVersion(raw_ostream &out) {
  out << "fly-llc 1\n  LLVM version " << LLVM_VERSION_STRING << "\n  library: " << libraryPath() << "\n";
}

void initialise() {
  InitializeAllTargets();
  InitializeAllTargetMCs();
  InitializeAllAsmPrinters();
  InitializeAllAsmParsers();
  PassRegistry &registry = *PassRegistry::getPassRegistry();
  initializeCore(registry);
  initializeCodeGen(registry);
  initializeGlobalISel(registry);
  initializeTarget(registry);
  initializeScalarOpts(registry);
  initializeVectorization(registry);
  initializeTransformUtils(registry);
  initializeAnalysis(registry);
  initializeLoopStrengthReducePass(registry);
  initializePostInlineEntryExitInstrumenterPass(registry);
  initializeUnreachableBlockElimLegacyPassPass(registry);
  initializeConstantHoistingLegacyPassPass(registry);
  initializeScalarizeMaskedMemIntrinLegacyPassPass(registry);
}

/// All edits in the order of the command line.
std::vector<Edit> requestedEdits() {
  std::vector<std::pair<unsigned, Edit>> found;
  auto take = [&](cl::list<std::string> &list, Edit::Kind kind) {
    for (unsigned i = 0; i < list.size(); ++i)
      for (Edit &edit : parseEdits(kind, list[i]))
        found.emplace_back(list.getPosition(i), std::move(edit));
  };
  take(Inject, Edit::Inject);
  take(Before, Edit::Before);
  take(After, Edit::After);
  take(Replace, Edit::Replace);
  take(Disable, Edit::Disable);
  llvm::stable_sort(found, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<Edit> edits;
  for (auto &[position, edit] : found)
    edits.push_back(std::move(edit));
  return edits;
}

void listPasses(raw_ostream &out, const std::vector<Entry> &entries) {
  for (const Entry &entry : entries) {
    std::string name = entry.name.empty() ? "-" : entry.name;
    if (entry.origin.empty() && entry.instance > 1)
      name += "#" + std::to_string(entry.instance);
    out << (entry.origin.empty() ? "  " : "* ") << left_justify(name, 40) << " " << entry.title;
    if (!entry.origin.empty())
      out << "  [" << entry.origin << "]";
    out << "\n";
  }
}

/// The module and, for MIR, the parser that still holds its functions; also sets up the target.
struct Session {
  LLVMContext context;
  bool failed = false;
  std::string cpu, features;
  TargetOptions options;
  std::unique_ptr<MIRParser> mir;
  std::unique_ptr<Module> module;
  std::unique_ptr<TargetMachine> machine;
  Triple triple;

  CodeGenOptLevel level() const {
    std::optional<CodeGenOptLevel> found = CodeGenOpt::parseLevel(Level);
    if (!found)
      fail(ExitUsage, "the level is -O0, -O1, -O2 or -O3");
    return *found;
  }

  void makeMachine(StringRef moduleTriple) {
    std::string text = TripleText.empty() ? moduleTriple.str() : TripleText.getValue();
    triple = Triple(text.empty() ? sys::getDefaultTargetTriple() : Triple::normalize(text));
    std::string error;
    const Target *target = TargetRegistry::lookupTarget(codegen::getMArch(), triple, error);
    if (!target)
      fail(ExitTarget, error);
    cpu = codegen::getCPUStr();
    features = codegen::getFeaturesStr();
    options = codegen::InitTargetOptionsFromCodeGenFlags(triple);
    options.MCOptions.AsmVerbose = true; // As llc does.
    machine.reset(target->createTargetMachine(triple, cpu, features, options, codegen::getExplicitRelocModel(),
                                              codegen::getExplicitCodeModel(), level()));
    if (!machine)
      fail(ExitTarget, "cannot make a target machine for '" + triple.str() + "'");
  }

  void load() {
    context.setDiagnosticHandler(std::make_unique<Diagnostics>(failed));
    if (Input.empty()) {
      module = std::make_unique<Module>("empty", context);
      makeMachine("");
      module->setTargetTriple(triple);
      module->setDataLayout(machine->createDataLayout());
      return;
    }
    auto layout = [&](StringRef moduleTriple, StringRef) -> std::optional<std::string> {
      makeMachine(moduleTriple);
      return machine->createDataLayout().getStringRepresentation();
    };
    if (Input != "-" && !sys::fs::exists(Input))
      fail(ExitIO, "cannot read '" + Input + "': no such file");
    SMDiagnostic error;
    if (StringRef(Input).ends_with(".mir")) {
      mir = createMIRParserFromFile(Input, error, context, [&](Function &function) {
        codegen::setFunctionAttributes(codegen::getCPUStr(), codegen::getFeaturesStr(), function);
      });
      if (mir)
        module = mir->parseIRModule(layout);
    } else {
      module = parseIRFile(Input, error, context, ParserCallbacks(layout));
    }
    if (!module) {
      if (!error.getMessage().empty())
        error.print("fly-llc", errs());
      fail(ExitParse, "'" + Input + "' cannot be parsed");
    }
    if (!TripleText.empty())
      module->setTargetTriple(triple);
    if (verifyModule(*module, &errs()))
      fail(ExitParse, "the module in '" + Input + "' does not verify");
    codegen::setFunctionAttributes(cpu, features, *module);
  }
};

void reportJson(raw_ostream &out, const std::vector<Entry> &entries, ArrayRef<std::shared_ptr<Watch>> watches,
                json::Array functions, const Session &session) {
  json::Array order, injected;
  for (const Entry &entry : entries)
    order.push_back(json::Object{{"pass", entry.name.empty() ? entry.title : entry.name},
                                 {"injected", !entry.origin.empty()}});
  for (const auto &watch : watches)
    injected.push_back(json::Object{{"pass", watch->pass}, {"spec", watch->origin}, {"changed", watch->changed}});
  json::Object report{{"tool", "fly-llc"},
                      {"llvm", LLVM_VERSION_STRING},
                      {"triple", session.triple.str()},
                      {"cpu", session.cpu},
                      {"level", std::string(1, Level)},
                      {"order", std::move(order)},
                      {"injected", std::move(injected)},
                      {"functions", std::move(functions)}};
  out << json::Value(std::move(report)) << "\n";
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  initialise();
  BumpPtrAllocator allocator;
  StringSaver saver(allocator);
  std::vector<const char *> args = preprocess(argc, argv, saver);
  cl::SetVersionPrinter(printVersion);
  cl::ParseCommandLineOptions(int(args.size()), args.data(), "LLVM IR to code, with machine passes of your own\n");

  bool listing = ListPasses || ListPoints;
  if (Input.empty() && !listing)
    fail(ExitUsage, "no input file");
  if (Output.empty() && !Input.empty() && EmitKind != Emit::Null && !listing)
    fail(ExitUsage, "no output: give -o <file>, -o - for standard output, or --emit=null");
  std::vector<Edit> edits = requestedEdits();

  Session session;
  session.load();

  bool discard = Input.empty() || Output.empty() || EmitKind == Emit::Null;
  SmallVector<char, 0> buffer; // Written to the file at the very end: a failure leaves none behind.
  raw_svector_ostream stream(buffer);

  CodeGenFileType kind = Input.empty()                ? CodeGenFileType::Null
                         : EmitKind == Emit::Object   ? CodeGenFileType::ObjectFile
                         : EmitKind == Emit::Assembly ? CodeGenFileType::AssemblyFile
                                                      : CodeGenFileType::Null;
  TargetMachine &machine = *session.machine;
  machine.Options.ObjectFilenameForDebug = discard ? "" : Output.getValue();
  Collector collector;
  auto *info = new MachineModuleInfoWrapperPass(&machine);
  if (machine.addPassesToEmitFile(collector, stream, nullptr, kind, /*DisableVerify=*/false, info))
    fail(ExitEmit, "target '" + session.triple.str() + "' cannot emit this kind of file");
  std::vector<Entry> &entries = collector.entries;
  bool optimised = session.level() != CodeGenOptLevel::None;
  if (ListPoints)
    listPoints(outs(), entries, optimised);
  apply(entries, edits, optimised);
  if (EmitKind == Emit::MIR)
    if (int printer = printerIndex(entries); printer >= 0) {
      delete entries[printer].pass;
      entries[printer].pass = createPrintMIRPass(stream);
      entries[printer].name = "mir-printer";
      entries[printer].title = "MIR Printer";
    }
  if (ListPasses)
    listPasses(outs(), entries);
  outs().flush();
  if (Input.empty())
    return ExitOk;

  // From here the passes belong to the real manager.
  TargetLibraryInfoImpl library(session.module->getTargetTriple(), machine.Options.VecLib);
  legacy::PassManager manager;
  manager.add(new TargetLibraryInfoWrapperPass(library));
  manager.add(new RuntimeLibraryInfoWrapper(session.module->getTargetTriple(), machine.Options.ExceptionModel,
                                            machine.Options.FloatABIType, machine.Options.EABIVersion,
                                            machine.Options.MCOptions.ABIName, machine.Options.VecLib));
  std::vector<std::shared_ptr<Watch>> watches;
  json::Array functions;
  bool report = ReportKind == Report::Json;
  int printer = printerIndex(entries);
  std::vector<Entry> order = entries;
  collector.entries.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    Entry &entry = order[i];
    if (report && int(i) == printer)
      manager.add(createCounter(functions));
    bool watched = !entry.origin.empty();
    std::shared_ptr<Watch> watch;
    if (watched) {
      watch = std::make_shared<Watch>();
      watch->pass = entry.name;
      watch->origin = entry.origin;
      watch->verify = VerifyInjected && !NoVerifyInjected;
      watch->print = PrintInjected;
      watch->compare = report;
      watches.push_back(watch);
      manager.add(createProbe(watch, false));
    }
    manager.add(entry.pass);
    if (watched)
      manager.add(createProbe(watch, true));
  }
  const_cast<TargetLoweringObjectFile *>(machine.getObjFileLowering())
      ->Initialize(info->getMMI().getContext(), machine);
  if (session.mir && session.mir->parseMachineFunctions(*session.module, info->getMMI()))
    fail(ExitParse, "the machine functions in '" + Input + "' cannot be parsed");

  manager.run(*session.module);
  if (session.failed)
    fail(ExitEmit, "code generation failed");
  if (!discard) {
    std::error_code code;
    raw_fd_ostream out(Output, code);
    if (!code) {
      out << StringRef(buffer.data(), buffer.size());
      out.flush();
      code = out.error();
      out.clear_error();
    }
    if (code)
      fail(ExitIO, "cannot write '" + Output + "': " + code.message());
  }
  if (report)
    reportJson(Output == "-" ? errs() : outs(), order, watches, std::move(functions), session);
  return ExitOk;
}
