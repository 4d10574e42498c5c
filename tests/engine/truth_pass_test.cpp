#include "base/error.h"
#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::truth_pass_test {
namespace {

using comparison::CompareReport;
using judge::Outcome;
using tensor::DType;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

const std::vector<double> kTruth{1, -2, 3, -4, 5, -6, 7, -8};

std::vector<double> off_by(double by) {
  std::vector<double> values = kTruth;
  values[3] += by;
  return values;
}

MemoryTrace trace_of(const std::vector<double>& values, DType dtype = DType::kFloat32,
                     const std::string& name = "a") {
  MemoryTrace made;
  made.put(make_entry(name, {values.size()}, trace::Kind::kOutput, dtype), values);
  return made;
}

CompareReport compared(const MemoryTrace& reference, const MemoryTrace& candidate,
                       const MemoryTrace& truth, std::optional<layout::MapRules> map = {}) {
  CompareOptions options{{}, 1};
  options.truth = &truth;
  options.map = std::move(map);
  return compare_traces(reference, candidate, {}, options);
}

TEST_CASE("a truth gives ratios and changes no outcome") {
  const MemoryTrace truth = trace_of(kTruth, DType::kFloat64);
  const CompareReport out = compared(trace_of(off_by(0.25)), trace_of(off_by(0.5)), truth);
  REQUIRE(out.truth);
  CHECK(out.results[0].outcome == Outcome::kDiverged);
  REQUIRE(out.results[0].truth);
  CHECK(out.results[0].truth->dtype == DType::kFloat64);
  CHECK(measure::error_ratio(out.results[0].truth->errors) == std::optional(2.0));
  CHECK(out.truth->without == 0);
  CHECK(out.warnings.empty());
  const CompareReport alone =
      compare_traces(trace_of(off_by(0.25)), trace_of(off_by(0.5)), {}, {{}, 1});
  CHECK_FALSE(alone.truth);
  CHECK(alone.results[0].outcome == Outcome::kDiverged);
}

TEST_CASE("a truth cut over ranks is put together") {
  MemoryTrace truth(make_mesh({{"tp", 3}}));
  trace::TensorEntry entry = make_entry("a", {8}, trace::Kind::kOutput, DType::kFloat64);
  entry.placements = {{"tp", trace::Shard{0, {{1, 0, 7}}}}};
  truth.put(entry, kTruth);
  const CompareReport out = compared(trace_of(off_by(0.25)), trace_of(off_by(-0.25)), truth);
  CHECK(measure::error_ratio(out.results[0].truth->errors) == std::optional(1.0));
  CHECK(out.truth->facts.ranks == 3);
}

TEST_CASE("tensors that the truth lacks are counted") {
  MemoryTrace truth = trace_of(kTruth, DType::kFloat64, "other");
  const CompareReport out = compared(trace_of(kTruth), trace_of(kTruth), truth);
  CHECK(out.verdict == answer::Verdict::kRight);
  CHECK(out.truth->without == 1);
  REQUIRE(out.warnings.size() == 1);
  CHECK(out.warnings[0] == "memory, the truth, has none of the tensors compared");
}

TEST_CASE("tensors of another shape or class of type in the truth are warned of") {
  const MemoryTrace truth = trace_of({1, 2, 3}, DType::kFloat64);
  CompareReport out = compared(trace_of(kTruth), trace_of(kTruth), truth);
  CHECK(out.truth->incomparable == 1);
  CHECK_FALSE(out.results[0].truth);
  CHECK(out.warnings.at(0) ==
        "memory, the truth, has other shapes: a · output · step 0: [3] f64, and [8] f32 in the "
        "reference");
  out = compared(trace_of(kTruth), trace_of(kTruth), trace_of(kTruth, DType::kInt64));
  CHECK(out.truth->incomparable == 1);
}

TEST_CASE("a truth no more precise than the reference is warned of") {
  const CompareReport out = compared(trace_of(kTruth), trace_of(kTruth), trace_of(off_by(1)));
  REQUIRE(out.warnings.size() == 1);
  CHECK(out.warnings[0].find("is in no tensor more precise than the reference") !=
        std::string::npos);
  // Stored as the truth is, but computed in less.
  MemoryTrace reference;
  trace::TensorEntry entry = make_entry("a", {8});
  entry.computed_in = DType::kBFloat16;
  reference.put(entry, kTruth);
  CHECK(compared(reference, trace_of(kTruth), trace_of(kTruth)).warnings.empty());
}

TEST_CASE("integers have no truth and are not counted as without one") {
  const MemoryTrace integers = trace_of(kTruth, DType::kInt64);
  const CompareReport out = compared(integers, integers, trace_of(kTruth, DType::kFloat64));
  CHECK(out.truth->without == 0);
  CHECK_FALSE(out.results[0].truth);
}

TEST_CASE("a truth with a lost rank is warned of and decides nothing") {
  MemoryTrace truth = trace_of(kTruth, DType::kFloat64);
  truth.lose_rank(0);
  const CompareReport out = compared(trace_of(kTruth), trace_of(kTruth), truth);
  CHECK(out.verdict == answer::Verdict::kRight);
  CHECK(out.truth->unreadable == 1);
  CHECK_FALSE(out.warnings.empty());
}

TEST_CASE("a truth that contradicts itself is refused") {
  MemoryTrace truth(make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = make_entry("a", {8}, trace::Kind::kOutput, DType::kFloat64);
  entry.placements = {{"tp", trace::Shard{0, {{1, 2}}}}};
  truth.edit().tensors.push_back(entry);
  CHECK_THROWS_AS(compared(trace_of(kTruth), trace_of(kTruth), truth), base::Error);
}

TEST_CASE("a perturbed truth is warned of") {
  MemoryTrace truth = trace_of(kTruth, DType::kFloat64);
  truth.edit().run.noise = trace::NoiseFacts{4, 1e-7, "a"};
  const CompareReport out = compared(trace_of(kTruth), trace_of(kTruth), truth);
  REQUIRE(out.warnings.size() == 1);
  CHECK(out.warnings[0] == "memory is a perturbed run (seed 4); give a clean one as the truth");
}

TEST_CASE("the reference's rules of a map are the truth's too, where they match") {
  const std::string text = R"({"schema": "ttrace.map/2", "reference": [
    {"from": "old", "to": "a"}, {"from": "gone", "to": "b"}]})";
  MemoryTrace reference = trace_of(kTruth, DType::kFloat32, "old");
  reference.put(make_entry("gone", {1}), {1});
  const CompareReport out =
      compared(reference, trace_of(kTruth), trace_of(off_by(1), DType::kFloat64, "old"),
               layout::parse_map_rules(text, "map.json"));
  REQUIRE(out.truth);
  CHECK(out.truth->without == 0);
  for (const comparison::TensorComparison& result : out.results) {
    CHECK(result.truth.has_value() == (result.key.name == "a"));
  }
}

TEST_CASE("a tied parameter's further copy and a batch in parts have the truth's whole") {
  MemoryTrace candidate = trace_of(kTruth);
  trace::TensorEntry copy = make_entry("a", {8});
  copy.key.copy = 1;
  candidate.put(copy, kTruth);
  const MemoryTrace truth = trace_of(off_by(1), DType::kFloat64);
  const CompareReport copies = compared(trace_of(kTruth), candidate, truth);
  CHECK(copies.truth->without == 0);
  CHECK(copies.results.size() == 2);

  const auto parts = [](DType dtype) {
    MemoryTrace made;
    for (const std::uint64_t mb : {0, 1}) {
      trace::TensorEntry entry = make_entry("x", {4}, trace::Kind::kOutput, dtype);
      entry.key.microbatch = mb;
      made.put(entry, {kTruth.begin() + 4 * static_cast<long>(mb),
                       kTruth.begin() + 4 * static_cast<long>(mb) + 4});
    }
    return made;
  };
  MemoryTrace whole;
  trace::TensorEntry entry = make_entry("x", {8});
  entry.microbatches = trace::Microbatches{trace::Microbatches::How::kShard, 0, {0, 1}};
  whole.put(entry, off_by(1));
  const CompareReport joined = compared(whole, parts(DType::kFloat32), parts(DType::kFloat64));
  REQUIRE(joined.results.size() == 1);
  REQUIRE(joined.results[0].truth);
  CHECK(joined.results[0].truth->errors.reference_error_norm == 1);
  CHECK(joined.results[0].truth->errors.candidate_error_norm == 0);
}

TEST_CASE("the truth's numbers are the same for every number of threads") {
  MemoryTrace reference;
  MemoryTrace candidate;
  MemoryTrace truth;
  for (int i = 0; i < 20; ++i) {
    const std::string name = base::concat("t", i);
    reference.put(make_entry(name, {8}), off_by(0.5));
    candidate.put(make_entry(name, {8}), off_by(0.25 * i));
    truth.put(make_entry(name, {8}, trace::Kind::kOutput, DType::kFloat64), kTruth);
  }
  CompareOptions options{{}, 1};
  options.truth = &truth;
  const CompareReport one = compare_traces(reference, candidate, {}, options);
  options.execution.threads = 4;
  const CompareReport four = compare_traces(reference, candidate, {}, options);
  REQUIRE(one.results.size() == four.results.size());
  for (std::size_t i = 0; i < one.results.size(); ++i) {
    CHECK(one.results[i].truth->errors.candidate_error_norm ==
          four.results[i].truth->errors.candidate_error_norm);
  }
}

}  // namespace
}  // namespace ttrace::engine::truth_pass_test
