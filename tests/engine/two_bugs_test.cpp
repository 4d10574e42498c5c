// Two planted bugs in one run: both are named.
#include <cmath>

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::two_bugs_test {
namespace {

using comparison::CompareReport;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

constexpr std::size_t kModules = 5;
constexpr std::size_t kElements = 64;

std::string module_name(std::size_t i) { return "m" + std::to_string(i); }

// A chain of modules, y = 2·x in every one. `off[i]` is added to the output of module i;
// `rewritten`: a plan gives every module the same inputs in all runs.
MemoryTrace chain(const std::vector<double>& off, bool rewritten = false) {
  MemoryTrace trace;
  std::vector<double> x(kElements);
  for (std::size_t k = 0; k < kElements; ++k) x[k] = std::sin(1.0 + static_cast<double>(k));
  const std::vector<double> given = x;
  for (std::size_t i = 0; i < kModules; ++i) {
    if (rewritten) x = given;
    trace.put(make_entry(module_name(i), {kElements}, Kind::kInput), x);
    for (std::size_t k = 0; k < kElements; ++k) {
      x[k] = 2 * x[k] + off[i] * std::cos(static_cast<double>(k * (i + 1)));
    }
    trace.put(make_entry(module_name(i), {kElements}, Kind::kOutput), x);
    trace::Module module;
    module.name = module_name(i);
    if (i > 0) module.inputs = {module_name(i - 1)};
    trace.edit().modules.push_back(module);
  }
  return trace;
}

CompareReport compared(const std::vector<double>& off, bool rewritten = false) {
  const MemoryTrace reference = chain(std::vector<double>(kModules, 0), rewritten);
  const MemoryTrace candidate = chain(off, rewritten);
  return compare_traces(reference, candidate, {}, {});
}

std::vector<std::string> found_in(const CompareReport& report) {
  std::vector<std::string> names;
  for (const comparison::ComparedFinding& finding : report.findings) {
    names.push_back(report.results[finding.result].key.name);
  }
  return names;
}

std::vector<std::string> suspected_in(const CompareReport& report) {
  std::vector<std::string> names;
  for (const answer::Suspect& suspect : report.suspects) {
    names.push_back(suspect.key.name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("one bug is one finding and no second suspect") {
  const CompareReport report = compared({0, 0.3, 0, 0, 0});
  CHECK(found_in(report) == Names{"m1"});
  CHECK(report.suspects.empty());
}

TEST_CASE("a second bug with a much larger error is a second suspect") {
  const CompareReport report = compared({0, 4e-4, 0, 0.5, 0});
  CHECK(found_in(report) == Names{"m1"});
  CHECK(suspected_in(report) == Names{"m3"});
  CHECK(report.suspects[0].used > 30 * report.suspects[0].used_before);
}

TEST_CASE("in a rewritten run equal inputs make both bugs findings, whatever their sizes") {
  const CompareReport report = compared({0, 0.5, 0, 4e-4, 0}, true);
  CHECK(found_in(report) == Names{"m1", "m3"});
  CHECK(report.suspects.empty());
}

TEST_CASE("an output with equal bits passes no blame on") {
  // Module 2 undoes what module 1 did, so module 4 is wrong by itself.
  std::vector<double> undone{0, 0.5, 0, 0, 0.25};
  const MemoryTrace reference = chain(std::vector<double>(kModules, 0));
  MemoryTrace candidate = chain(undone);
  for (const std::size_t i : {2, 3, 4}) {
    for (const Kind kind : {Kind::kInput, Kind::kOutput}) {
      if (i == 2 && kind == Kind::kInput) continue;
      const trace::TensorEntry entry = make_entry(module_name(i), {kElements}, kind);
      std::vector<double> x(kElements);
      for (std::size_t k = 0; k < kElements; ++k) {
        const double before = std::sin(1.0 + static_cast<double>(k));
        x[k] = std::ldexp(before, static_cast<int>(i) + (kind == Kind::kOutput ? 1 : 0));
        if (i == 4 && kind == Kind::kOutput) x[k] += 0.25 * std::cos(static_cast<double>(k * 5));
      }
      candidate.put_shard(entry, 0, x);
    }
  }
  const CompareReport report = compare_traces(reference, candidate, {}, {});
  CHECK(found_in(report) == Names{"m1", "m4"});
}

}  // namespace
}  // namespace ttrace::engine::two_bugs_test
