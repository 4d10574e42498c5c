// A reference and a candidate in memory, compared as `ttrace compare` does: what causes it names.
#pragma once

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "base/message.h"
#include "engine/compare_traces.h"
#include "localize/case_for_test.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::test {

using namespace ttrace::test;  // `test::` in this room means both

using Values = std::vector<double>;
using Placements = std::map<std::string, trace::Placement>;

// Every number of the evidence is a value, or stands in one.
inline void check_numbers(const Cause& cause) {
  INFO(cause.name << ": " << cause.evidence);
  std::vector<std::string> values;
  for (const auto& [name, value] : cause.values) {
    values.push_back(base::render({"{value}", {{"value", value}}}));
  }
  const std::regex number("[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?");
  for (std::sregex_iterator at(cause.evidence.begin(), cause.evidence.end(), number), end;
       at != end; ++at) {
    const std::string text = at->str();
    CAPTURE(text);
    CHECK(std::any_of(values.begin(), values.end(), [&text](const std::string& value) {
      return value.find(text) != std::string::npos;
    }));
  }
}

class TwoRuns {
 public:
  explicit TwoRuns(trace::Mesh mesh = {}) : reference_({}, "ref"), candidate_(mesh, "run") {}

  void put(trace::TensorEntry entry, const Values& reference, const Values& candidate,
           const Placements& placements = {}) {
    reference_.put(entry, reference);
    entry.placements = placements;
    candidate_.put(entry, candidate);
  }
  void put(trace::TensorEntry entry, const Values& both) { put(std::move(entry), both, both); }
  MemoryTrace& reference() { return reference_; }
  MemoryTrace& candidate() { return candidate_; }

  comparison::CompareReport compared() const {
    return engine::compare_traces(reference_, candidate_, {}, {{}, 1});
  }
  // Of the first finding; none if there is none.
  std::vector<Cause> causes() const {
    const comparison::CompareReport report = compared();
    if (report.findings.empty()) return {};
    for (const Cause& cause : report.findings[0].causes) check_numbers(cause);
    return report.findings[0].causes;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const Cause& cause : causes()) found.push_back(cause.name);
    return found;
  }

 private:
  MemoryTrace reference_;
  MemoryTrace candidate_;
};

using Names = std::vector<std::string>;

// What the finders see of a finding, for finders that no comparison of two small traces asks.
class FindingInView {
 public:
  FindingInView(TwoRuns& runs, const std::string& name, trace::Kind kind)
      : report_(runs.compared()), related_(report_.results, runs.reference(), runs.candidate()) {
    for (const comparison::TensorComparison& result : report_.results) {
      if (result.key.name == name && result.key.kind == kind) made_.result = &result;
    }
    made_.backend = &measure::cpu_backend();
    made_.related = &related_;
    made_.reference = related_.reference(*made_.result);
    made_.candidate = related_.candidate(*made_.result);
    made_.measurement = &made_.result->comparison->measurement;
    made_.tolerance = made_.result->comparison->tolerance;
    made_.conflict = made_.result->outcome == judge::Outcome::kReplicaConflict;
  }

  const Case& the_case() const { return made_; }

 private:
  comparison::CompareReport report_;
  Related related_;
  Case made_;
};

// Slice i along the first dimension of `values` ([rows, width]) is slice order[i].
inline Values rows_in_order(const Values& values, std::size_t width,
                            const std::vector<std::size_t>& order) {
  Values made;
  for (const std::size_t row : order) {
    made.insert(made.end(), values.begin() + static_cast<std::ptrdiff_t>(row * width),
                values.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
  }
  return made;
}

}  // namespace ttrace::localize::test
