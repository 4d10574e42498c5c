#include "localize/explain.h"

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::explain_test {
namespace {

using comparison::CompareReport;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using trace::Kind;

const std::vector<double> kRight{1, 2, 3, 4, 5, 6, 7, 8};
const std::vector<double> kTwice{2, 4, 6, 8, 10, 12, 14, 16};

// fc with its weight through a step; `spoiled` tensors of the candidate are doubled.
class Step {
 public:
  Step() : reference_({}, "ref"), candidate_(make_mesh({{"tp", 2}}), "run") {
    trace::Module fc;
    fc.name = "fc";
    fc.class_name = "Linear";
    fc.called_at = "model.py:7";
    fc.params = {"fc.weight"};
    reference_.edit().modules = {fc};
  }

  void put(const std::string& name, Kind kind, const std::vector<double>& candidate,
           trace::Placement placement = trace::Replicate{}) {
    trace::TensorEntry entry = make_entry(name, {8}, kind);
    reference_.put(entry, kRight);
    entry.placements["tp"] = std::move(placement);
    candidate_.put(entry, candidate);
  }
  void put_missing(const std::string& name, Kind kind) {
    reference_.put(make_entry(name, {8}, kind), kRight);
  }
  MemoryTrace& candidate() { return candidate_; }
  CompareReport compared(const comparison::Selection& selection = {}) const {
    return engine::compare_traces(reference_, candidate_, {}, {selection, 1});
  }

 private:
  MemoryTrace reference_;
  MemoryTrace candidate_;
};

TEST_CASE("a finding knows its code, what came before and what follows") {
  Step step;
  step.put("fc", Kind::kInput, kRight);
  step.put("fc", Kind::kGradOutput, kRight);
  step.put("fc.weight", Kind::kParamGrad, kRight, trace::Partial{});
  step.put("fc.weight", Kind::kMainGrad, kTwice);
  step.put("fc.weight", Kind::kParamAfterStep, kTwice);
  const CompareReport out = step.compared();
  REQUIRE(out.findings.size() == 1);
  const comparison::ComparedFinding& finding = out.findings[0];
  CHECK(out.results[finding.result].key.kind == Kind::kMainGrad);
  CHECK(finding.class_name == "Linear");
  CHECK(finding.called_at == "model.py:7");
  CHECK(finding.before == "param_grad of the same parameter matches as a partial sum over tp");
  REQUIRE(finding.downstream.size() == 1);
  CHECK(out.results[finding.downstream[0]].key.kind == Kind::kParamAfterStep);
  REQUIRE(finding.causes.size() == 1);
  CHECK(finding.causes[0].name == "scaled");
  CHECK(finding.causes[0].axis == "tp");
  CHECK(finding.merged == "2 × [8] -> [8], replicas over tp");
}

TEST_CASE("a finding that nothing comes before says so") {
  Step step;
  step.put("fc.weight", Kind::kParam, kTwice);
  CHECK(step.compared().findings[0].before == "nothing that was recorded comes before it");
}

TEST_CASE("what did not match before is named first") {
  Step step;
  step.put("fc", Kind::kInput, kRight);
  step.put("fc.weight", Kind::kParam, kRight);
  step.put("fc", Kind::kOutput, kTwice);
  comparison::Selection selection;
  selection.kinds = {Kind::kParam, Kind::kOutput};
  const CompareReport out = step.compared(selection);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].before ==
        "input of the same module was skipped; param of fc.weight matches");
}

TEST_CASE("what was skipped before is not told to match") {
  Step step;
  for (std::uint64_t mb = 0; mb < 6; ++mb) {
    trace::TensorEntry entry = make_entry("fc.weight", {8}, Kind::kParamGrad);
    entry.key.microbatch = mb;
    step.candidate().put(entry, kRight);
  }
  step.put("fc.weight", Kind::kMainGrad, kTwice);
  comparison::Selection only_main;
  only_main.kinds = {Kind::kMainGrad};
  const CompareReport out = step.compared(only_main);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].before.find("was skipped (6 of them)") != std::string::npos);
  CHECK(out.findings[0].before.find("that match") == std::string::npos);
}

TEST_CASE("missing tensors are members of one finding without numbers") {
  Step step;
  step.put("head", Kind::kOutput, kRight);
  step.put("head", Kind::kInput, kRight);
  step.put("head.weight", Kind::kParam, kRight);
  step.put_missing("fc", Kind::kInput);
  step.put_missing("fc", Kind::kOutput);
  step.put_missing("fc.weight", Kind::kParam);
  const CompareReport out = step.compared();
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].one_sided_group == "fc (step 0)");
  CHECK(out.findings[0].members.size() == 3);
  CHECK(out.findings[0].causes.empty());
  CHECK(out.findings[0].where.empty());
}

TEST_CASE("integers get no cause, a difference is a difference") {
  MemoryTrace reference;
  MemoryTrace candidate;
  const trace::TensorEntry ids = make_entry("ids", {8}, Kind::kInput, tensor::DType::kInt64);
  reference.put(ids, kRight);
  candidate.put(ids, kTwice);
  const CompareReport out = engine::compare_traces(reference, candidate, {}, {{}, 1});
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].causes.empty());
}

TEST_CASE("the largest difference is found on the rank that holds it") {
  Step step;
  std::vector<double> values = kRight;
  values[6] = 9;
  step.put("fc", Kind::kOutput, values, trace::Shard{0, std::nullopt});
  const CompareReport out = step.compared();
  CHECK(out.results[0].comparison->measurement.largest_place->rank == 1);
  CHECK(out.results[0].comparison->measurement.largest_place->local == tensor::Shape{2});

  Step copies;
  copies.put("fc", Kind::kOutput, values);
  CHECK(copies.compared().results[0].comparison->measurement.largest_place->rank == 0);
}

}  // namespace
}  // namespace ttrace::localize::explain_test
