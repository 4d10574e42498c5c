#include "optimizer/masters.h"

#include <algorithm>
#include <limits>

#include "comparison/coverage.h"
#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::optimizer::masters_test {
namespace {

using comparison::CompareReport;
using comparison::TensorComparison;
using judge::Outcome;
using tensor::DType;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

using Values = std::vector<double>;

// A step of SGD with lr 0.5, in float64, of masters of a float32 parameter.
struct Run {
  Values parameter{1, 2, 3, 4};
  Values master{1, 2, 3, 4};
  bool has_master = true;
  DType held = DType::kFloat32;
  std::string optimizer = "sgd";

  MemoryTrace made() const {
    MemoryTrace trace(test::make_mesh({{"dp", 2}}));
    const auto put = [&](const std::string& name, Kind kind, const Values& values, DType dtype) {
      trace::TensorEntry entry = make_entry(name, {values.size()}, kind, dtype);
      entry.placements = {{"dp", trace::Replicate{}}};
      trace.put(entry, values);
    };
    const Values gradient{4, 2, -2, 8};
    Values after;
    for (std::size_t i = 0; i < master.size(); ++i) after.push_back(master[i] - 0.5 * gradient[i]);
    put("w", Kind::kParam, parameter, held);
    put("w", Kind::kMainGrad, gradient, DType::kFloat32);
    put("w", Kind::kParamAfterStep, after, held);
    if (has_master) put("w.main_param", Kind::kOptimizerState, master, DType::kFloat64);
    trace::OptimizerGroup group;
    group.type = optimizer;
    group.numbers = {{"lr", 0.5}, {"updates", 1}};
    group.params = {"w"};
    trace.edit().optimizer = {group};
    return trace;
  }
};

CompareReport compared(const Run& reference, const Run& candidate) {
  return engine::compare_traces(reference.made(), candidate.made(), {}, {{}, {1}});
}

const TensorComparison& update_of(const CompareReport& report) {
  for (const TensorComparison& result : report.results) {
    if (result.key.kind == Kind::kParamAfterStep) return result;
  }
  throw std::logic_error("no updated parameter");
}

bool is_blamed(const CompareReport& report) {
  const TensorComparison& update = update_of(report);
  const auto& replay = update.comparison->replay;
  return update.outcome == Outcome::kDiverged && replay && replay->of == comparison::kOfMaster;
}

// Without masters of its own: a reference in full precision, as on one process.
Run plain() {
  Run run;
  run.has_master = false;
  return run;
}

TEST_CASE("a master that is what the model holds, rounded, is none to speak of") {
  Run run;
  run.master = {1 + 0x1p-26, 2 - 0x1p-27, 3 + 0x1p-24, 4};
  run.parameter = {1, 2, 3, 4};
  Run same = plain();
  CHECK_FALSE(is_blamed(compared(same, run)));
  // A rounding at random takes either number beside it.
  run.parameter[0] = 1 + 0x1p-23;
  CHECK_FALSE(is_blamed(compared(same, run)));
}

TEST_CASE("a master that the model does not hold is found, and named") {
  Run stale;
  stale.master = {1, 2.25, 3, 4};
  for (const char* optimizer : {"sgd", "muon"}) {
    Run reference = plain();
    reference.optimizer = stale.optimizer = optimizer;
    const CompareReport report = compared(reference, stale);
    CHECK(is_blamed(report));
    CHECK(update_of(report).comparison->replay->outside == 1);
    std::vector<std::string> causes;
    for (const auto& finding : report.findings) {
      if (&report.results[finding.result] != &update_of(report)) continue;
      for (const auto& cause : finding.causes) causes.push_back(cause.name);
    }
    CHECK(causes == std::vector<std::string>{"stale_master"});
  }
}

TEST_CASE("masters that are zero, not finite or of the next parameter are found") {
  for (const Values& master : {Values{0, 0, 0, 0}, Values{2, 3, 4, 1},
                               Values{1, 2, std::numeric_limits<double>::quiet_NaN(), 4}}) {
    Run stale;
    stale.master = master;
    CHECK(update_of(compared(plain(), stale)).outcome == Outcome::kDiverged);
  }
}

TEST_CASE("a master that the reference has, too, is the finding, and no rule of a person") {
  Run stale;
  stale.master = {1, 2.25, 3, 4};
  const CompareReport report = compared(Run(), stale);
  const auto found = std::ranges::find_if(report.results, [](const TensorComparison& result) {
    return result.key.kind == Kind::kOptimizerState;
  });
  REQUIRE(found != report.results.end());
  CHECK(found->outcome == Outcome::kDiverged);
  CHECK(found->comparison->replay->of == comparison::kOfMaster);
  CHECK(comparison::coverage_of(report).start_by_policy.empty());
}

TEST_CASE("a copy of the same type must be equal") {
  Run run;
  Run reference = plain();
  run.held = reference.held = DType::kFloat64;
  CHECK_FALSE(is_blamed(compared(reference, run)));
  run.master[1] = 2 + 0x1p-30;
  CHECK(is_blamed(compared(reference, run)));
}

TEST_CASE("masters that mean something else in the reference, too, are left alone, and told") {
  Run other;
  other.master = {3, 2.25, 3, 4};
  const CompareReport report = compared(other, other);
  CHECK_FALSE(is_blamed(report));
  REQUIRE_FALSE(report.warnings.empty());
  CHECK(report.warnings.back().find("are not what the model holds, in either run") !=
        std::string::npos);
}

}  // namespace
}  // namespace ttrace::optimizer::masters_test
