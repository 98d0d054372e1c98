#include "pipeline.h"
#include "points.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/PassInfo.h"
#include "llvm/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace llvm;

namespace fly {

void fail(Exit code, const Twine &text) {
  outs().flush();
  errs() << "fly-llc: error: " << text << "\n";
  errs().flush();
  exit(code);
}

Collector::~Collector() {
  for (Entry &entry : entries)
    delete entry.pass;
}

static std::string nameOf(Pass *pass) {
  const PassInfo *info = PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
  return info ? info->getPassArgument().str() : std::string();
}

void Collector::add(Pass *pass) {
  Entry entry;
  entry.pass = pass;
  entry.name = nameOf(pass);
  entry.title = pass->getPassName().str();
  if (!entry.name.empty())
    for (const Entry &other : entries)
      entry.instance += other.name == entry.name;
  entries.push_back(std::move(entry));
}

int printerIndex(const std::vector<Entry> &entries) {
  for (int i = int(entries.size()) - 1; i > 0; --i)
    if (entries[i].title == "Free MachineFunction")
      return i - 1;
  return -1;
}

std::vector<Edit> parseEdits(Edit::Kind kind, StringRef text) {
  Edit edit;
  edit.kind = kind;
  edit.text = text.str();
  auto [where, passes] = text.split(':');
  auto [name, number] = where.split('#');
  edit.where = name.trim().str();
  if (edit.where.empty())
    fail(ExitUsage, "'" + text + "' names no " + (kind == Edit::Inject ? "point" : "pass"));
  if (where.contains('#') && (number.getAsInteger(10, edit.instance) || edit.instance == 0))
    fail(ExitUsage, "'" + text + "': the instance after '#' is a number from 1");
  if (kind == Edit::Disable) {
    if (text.contains(':'))
      fail(ExitUsage, "--disable takes the name of a pass, got '" + text + "'");
    return {edit};
  }
  std::vector<Edit> edits;
  SmallVector<StringRef> names;
  passes.split(names, ',');
  for (StringRef pass : names) {
    edit.pass = pass.trim().str();
    if (edit.pass.empty())
      fail(ExitUsage, "'" + text + "' must be <" + (kind == Edit::Inject ? "point" : "pass") + ">:<pass>[,<pass>]");
    edits.push_back(edit);
  }
  if (kind == Edit::Replace && edits.size() != 1)
    fail(ExitUsage, "--replace takes one new pass, got '" + text + "'");
  return edits;
}

Pass *createPass(StringRef name) {
  const PassInfo *info = PassRegistry::getPassRegistry()->getPassInfo(name);
  if (!info || !info->getNormalCtor())
    fail(ExitPass, "unknown pass '" + name + "'; is the plugin that registers it given with --plugin?");
  return info->createPass();
}

/// Indices of the instances an edit means.
static std::vector<size_t> matches(const std::vector<Entry> &entries, const Edit &edit, bool one) {
  std::vector<size_t> found;
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].name == edit.where && (!edit.instance || entries[i].instance == edit.instance))
      found.push_back(i);
  if (found.empty()) {
    unsigned count = 0;
    std::string close;
    for (const Entry &entry : entries) {
      count += entry.name == edit.where;
      if (!entry.name.empty() && StringRef(entry.name).edit_distance(edit.where, true, 4) < 4 && close.empty())
        close = entry.name;
    }
    if (count)
      fail(ExitAnchor, "'" + edit.text + "': pass '" + edit.where + "' occurs " + Twine(count) +
                           " time(s) in this pipeline, there is no #" + Twine(edit.instance));
    fail(ExitAnchor, "'" + edit.text + "': pass '" + edit.where + "' is not in this pipeline" +
                         (close.empty() ? std::string() : "; there is '" + close + "'") +
                         " (--list-passes shows all)");
  }
  if (one && found.size() > 1)
    fail(ExitAnchor, "'" + edit.text + "': pass '" + edit.where + "' occurs " + Twine(found.size()) +
                         " times in this pipeline; say which as '" + edit.where + "#1' to '" + edit.where + "#" +
                         Twine(found.size()) + "'");
  return found;
}

void apply(std::vector<Entry> &entries, const std::vector<Edit> &edits, bool optimised) {
  std::map<size_t, std::vector<Entry>> before, after, instead;
  std::vector<bool> removed(entries.size());
  auto make = [](const Edit &edit) {
    Entry entry;
    entry.pass = createPass(edit.pass);
    entry.name = edit.pass;
    entry.title = entry.pass->getPassName().str();
    entry.origin = edit.text;
    return entry;
  };
  for (const Edit &edit : edits) {
    switch (edit.kind) {
    case Edit::Inject: {
      Place place = findPoint(entries, edit.where, optimised);
      (place.after ? after : before)[place.index].push_back(make(edit));
      break;
    }
    case Edit::Before:
      before[matches(entries, edit, true)[0]].push_back(make(edit));
      break;
    case Edit::After:
      after[matches(entries, edit, true)[0]].push_back(make(edit));
      break;
    case Edit::Replace:
      for (size_t i : matches(entries, edit, false)) {
        removed[i] = true;
        instead[i].push_back(make(edit));
      }
      break;
    case Edit::Disable:
      for (size_t i : matches(entries, edit, false))
        removed[i] = true;
      break;
    }
  }
  std::vector<Entry> result;
  auto take = [&](std::map<size_t, std::vector<Entry>> &from, size_t i) {
    if (auto it = from.find(i); it != from.end())
      for (Entry &entry : it->second)
        result.push_back(std::move(entry));
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    take(before, i);
    if (removed[i])
      delete entries[i].pass;
    else
      result.push_back(std::move(entries[i]));
    take(instead, i);
    take(after, i);
  }
  entries = std::move(result);
}

} // namespace fly
