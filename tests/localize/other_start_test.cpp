#include "localize/other_start.h"

#include <optional>
#include <sstream>

#include "localize/two_runs.h"
#include "report/text_report.h"
#include "support/catch.h"

namespace ttrace::localize::other_start_test {
namespace {

using comparison::OtherStart;
using test::TwoRuns;
using test::Values;
using trace::Kind;

trace::TensorEntry parameter(const std::string& name, tensor::Shape shape) {
  return ttrace::test::make_entry(name, std::move(shape), Kind::kParam);
}

trace::TensorEntry input(std::uint64_t microbatch) {
  trace::TensorEntry entry =
      ttrace::test::make_entry("(model)", {4}, Kind::kInput, tensor::DType::kInt64);
  entry.key.microbatch = microbatch;
  return entry;
}

const Values kWeight{1, -2, 3, 0.5, 7, -6, 2, 9};
const Values kOtherWeight{-4, 1, 0.25, 3, -2, 8, 5, 1};

// Three weights, of which `others` were drawn with another seed, and two constant biases.
TwoRuns with_other_weights(int others) {
  TwoRuns runs;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "layers." + std::to_string(i);
    runs.put(parameter(name + ".weight", {2, 4}), kWeight, i < others ? kOtherWeight : kWeight);
    if (i > 0) runs.put(parameter(name + ".bias", {2}), {0, 0}, {0, 0});
  }
  return runs;
}

std::string text_of(const comparison::CompareReport& report) {
  std::ostringstream out;
  report::write_text(report, {}, out);
  return out.str();
}

TEST_CASE("weights of another seed lead the report and nothing else is listed") {
  const auto report = with_other_weights(3).compared();
  REQUIRE(report.other_start);
  CHECK(report.other_start->what == OtherStart::What::kWeights);
  CHECK(report.other_start->differ == 3);
  CHECK(report.other_start->of == 5);
  CHECK(report.findings.size() == 3);
  CHECK(
      text_of(report).starts_with("DIVERGED  the runs do not start from the same weights (3 of 5 "
                                  "parameters differ)"));
  CHECK(text_of(report).find("cause") == std::string::npos);
}

TEST_CASE("most of the matrices are enough, less than that is not") {
  CHECK(with_other_weights(2).compared().other_start);
  CHECK_FALSE(with_other_weights(1).compared().other_start);
  CHECK_FALSE(with_other_weights(0).compared().other_start);
}

TEST_CASE("weights with a cause of their own are no other weights") {
  TwoRuns runs;
  for (const char* name : {"a.weight", "b.weight", "c.weight"}) {
    Values twice = kWeight;
    for (double& value : twice) value *= 2;
    runs.put(parameter(name, {2, 4}), kWeight, twice);
  }
  const auto report = runs.compared();
  CHECK(report.findings.size() == 3);
  CHECK_FALSE(report.other_start);
}

// A layer, dropout behind it, and a head; `candidate` is what dropout gives there.
TwoRuns with_dropout(const Values& layer, const Values& candidate, const char* class_name) {
  TwoRuns runs;
  const auto output = [](const char* name) {
    return ttrace::test::make_entry(name, {8}, Kind::kOutput);
  };
  runs.put(output("fc"), kWeight, layer);
  runs.put(output("drop"), {2, 0, 4, 1, 14, 0, 4, 18}, candidate);
  runs.put(output("head"), kWeight, kOtherWeight);
  for (auto* trace : {&runs.reference(), &runs.candidate()}) {
    trace::Module fc;
    fc.name = "fc";
    trace::Module drop;
    drop.name = "drop";
    drop.class_name = class_name;
    drop.inputs = {"fc"};
    trace::Module head;
    head.name = "head";
    head.inputs = {"drop"};
    trace->edit().modules = {fc, drop, head};
  }
  return runs;
}

TEST_CASE("another mask of dropout leads the report") {
  const Values other_mask{0, -4, 4, 0, 14, -12, 0, 18};
  const auto report = with_dropout(kWeight, other_mask, "Dropout").compared();
  REQUIRE(report.other_start);
  CHECK(report.other_start->what == OtherStart::What::kDropout);
  CHECK(report.other_start->modules == std::vector<std::string>{"drop"});
  CHECK(text_of(report).starts_with("DIVERGED  dropout is active in drop, and no two runs draw"));
  // A module of another class, a layer before it that is wrong, and a mask scaled by 1.1 are bugs.
  CHECK_FALSE(with_dropout(kWeight, other_mask, "Mask").compared().other_start);
  CHECK_FALSE(with_dropout(kOtherWeight, other_mask, "Dropout").compared().other_start);
  const Values scaled{2.2, 0, 4.4, 1.1, 15.4, 0, 4.4, 19.8};
  CHECK_FALSE(with_dropout(kWeight, scaled, "Dropout").compared().other_start);
}

TEST_CASE("other data are told with their micro-batches") {
  TwoRuns runs = with_other_weights(0);
  runs.put(input(0), {11, 4, 7, 2}, {11, 4, 7, 2});
  runs.put(input(1), {1, 5, 9, 3}, {60, 14, 21, 38});
  const auto report = runs.compared();
  REQUIRE(report.other_start);
  CHECK(report.other_start->what == OtherStart::What::kData);
  CHECK(report.other_start->microbatches == std::vector<std::uint64_t>{1});
  CHECK(text_of(report).starts_with(
      "DIVERGED  the runs were given other data (input of micro-batch 1)"));
}

TEST_CASE("a few wrong elements of an input, or wrong weights before it, are no other data") {
  TwoRuns few = with_other_weights(0);
  few.put(input(0), {11, 4, 7, 2}, {11, 4, 7, 5});
  CHECK_FALSE(few.compared().other_start);
  TwoRuns both = with_other_weights(1);
  both.put(input(0), {1, 5, 9, 3}, {60, 14, 21, 38});
  CHECK_FALSE(both.compared().other_start);
}

TEST_CASE("one number that the model is given is no data") {
  TwoRuns runs = with_other_weights(0);
  runs.put(input(0), {11, 4, 7, 2}, {11, 4, 7, 2});
  trace::TensorEntry tokens = input(0);
  tokens.key.name = "(model)[num_items_in_batch]";
  tokens.shape = {1};
  runs.put(tokens, {64}, {32});
  const auto report = runs.compared();
  CHECK(report.findings.size() == 1);
  CHECK_FALSE(report.other_start);
}

trace::TensorEntry draw(const std::string& module) {
  return ttrace::test::make_entry(module + ".(random)", {4}, Kind::kScalar);
}

trace::TensorEntry output(const std::string& module) {
  return ttrace::test::make_entry(module, {4}, Kind::kOutput);
}

TEST_CASE("other random numbers are told where all findings are of the module that drew them") {
  TwoRuns runs = with_other_weights(0);
  runs.put(draw("drop"), {0.1, 0.2, 0.3, 0.4}, {0.5, 0.2, 0.9, 0.1});
  runs.put(output("drop"), {1, 2, 3, 4}, {0, 2, 3, 4});
  const auto report = runs.compared();
  REQUIRE(report.other_start);
  CHECK(report.other_start->what == OtherStart::What::kDraws);
  CHECK(report.other_start->modules == std::vector<std::string>{"drop"});
  CHECK(text_of(report).starts_with("DIVERGED  the runs drew other random numbers in drop: "));
}

TEST_CASE("a finding of another module is no consequence of other random numbers") {
  TwoRuns runs = with_other_weights(0);
  runs.put(draw("drop"), {0.1, 0.2, 0.3, 0.4}, {0.5, 0.2, 0.9, 0.1});
  runs.put(output("linear"), {1, 2, 3, 4}, {0, 2, 3, 4});
  CHECK_FALSE(runs.compared().other_start);
  // Nor are the same numbers an excuse.
  TwoRuns same = with_other_weights(0);
  same.put(draw("drop"), {0.1, 0.2, 0.3, 0.4}, {0.1, 0.2, 0.3, 0.4});
  same.put(output("drop"), {1, 2, 3, 4}, {0, 2, 3, 4});
  CHECK_FALSE(same.compared().other_start);
}

}  // namespace
}  // namespace ttrace::localize::other_start_test
