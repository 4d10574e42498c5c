#include "audit/consequences.h"

#include "specification/specifications.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::audit::consequences_test {
namespace {

using test::make_entry;
using trace::Kind;

// The gradient of the head is twice its output.
specification::Specification doubled() {
  return test::specification_of(
      R"({"inputs": 1, "nodes": [["add", [0, 0], {}, "float32", [2]]]})",
      R"({"kind": "output", "name": "head", "dtype": "float32", "shape": [2]},
         {"kind": "grad_output", "name": "head", "dtype": "float32", "shape": [2],
          "pattern": 0, "from": [0]})");
}

localize::LocalizedFinding diverged(const trace::TensorKey& key) {
  localize::LocalizedFinding finding;
  finding.outcome = "diverged";
  finding.title = to_string(key);
  finding.shown = key;
  finding.keys = {key};
  return finding;
}

// A report of two findings: the head's output and its gradient.
struct Pair {
  trace::TensorKey output = make_entry("head", {2}).key;
  trace::TensorKey gradient = make_entry("head", {2}, Kind::kGradOutput).key;
  trace::Manifest manifest;
  std::vector<AuditedTensor> judged;
  localize::LocalizeReport report;

  Pair() {
    for (const trace::TensorKey& key : {output, gradient}) {
      trace::TensorEntry entry = make_entry("head", {2}, key.kind);
      manifest.tensors.push_back(entry);
      report.comparison.bad.push_back(key);
      report.comparison.findings.push_back(diverged(key));
      report.findings.push_back(diverged(key));
    }
    AuditedTensor tensor;
    tensor.key = gradient;
    tensor.outcome = AuditOutcome::kHolds;
    tensor.checks.emplace_back();
    tensor.checks.back().operation = "expression";
    judged.push_back(tensor);
  }

  std::size_t findings() {
    set_consequences_apart(doubled(), manifest, judged, report);
    return report.findings.size();
  }
};

TEST_CASE("a gradient that follows from a diverged output is a consequence") {
  Pair pair;
  CHECK(pair.findings() == 1);
  CHECK(pair.report.findings[0].keys == std::vector{pair.output});
  CHECK(pair.report.consequences == std::vector<std::string>{to_string(pair.gradient)});
}

TEST_CASE("a gradient that does not follow from the diverged output stays a finding") {
  Pair broken;
  broken.judged[0].outcome = AuditOutcome::kBroken;
  CHECK(broken.findings() == 2);
  Pair unjudged;
  unjudged.judged[0].checks[0].operation = "replicas";
  CHECK(unjudged.findings() == 2);
}

TEST_CASE("what reads right values is no consequence, and one finding stays") {
  Pair right;
  right.report.comparison.bad = {right.gradient};
  CHECK(right.findings() == 2);
  // A layout that is declared wrongly does not reach what is computed.
  Pair slip;
  slip.report.comparison.findings[0].causes = {{"wrong_layout_declared", "tp", "", 0}};
  CHECK(slip.findings() == 2);
  Pair alone;
  alone.report.findings.erase(alone.report.findings.begin());
  CHECK(alone.findings() == 1);
  CHECK(alone.report.consequences.empty());
}

}  // namespace
}  // namespace ttrace::audit::consequences_test
