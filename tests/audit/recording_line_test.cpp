#include "audit/recording_line.h"

#include "base/files.h"
#include "base/text.h"
#include "localize/two_runs.h"
#include "support/catch.h"

namespace ttrace::audit::recording_line_test {
namespace {

using localize::test::TwoRuns;
using test::make_entry;
using trace::Kind;

trace::Module module_named(const std::string& name) {
  trace::Module module;
  module.name = name;
  return module;
}

// Two runs that differ in a main gradient, and were told to record these kinds.
TwoRuns runs_with(const std::string& parameter, const std::vector<Kind>& of_reference,
                  const std::vector<Kind>& of_candidate) {
  TwoRuns runs;
  runs.put(make_entry(parameter, {2}, Kind::kMainGrad), {1, 2}, {1, 3});
  runs.put(make_entry("loss", {}, Kind::kLoss), {1});
  for (auto* trace : {&runs.reference(), &runs.candidate()}) {
    trace->edit().modules = {module_named("(model)"), module_named("layers.1"),
                             module_named("layers.1.fc"), module_named("layers.10"),
                             module_named("norm")};
  }
  runs.reference().edit().run.recorded = trace::Recorded{of_reference, {}, {0}};
  runs.candidate().edit().run.recorded = trace::Recorded{of_candidate, {}, {0}};
  return runs;
}

std::string line_of(const TwoRuns& runs) {
  const comparison::CompareReport report = runs.compared();
  REQUIRE(report.findings.size() == 1);
  return report.findings[0].record_next;
}

const std::vector<Kind> kFew{Kind::kMainGrad, Kind::kLoss};
const std::vector<Kind> kAll{Kind::kInput,      Kind::kOutput,    Kind::kLoss,
                             Kind::kGradOutput, Kind::kParamGrad, Kind::kMainGrad};

TEST_CASE("a finding on a main gradient names the settings that record its layer") {
  const std::string kinds = "TTRACE_KINDS=grad_output,input,loss,main_grad,output,param_grad";
  CHECK(line_of(runs_with("layers.1.fc.weight", kFew, kFew)) ==
        kinds + " TTRACE_MODULES=layers.1,layers.1.*");
  CHECK(line_of(runs_with("layers.10.weight", kFew, kFew)) == kinds + " TTRACE_MODULES=layers.10");
  CHECK(line_of(runs_with("norm.weight", kFew, kFew)) == kinds + " TTRACE_MODULES=norm");
  CHECK(line_of(runs_with("scale", kFew, kFew)) == kinds + " TTRACE_MODULES=(model)");
  // One run that lacks them is enough.
  CHECK(line_of(runs_with("norm.weight", kFew, kAll)) == kinds + " TTRACE_MODULES=norm");
}

TEST_CASE("nothing is named where nothing is lacking or known") {
  CHECK(line_of(runs_with("norm.weight", kAll, kAll)).empty());
  // A module of which the candidate knows nothing: the collector would refuse the pattern.
  CHECK(line_of(runs_with("other.weight", kFew, kFew)).empty());
  TwoRuns unsaid = runs_with("norm.weight", kFew, kFew);
  unsaid.candidate().edit().run.recorded.reset();
  CHECK(line_of(unsaid).empty());
  TwoRuns of_loss;
  of_loss.put(make_entry("loss", {}, Kind::kLoss), {1}, {2});
  for (auto* trace : {&of_loss.reference(), &of_loss.candidate()}) {
    trace->edit().run.recorded = trace::Recorded{kFew, {}, {0}};
  }
  CHECK(line_of(of_loss).empty());
}

TEST_CASE("a line names only kinds that the collector takes") {
  trace::Manifest manifest;
  manifest.tensors = {make_entry("fc", {2}, Kind::kOutput), make_entry("mean", {2}, Kind::kBuffer)};
  const auto key_of = [](Kind kind, const char* name) {
    trace::TensorKey key;
    key.kind = kind;
    key.name = name;
    return key;
  };
  CHECK(recording_line(manifest, {key_of(Kind::kBuffer, "variance")}).empty());
  CHECK(recording_line(manifest, {key_of(Kind::kBuffer, "variance"), key_of(Kind::kInput, "fc")}) ==
        "TTRACE_KINDS=buffer,input,output");
  CHECK(recording_line(manifest, {key_of(Kind::kGradInput, "fc")}).empty());
}

TEST_CASE("the collector records the kinds that its own list has") {
  const std::string file =
      std::string(TTRACE_SOURCE_DIR) + "/lib/torch/ttrace_torch/capture/selection.py";
  std::string list = base::read_text(file);
  list = list.substr(list.find("KINDS = ("));
  list.resize(list.find(")\n"));
  for (const Kind kind : trace::kAllKinds) {
    CAPTURE(trace::kind_name(kind));
    const bool listed = list.find(base::concat("\"", kind_name(kind), "\"")) != list.npos;
    CHECK(collector_records(kind) == listed);
  }
}

}  // namespace
}  // namespace ttrace::audit::recording_line_test
