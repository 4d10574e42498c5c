#include "comparison/other_implementation.h"

#include "comparison/coverage.h"
#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::other_implementation_test {
namespace {

using engine::CompareOptions;
using judge::Outcome;
using tensor::DType;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

trace::Module module_of(const std::string& name, const std::string& attention = "") {
  trace::Module module;
  module.name = name;
  module.class_name = "Class";
  if (!attention.empty()) module.implementation = {{"attention", attention}};
  return module;
}

// layer(hidden, mask): attn(mask) → attn, attn[1]; layer hands attn[1] on as layer[1].
MemoryTrace run_of(const std::string& attention, double error = 0) {
  MemoryTrace made;
  made.put(make_entry("loss", {}, Kind::kLoss), {1 + error});
  made.put(make_entry("layer.attn", {2}), {1 + error, 2});
  made.put(make_entry("layer", {2}), {3 + error, 4});
  trace::Module layer = module_of("layer");
  layer.computed_from = {{"layer.attn", "layer.attn[1]"}};
  layer.outputs = {{"layer", "layer[1]"}};
  trace::Module loss;
  loss.name = "loss";
  loss.computed_from = {{"layer"}};
  made.edit().modules = {layer, module_of("layer.attn", attention), loss};
  return made;
}

MemoryTrace eager(double error = 0) {
  MemoryTrace made = run_of("eager", error);
  for (const char* name : {"layer.attn[1]", "layer[1]"}) {
    made.put(make_entry(name, {2, 2}), {1, 2, 3, 4});
    made.put(make_entry(name, {2, 2}, Kind::kGradOutput), {1, 2, 3, 4});
  }
  for (const char* name : {"layer.attn[mask]", "layer[mask]"}) {
    made.put(make_entry(name, {1, 2}, Kind::kInput), {0, -9});
  }
  return made;
}

MemoryTrace sdpa(double error = 0) {
  MemoryTrace made = run_of("sdpa", error);
  for (const char* name : {"layer.attn[mask]", "layer[mask]"}) {
    made.put(make_entry(name, {1, 2}, Kind::kInput, DType::kInt64), {1, 0});
  }
  return made;
}

CompareReport compared(const MemoryTrace& reference, const MemoryTrace& candidate) {
  return engine::compare_traces(reference, candidate, {}, CompareOptions{{}, 1, {}});
}

std::uint64_t count(const CompareReport& out, Outcome outcome) { return out.counts.at(outcome); }

std::string reason_of(const CompareReport& out, const std::string& name) {
  for (const TensorComparison& result : out.results) {
    if (result.key.name == name) return result.reason;
  }
  return "no such tensor";
}

TEST_CASE("what the other implementation does without is not recorded, and the run matches") {
  const CompareReport out = compared(eager(), sdpa());
  CHECK(out.verdict == answer::Verdict::kRight);
  CHECK(count(out, Outcome::kNotRecorded) == 6);
  CHECK(reason_of(out, "layer.attn[1]") ==
        "eager attention in the reference, sdpa in the candidate; only eager has it");
  CHECK(reason_of(out, "layer[mask]").find("take it in different forms: reference [1, 2] f32") !=
        std::string::npos);
  CHECK(coverage_of(out).other_implementation.tensors == 6);
  CHECK(coverage_of(out).not_recorded_by_candidate.empty());

  const CompareReport swapped = compared(sdpa(), eager());
  CHECK(swapped.verdict == answer::Verdict::kRight);
  CHECK(count(swapped, Outcome::kNotRecorded) == 6);
}

TEST_CASE("a wrong result of the other implementation is still found") {
  const CompareReport out = compared(eager(), sdpa(1));
  CHECK(out.verdict == answer::Verdict::kWrong);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.results[out.findings[0].result].key.name == "layer.attn");
}

TEST_CASE("within one implementation, and where a run does not say, they are missing") {
  for (const char* attention : {"eager", ""}) {
    const CompareReport out = compared(eager(), run_of(attention));
    CHECK(out.verdict == answer::Verdict::kWrong);
    CHECK(count(out, Outcome::kMissing) == 6);
    CHECK(count(out, Outcome::kNotRecorded) == 0);
  }
}

TEST_CASE("a result that something reads is missing, whatever the implementation") {
  MemoryTrace reference = eager();
  trace::Module head = module_of("head");
  head.inputs = {"layer.attn[1]"};
  reference.edit().modules.push_back(head);
  const CompareReport out = compared(reference, sdpa());
  CHECK(out.verdict == answer::Verdict::kWrong);
  // The result, its gradient, and what hands it on.
  CHECK(count(out, Outcome::kMissing) == 4);

  MemoryTrace of_loss = eager();
  of_loss.edit().modules.back().computed_from->push_back("layer[1]");
  CHECK(count(compared(of_loss, sdpa()), Outcome::kMissing) == 2);
}

TEST_CASE("results of other modules and what was given to the model stay missing") {
  MemoryTrace reference = eager();
  reference.put(make_entry("other", {2}), {1, 2});
  reference.put(make_entry("other[1]", {2}), {1, 2});
  reference.put(make_entry("layer[ids]", {2, 9}, Kind::kInput, DType::kInt64),
                std::vector<double>(18, 1));
  reference.edit().modules.push_back(module_of("other"));
  MemoryTrace candidate = sdpa();
  candidate.put(make_entry("other", {2}), {1, 2});
  candidate.edit().modules.push_back(module_of("other"));
  const CompareReport out = compared(reference, candidate);
  CHECK(out.verdict == answer::Verdict::kWrong);
  CHECK(count(out, Outcome::kMissing) == 2);
}

TEST_CASE("a module that did not run at all is missing") {
  MemoryTrace candidate;
  candidate.put(make_entry("loss", {}, Kind::kLoss), {1});
  candidate.put(make_entry("layer", {2}), {3, 4});
  candidate.edit().modules = {module_of("layer"), module_of("layer.attn", "sdpa")};
  const CompareReport out = compared(eager(), candidate);
  CHECK(out.verdict == answer::Verdict::kWrong);
  CHECK(reason_of(out, "layer.attn").find("in the reference only") == 0);
  CHECK(reason_of(out, "layer.attn[1]").find("in the reference only") == 0);
}

TEST_CASE("an argument that both recorded shows that a module ran, where its result is lacking") {
  const auto run_with = [](MemoryTrace made, bool mask) {
    made.put(make_entry("layer[hidden]", {2}, Kind::kInput), {1, 2});
    if (mask) {
      for (const char* name : {"layer.attn[mask]", "layer[mask]"}) {
        made.put(make_entry(name, {1, 2}, Kind::kInput), {0, -9});
      }
    }
    return made;
  };
  const MemoryTrace reference = run_with(run_of("eager"), true);
  MemoryTrace candidate = run_with(run_of("sdpa"), false);
  std::erase_if(candidate.edit().tensors, [](const trace::TensorEntry& entry) {
    return entry.key.name == "layer" && entry.key.kind == Kind::kOutput;
  });
  const CompareReport out = compared(reference, candidate);
  CHECK(count(out, Outcome::kNotRecorded) == 2);
  CHECK(count(out, Outcome::kMissing) == 1);
}

TEST_CASE("a cut argument is incomparable, whatever the implementation") {
  MemoryTrace reference = run_of("eager");
  reference.put(make_entry("layer.attn[hidden]", {2, 4}, Kind::kInput), std::vector<double>(8, 1));
  MemoryTrace candidate = run_of("sdpa");
  candidate.put(make_entry("layer.attn[hidden]", {2, 2}, Kind::kInput), std::vector<double>(4, 1));
  const CompareReport out = compared(reference, candidate);
  CHECK(out.verdict == answer::Verdict::kWrong);
  CHECK(count(out, Outcome::kIncomparable) == 1);
}

TEST_CASE("a candidate with other names of modules says it by having one implementation") {
  MemoryTrace candidate = sdpa();
  for (trace::Module& module : candidate.edit().modules) {
    if (!module.implementation.empty()) module.name = "renamed";
  }
  CHECK(compared(eager(), candidate).verdict == answer::Verdict::kRight);
}

}  // namespace
}  // namespace ttrace::comparison::other_implementation_test
