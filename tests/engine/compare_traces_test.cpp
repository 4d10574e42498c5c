#include "engine/compare_traces.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::compare_traces_test {
namespace {

using answer::Verdict;
using comparison::CompareReport;
using judge::Outcome;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

const std::vector<double> kValues{1, -2, 3, -4, 5, -6, 7, -8};

MemoryTrace one_tensor(const std::vector<double>& values = kValues, trace::Mesh mesh = {},
                       std::map<std::string, trace::Placement> placements = {}) {
  MemoryTrace made(std::move(mesh));
  trace::TensorEntry entry = make_entry("a", {values.size()});
  entry.placements = std::move(placements);
  made.put(entry, values);
  return made;
}

std::vector<double> shifted(double by) {
  std::vector<double> values = kValues;
  values[3] += by;
  return values;
}

CompareReport compared(const MemoryTrace& reference, const MemoryTrace& candidate,
                       const std::vector<const trace::Source*>& noise = {},
                       const comparison::Selection& selection = {}) {
  return compare_traces(reference, candidate, noise, {selection, 1});
}

const comparison::TensorComparison& result_of(const CompareReport& out, const std::string& name) {
  for (const comparison::TensorComparison& result : out.results) {
    if (result.key.name == name) return result;
  }
  throw base::internal_error("no result for ", name);
}

TEST_CASE("a trace matches itself, however it is cut") {
  const MemoryTrace reference = one_tensor();
  CHECK(compared(reference, reference).verdict == Verdict::kRight);
  const trace::Mesh mesh = make_mesh({{"tp", 3}});
  for (const trace::Placement& placement :
       {trace::Placement{trace::Replicate{}}, trace::Placement{trace::Shard{0, std::nullopt}},
        trace::Placement{trace::Shard{0, {{1, 0, 7}}}},
        trace::Placement{trace::Partial{trace::Reduction::kSum}},
        trace::Placement{trace::Only{2}}}) {
    const CompareReport out = compared(reference, one_tensor(kValues, mesh, {{"tp", placement}}));
    CHECK(out.verdict == Verdict::kRight);
    CHECK(out.results[0].comparison->measurement.total.sum_d2 == 0);
    CHECK(out.candidate.ranks == 3);
  }
}

TEST_CASE("a changed element diverges and is found again on its rank") {
  const MemoryTrace candidate =
      one_tensor(shifted(0.5), make_mesh({{"tp", 2}}), {{"tp", trace::Shard{0, {{3, 5}}}}});
  const CompareReport out = compared(one_tensor(), candidate);
  CHECK(out.verdict == Verdict::kWrong);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].ranks == std::vector<std::uint64_t>{1});
  const comparison::TensorComparison& result = out.results[0];
  CHECK(result.outcome == Outcome::kDiverged);
  CHECK(result.comparison->measurement.total.largest->at == tensor::Shape{3});
  CHECK(result.comparison->measurement.largest_place->rank == 1);
  CHECK(result.comparison->measurement.largest_place->local == tensor::Shape{0});
}

// A parameter before and after an update, on two ranks.
MemoryTrace updated(std::map<std::string, trace::Placement> placements = {}) {
  MemoryTrace made(make_mesh({{"dp", 2}}), "run");
  for (const trace::Kind kind : {trace::Kind::kParam, trace::Kind::kParamAfterStep}) {
    trace::TensorEntry entry = make_entry("w", {kValues.size()}, kind);
    entry.placements = placements;
    made.put(entry, kValues);
  }
  return made;
}

TEST_CASE("a replica that one rank did not record is missing, and the rank is named") {
  MemoryTrace candidate = updated();
  candidate.edit().tensors[1].held_at = {{"dp", {0}}};
  const CompareReport out = compared(updated(), candidate);
  CHECK(out.verdict == Verdict::kWrong);
  CHECK(out.counts.at(Outcome::kMissing) == 1);
  CHECK(out.counts.at(Outcome::kMatch) == 1);
  REQUIRE(out.findings.size() == 1);
  const comparison::TensorComparison& result = out.results[out.findings[0].result];
  CHECK(result.key.kind == trace::Kind::kParamAfterStep);
  CHECK(result.reason == "run: rank 1 of 2 recorded step 0 but lacks it");
  CHECK(*result.note == "rank 1 of 2 recorded step 0 but lacks it");
  const CompareReport turned = compared(candidate, updated());
  CHECK(turned.verdict == Verdict::kWrong);
  CHECK(*turned.results[turned.findings.at(0).result].note ==
        "in the reference, rank 1 of 2 recorded step 0 but lacks it");
}

TEST_CASE("a part of a tensor that is cut is missing, or cannot be read if its rank is lost") {
  MemoryTrace candidate = updated({{"dp", trace::Shard{0, std::nullopt}}});
  candidate.edit().tensors[1].absent_on = std::vector<std::uint64_t>{1};
  CHECK(compared(updated(), candidate).verdict == Verdict::kWrong);
  CHECK(compared(updated(), candidate).counts.at(Outcome::kMissing) == 1);
  candidate.lose_rank(1);
  const CompareReport out = compared(updated(), candidate);
  CHECK(out.verdict == Verdict::kInconclusive);
  CHECK(out.counts.at(Outcome::kMissing) == 0);
  CHECK(out.counts.at(Outcome::kUnreadable) == 2);
}

TEST_CASE("what a selection leaves out is not missing") {
  MemoryTrace candidate = updated();
  candidate.edit().tensors[1].held_at = {{"dp", {0}}};
  comparison::Selection selection;
  selection.kinds = {trace::Kind::kParam};
  CHECK(compared(updated(), candidate, {}, selection).verdict == Verdict::kRight);
}

TEST_CASE("roundings match by the fallback rule") {
  const CompareReport out = compared(one_tensor(), one_tensor(shifted(4 * 0x1p-23)));
  CHECK(out.verdict == Verdict::kRight);
  CHECK(out.results[0].comparison->tolerance.rule == judge::Rule::kFallback);
}

TEST_CASE("a noise run sharpens or widens the tolerance of the tensors it has") {
  MemoryTrace quiet = one_tensor(shifted(1e-6));
  MemoryTrace loud = one_tensor(shifted(0.1));
  quiet.edit().run.noise = trace::NoiseFacts{1, 1e-7, "first"};
  loud.edit().run.noise = trace::NoiseFacts{2, 1e-7, "first"};
  const MemoryTrace candidate = one_tensor(shifted(0.1));
  const CompareReport sharp = compared(one_tensor(), candidate, {&quiet});
  CHECK(sharp.verdict == Verdict::kWrong);
  CHECK(sharp.results[0].comparison->tolerance.rule == judge::Rule::kNoise);
  const CompareReport wide = compared(one_tensor(), candidate, {&quiet, &loud});
  CHECK(wide.verdict == Verdict::kRight);
  CHECK(wide.noise_runs.size() == 2);
}

TEST_CASE("noise as large as the tensor checks nothing") {
  MemoryTrace noise = one_tensor({8, 7, 6, 5, 4, 3, 2, 1});
  noise.edit().run.noise = trace::NoiseFacts{1, 1e-7, "first"};
  const CompareReport out = compared(one_tensor(), one_tensor(shifted(0.5)), {&noise});
  CHECK(out.results[0].outcome == Outcome::kBelowNoiseFloor);
  CHECK(out.verdict == Verdict::kInconclusive);
}

TEST_CASE("a noise run of another shape is refused") {
  const MemoryTrace noise = one_tensor({1, 2});
  CHECK_THROWS_AS(compared(one_tensor(), one_tensor(), {&noise}), base::Error);
}

TEST_CASE("perturbed and unperturbed runs in each other's place are warned of") {
  MemoryTrace perturbed = one_tensor();
  perturbed.edit().run.noise = trace::NoiseFacts{1, 1e-7, "first"};
  CHECK(compared(perturbed, one_tensor()).warnings.size() == 1);
  const MemoryTrace plain = one_tensor(shifted(1e-6));
  const auto warnings = compared(one_tensor(), one_tensor(), {&plain}).warnings;
  CHECK(std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
    return warning.find("does not say that it was perturbed") != std::string::npos;
  }));
}

TEST_CASE("copies that should agree and do not are a conflict") {
  MemoryTrace candidate = one_tensor(kValues, make_mesh({{"tp", 2}}));
  candidate.put_shard(candidate.manifest().tensors[0], 1, shifted(1));
  const CompareReport out = compared(one_tensor(), candidate);
  CHECK(out.results[0].outcome == Outcome::kReplicaConflict);
  CHECK(out.verdict == Verdict::kWrong);
}

TEST_CASE("a tied parameter's further copy is held against the reference's") {
  MemoryTrace candidate = one_tensor();
  trace::TensorEntry copy = make_entry("a", {8});
  copy.key.copy = 1;
  candidate.put(copy, kValues);
  CHECK(compared(one_tensor(), candidate).counts.at(Outcome::kMatch) == 2);
}

TEST_CASE("traces without a common tensor are inconclusive") {
  MemoryTrace other;
  other.put(make_entry("b", {8}), kValues);
  CHECK(compared(one_tensor(), other).verdict == Verdict::kInconclusive);
  CHECK(compared(MemoryTrace(), other).verdict == Verdict::kInconclusive);
  CHECK(compared(MemoryTrace(), MemoryTrace()).verdict == Verdict::kInconclusive);
}

TEST_CASE("tensors without elements check nothing") {
  const CompareReport out = compared(one_tensor({}), one_tensor({}));
  CHECK(out.verdict == Verdict::kInconclusive);
  CHECK(out.counts.at(Outcome::kMatch) == 1);
}

TEST_CASE("NaN on one side diverges, NaN everywhere on both cannot be compared") {
  CHECK(compared(one_tensor(), one_tensor(shifted(std::nan("")))).verdict == Verdict::kWrong);
  const MemoryTrace nothing = one_tensor(std::vector<double>(4, std::nan("")));
  const CompareReport out = compared(nothing, nothing);
  CHECK(out.results[0].outcome == Outcome::kNotJudged);
  CHECK(out.verdict == Verdict::kInconclusive);
  const MemoryTrace some = one_tensor(shifted(std::nan("")));
  CHECK(compared(some, some).verdict == Verdict::kRight);
}

TEST_CASE("other shapes and types are told, with both sides") {
  const CompareReport shapes = compared(one_tensor(), one_tensor({1, 2}));
  CHECK(shapes.verdict == Verdict::kWrong);
  REQUIRE(shapes.findings.size() == 1);
  CHECK(shapes.results[0].reason == "reference [8] f32, candidate [2] f32");
  MemoryTrace integers;
  integers.put(make_entry("a", {8}, trace::Kind::kOutput, tensor::DType::kInt64), kValues);
  CHECK(compared(one_tensor(), integers).results[0].outcome == Outcome::kIncomparable);
  CHECK(compared(integers, integers).verdict == Verdict::kRight);
}

TEST_CASE("a lost rank takes its tensors with it, and the rest is still compared") {
  const trace::Mesh mesh = make_mesh({{"tp", 2}});
  MemoryTrace reference = one_tensor();
  reference.put(make_entry("b", {8}), kValues);
  MemoryTrace candidate = one_tensor(kValues, mesh, {{"tp", trace::Shard{0, std::nullopt}}});
  trace::TensorEntry entry = make_entry("b", {8});
  entry.placements["tp"] = trace::Only{0};
  candidate.put(entry, kValues);
  candidate.lose_rank(1);
  const CompareReport out = compared(reference, candidate);
  CHECK(result_of(out, "a").outcome == Outcome::kUnreadable);
  CHECK(result_of(out, "b").outcome == Outcome::kMatch);
  CHECK(out.verdict == Verdict::kInconclusive);
  CHECK(out.warnings == std::vector<std::string>{"memory: rank lost"});
  candidate.put_shard(entry, 0, shifted(1));
  CHECK(compared(reference, candidate).verdict == Verdict::kWrong);
}

TEST_CASE("a dataset that is absent or of another type is unreadable and warned of once") {
  MemoryTrace absent;
  absent.edit().tensors = {make_entry("a", {8})};
  const CompareReport out = compared(one_tensor(), absent);
  CHECK(out.results[0].outcome == Outcome::kUnreadable);
  REQUIRE(out.warnings.size() == 1);
  CHECK(out.warnings[0].find("there is no such dataset") != std::string::npos);
  MemoryTrace other = one_tensor();
  other.put_bits(test::make_key("a"), 0, tensor::DType::kFloat64, {8},
                 test::encode(tensor::DType::kFloat64, kValues));
  CHECK(compared(one_tensor(), other).results[0].reason.find("dataset is [8] f64") !=
        std::string::npos);
}

// A trace whose reading fails in a way that is not the file's fault.
class DefectiveTrace : public MemoryTrace {
 public:
  using MemoryTrace::MemoryTrace;
  std::unique_ptr<trace::Dataset> open(std::uint64_t, const std::string&) const override {
    throw base::internal_error("a defect");
  }
};

TEST_CASE("a defect of the program is no property of a tensor") {
  DefectiveTrace candidate;
  candidate.put(make_entry("a", {8}), kValues);
  CHECK_THROWS_AS(compared(one_tensor(), candidate), base::Error);
}

TEST_CASE("a tensor that one trace lacks diverges") {
  MemoryTrace both = one_tensor();
  both.put(make_entry("b", {8}), kValues);
  CHECK(compared(both, one_tensor()).verdict == Verdict::kWrong);
  const CompareReport extra = compared(one_tensor(), both);
  CHECK(extra.verdict == Verdict::kWrong);
  REQUIRE(extra.findings.size() == 1);
  CHECK(extra.results[extra.findings[0].result].outcome == Outcome::kExtra);
  CHECK(extra.counts.at(Outcome::kExtra) == 1);
}

TEST_CASE("what is not selected is skipped, and a selection of nothing refused") {
  MemoryTrace reference = one_tensor();
  reference.put(make_entry("b", {8}), kValues);
  MemoryTrace candidate = one_tensor(shifted(1));
  candidate.put(make_entry("b", {8}), kValues);
  const CompareReport out = compared(reference, candidate, {}, {{"b"}, {}, {}, {}});
  CHECK(out.verdict == Verdict::kRight);
  CHECK(result_of(out, "a").outcome == Outcome::kSkippedByRule);
  CHECK_THROWS_AS(compared(reference, candidate, {}, {{"c"}, {}, {}, {}}), base::Error);
}

TEST_CASE("contradictory layouts stop the comparison before anything is read") {
  MemoryTrace candidate(make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = make_entry("a", {8});
  entry.placements["tp"] = trace::Shard{0, {{1, 2}}};
  candidate.edit().tensors = {entry};
  CHECK_THROWS_AS(compared(one_tensor(), candidate), base::Error);
  CHECK_THROWS_AS(compared(candidate, one_tensor()), base::Error);
  CHECK_THROWS_AS(compared(one_tensor(), one_tensor(), {&candidate}), base::Error);
}

TEST_CASE("the results are in the order of the data flow") {
  MemoryTrace reference;
  reference.put(make_entry("a.weight", {1}, trace::Kind::kParamAfterStep), {1});
  reference.put(make_entry("z", {1}), {1});
  reference.put(make_entry("a", {1}), {1});
  reference.edit().modules = {{"z", "", "", "", {}, {}, {}, {}},
                              {"a", "", "", "", {}, {"z"}, {}, {}}};
  const CompareReport out = compared(reference, reference);
  CHECK(out.from_modules);
  REQUIRE(out.results.size() == 3);
  CHECK(out.results[0].key.name == "z");
  CHECK(out.results[1].key.name == "a");
  CHECK(out.results[2].key.name == "a.weight");
}

}  // namespace
}  // namespace ttrace::engine::compare_traces_test
