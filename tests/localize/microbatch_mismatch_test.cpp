#include "localize/microbatch_mismatch.h"

#include <optional>
#include <sstream>

#include "localize/two_runs.h"
#include "report/text_report.h"
#include "support/catch.h"

namespace ttrace::localize::microbatch_mismatch_test {
namespace {

using comparison::MicrobatchMismatch;
using test::TwoRuns;
using test::Values;
using trace::Kind;

trace::TensorEntry entry_of(Kind kind, const std::string& name, std::uint64_t microbatch,
                            tensor::Shape shape, tensor::DType dtype = tensor::DType::kFloat32) {
  trace::TensorEntry entry = ttrace::test::make_entry(name, std::move(shape), kind, dtype);
  entry.key.microbatch = microbatch;
  return entry;
}

trace::TensorEntry ids_of(std::uint64_t microbatch) {
  return entry_of(Kind::kInput, "(model)", microbatch, {4}, tensor::DType::kInt64);
}

trace::TensorEntry loss_of(std::uint64_t microbatch) {
  return entry_of(Kind::kLoss, "loss", microbatch, {});
}

// The inputs and the loss of the data with number n.
Values ids_with(double n) { return {n, 2 * n, 3, 4}; }
Values loss_with(double n) { return {4.5 + n / 16}; }

// A main gradient that both have alike, and a micro-batch for every number of data.
TwoRuns runs_of(const std::vector<int>& reference, const std::vector<int>& candidate,
                bool inputs = true) {
  TwoRuns runs;
  runs.put(ttrace::test::make_entry("fc.weight", {3}, Kind::kMainGrad), {1, 2, 3});
  const auto put = [inputs](ttrace::test::MemoryTrace& trace, const std::vector<int>& data) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (inputs) trace.put(ids_of(i), ids_with(data[i]));
      trace.put(loss_of(i), loss_with(data[i]));
    }
  };
  put(runs.reference(), reference);
  put(runs.candidate(), candidate);
  return runs;
}

using Swapped = std::map<std::uint64_t, std::uint64_t>;

TEST_CASE("micro-batches that one run lacks are counted") {
  const auto report = runs_of({0, 1}, {0, 1, 2, 3}).compared();
  REQUIRE(report.microbatches);
  CHECK(report.microbatches->reference == std::vector<std::uint64_t>{0, 1});
  CHECK(report.microbatches->candidate == std::vector<std::uint64_t>{0, 1, 2, 3});
  CHECK(report.microbatches->swapped.empty());
  CHECK(describe_mismatch(*report.microbatches) ==
        "the candidate has 4 micro-batches in step 0, the reference 2");
  // Each is one finding with all of its tensors.
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[0].one_sided_group == "micro-batch 2 (step 0)");
  CHECK(report.findings[0].members.size() == 2);

  const auto fewer = runs_of({0, 1, 2}, {0}).compared();
  REQUIRE(fewer.microbatches);
  CHECK(describe_mismatch(*fewer.microbatches) ==
        "the candidate has 1 micro-batch in step 0, the reference 3");
}

TEST_CASE("as many micro-batches under other numbers are named") {
  TwoRuns runs;
  runs.put(ttrace::test::make_entry("fc.weight", {3}, Kind::kMainGrad), {1, 2, 3});
  runs.reference().put(loss_of(0), {1});
  runs.reference().put(loss_of(1), {2});
  runs.candidate().put(loss_of(1), {2});
  runs.candidate().put(loss_of(2), {1});
  const auto report = runs.compared();
  REQUIRE(report.microbatches);
  CHECK(describe_mismatch(*report.microbatches) ==
        "the candidate has micro-batches 1 and 2 in step 0, the reference 0 and 1");
}

TEST_CASE("equal inputs, or equal losses, show another order of micro-batches") {
  for (const bool inputs : {true, false}) {
    const auto report = runs_of({0, 1, 2, 3}, {0, 2, 1, 3}, inputs).compared();
    REQUIRE(report.microbatches);
    CHECK(report.microbatches->swapped == Swapped{{1, 2}, {2, 1}});
    CHECK(report.results[*report.microbatches->shown_by].key.kind ==
          (inputs ? Kind::kInput : Kind::kLoss));
    CHECK(describe_mismatch(*report.microbatches) ==
          "micro-batches 1 and 2 of the candidate are 2 and 1 of the reference");
  }
  // All of them, dealt in turn instead of by block.
  const auto dealt = runs_of({0, 1, 2, 3, 4, 5}, {0, 2, 4, 1, 3, 5}).compared();
  REQUIRE(dealt.microbatches);
  CHECK(dealt.microbatches->swapped == Swapped{{1, 2}, {2, 4}, {3, 1}, {4, 3}});
}

TEST_CASE("the loss tells the order where the first divergence has another reason") {
  TwoRuns runs = runs_of({0, 1}, {1, 0}, false);
  for (const int i : {0, 1}) {
    const auto output = entry_of(Kind::kOutput, "fc", static_cast<std::uint64_t>(i), {2});
    runs.reference().put(output, {1.0 + i, 2});
    runs.candidate().put(output, {7.0 + i, 5});
  }
  const auto report = runs.compared();
  REQUIRE(report.microbatches);
  CHECK(report.results[*report.microbatches->shown_by].key.kind == Kind::kLoss);
}

TEST_CASE("values that are of no micro-batch, or of several, tell no order") {
  CHECK_FALSE(runs_of({0, 1, 2}, {0, 2, 9}).compared().microbatches);
  CHECK_FALSE(runs_of({0, 1, 1}, {1, 0, 0}).compared().microbatches);
  CHECK_FALSE(runs_of({0, 1, 2}, {0, 1, 2}).compared().microbatches);
}

TEST_CASE("what a run was not asked for is no mismatch") {
  TwoRuns runs = runs_of({0, 1}, {0, 1});
  runs.put(ttrace::test::make_entry("fc.bias", {1}, Kind::kMainGrad), {1}, {2});
  CHECK(runs.compared().verdict == answer::Verdict::kWrong);
  CHECK_FALSE(runs.compared().microbatches);

  TwoRuns gradients_alone;
  gradients_alone.put(ttrace::test::make_entry("fc.bias", {1}, Kind::kMainGrad), {1}, {2});
  gradients_alone.reference().put(loss_of(0), {1});
  CHECK_FALSE(gradients_alone.compared().microbatches);
}

TEST_CASE("the first line tells the mismatch and a paragraph what to do") {
  const auto text_of = [](const comparison::CompareReport& report) {
    std::ostringstream out;
    report::write_text(report, {}, out);
    return out.str();
  };
  const std::string counted = text_of(runs_of({0, 1}, {0, 1, 2, 3}).compared());
  CHECK(counted.starts_with(
      "DIVERGED  the candidate has 4 micro-batches in step 0, the reference 2; the candidate "
      "alone has micro-batch 2 (step 0) ("));
  CHECK(counted.find("\n  do       candidate 0, 1, 2 and 3, reference 0 and 1; let") !=
        std::string::npos);
  const std::string swapped = text_of(runs_of({0, 1}, {1, 0}).compared());
  CHECK(swapped.starts_with(
      "DIVERGED  micro-batches 0 and 1 of the candidate are 1 and 0 of the reference; "));
  CHECK(swapped.find("shown by (model) · input · step 0 · mb 0; number them alike") !=
        std::string::npos);
}

}  // namespace
}  // namespace ttrace::localize::microbatch_mismatch_test
