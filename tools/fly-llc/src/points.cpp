#include "points.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <optional>

using namespace llvm;

namespace fly {

namespace {

struct Anchor {
  const char *pass;
  bool after;
  /// Only where the optimising pipeline, which would have a better anchor, is not built.
  bool onlyO0 = false;
};

struct Point {
  const char *name;
  /// The first of these that occurs counts.
  std::vector<Anchor> anchors;
  const char *state;
};

const char PrinterAnchor[] = "<assembly printer>";

const std::vector<Point> &points() {
  static const std::vector<Point> table = {
      {"after-isel", {{"finalize-isel", true}}, "SSA, virtual registers"},
      {"pre-ra",
       {{"detect-dead-lanes", false}, {"processimpdefs", false}, {"phi-node-elimination", false}},
       "SSA, virtual registers"},
      {"pre-ra-sched", {{"machine-scheduler", true}}, "not SSA, live intervals must be kept"},
      {"post-ra", {{"removeredundantdebugvalues", false}}, "physical registers (NVPTX: still virtual)"},
      {"pre-sched2",
       {{"postmisched", false}, {"post-RA-sched", false}, {"postrapseudos", true, true}},
       "physical registers, pseudos expanded"},
      {"pre-emit", {{"xray-instrumentation", true}}, "before wait counts, hazards and branch relaxation"},
      {"pre-emit2", {{PrinterAnchor, false}}, "nothing is fixed up afterwards"},
  };
  return table;
}

/// Whether this is NVPTX, whose pipeline ends without allocating registers or scheduling again.
bool allocates(const std::vector<Entry> &entries) {
  for (const Entry &entry : entries)
    if (entry.name == "virtregrewriter" || entry.name == "regallocfast" || entry.name == "prologepilog")
      return true;
  return false;
}

std::optional<Place> resolve(const std::vector<Entry> &entries, const Point &point, bool optimised) {
  for (const Anchor &anchor : point.anchors) {
    if (anchor.onlyO0 && (optimised || !allocates(entries)))
      continue;
    if (StringRef(anchor.pass) == PrinterAnchor) {
      if (int index = printerIndex(entries); index >= 0)
        return Place{size_t(index), false};
      continue;
    }
    for (size_t i = 0; i < entries.size(); ++i)
      if (entries[i].name == anchor.pass)
        return Place{i, anchor.after};
  }
  return std::nullopt;
}

std::string available(const std::vector<Entry> &entries, bool optimised) {
  std::vector<std::string> names;
  for (const Point &point : points())
    if (resolve(entries, point, optimised))
      names.push_back(point.name);
  return join(names, ", ");
}

/// The neighbours that exist, nearest first.
std::string nearest(const std::vector<Entry> &entries, size_t wanted, bool optimised) {
  std::vector<std::string> names;
  for (size_t distance = 1; distance < points().size() && names.size() < 2; ++distance)
    for (int sign : {-1, 1}) {
      int at = int(wanted) + sign * int(distance);
      if (at >= 0 && at < int(points().size()) && resolve(entries, points()[at], optimised))
        names.push_back(points()[at].name);
    }
  return join(names, ", ");
}

} // namespace

Place findPoint(const std::vector<Entry> &entries, StringRef name, bool optimised) {
  for (size_t i = 0; i < points().size(); ++i) {
    const Point &point = points()[i];
    if (name != point.name)
      continue;
    if (std::optional<Place> place = resolve(entries, point, optimised))
      return *place;
    fail(ExitAnchor, "point '" + name + "' does not exist in this pipeline (target and level); nearest: " +
                         nearest(entries, i, optimised));
  }
  fail(ExitPoint, "unknown point '" + name + "'; there are: " + available(entries, optimised));
}

void listPoints(raw_ostream &out, const std::vector<Entry> &entries, bool optimised) {
  for (const Point &point : points()) {
    std::string where = "-";
    if (std::optional<Place> place = resolve(entries, point, optimised)) {
      const Entry &entry = entries[place->index];
      bool printer = int(place->index) == printerIndex(entries);
      where = std::string(place->after ? "after " : "before ") + (printer ? PrinterAnchor : entry.name);
    }
    out << left_justify(point.name, 13) << " " << left_justify(where, 36) << " " << point.state << "\n";
  }
}

} // namespace fly
