// Comparisons of tensors that one side has in other pieces: under a map, and in micro-batches.
#include <algorithm>

#include "base/refusal.h"
#include "engine/compare_traces.h"
#include "support/memory_trace.h"

namespace ttrace::engine::compare_views_test {
namespace {

using How = trace::Microbatches::How;
using answer::Verdict;
using comparison::CompareReport;
using judge::Outcome;
using test::check_refused;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using trace::Kind;
using trace::TensorEntry;
using Values = std::vector<double>;

trace::Module module_of(const std::string& name, std::vector<std::string> inputs) {
  trace::Module module;
  module.name = name;
  module.inputs = std::move(inputs);
  return module;
}

CompareReport compared(const MemoryTrace& reference, const MemoryTrace& candidate,
                       const std::string& map = "",
                       const std::vector<const trace::Source*>& noise = {}) {
  CompareOptions options{{}, 1, {}};
  if (!map.empty()) {
    options.map = layout::parse_map_rules(R"({"schema": "ttrace.map/2", )" + map + "}", "map.json");
  }
  return compare_traces(reference, candidate, noise, options);
}

const comparison::TensorComparison& result_of(const CompareReport& out, const std::string& name) {
  for (const comparison::TensorComparison& result : out.results) {
    if (result.key.name == name) return result;
  }
  throw base::internal_error("no result for ", name);
}

std::vector<std::string> first_names(const CompareReport& out) {
  std::vector<std::string> names;
  for (const comparison::ComparedFinding& finding : out.findings) {
    names.push_back(out.results[finding.result].key.name);
  }
  return names;
}

// x -> q, k, v -> attn -> loss, q, k and v of [2] each.
MemoryTrace apart(double x_error = 0, double attn_error = 0) {
  MemoryTrace made;
  made.put(make_entry("x", {2}), {1 + x_error, 2});
  made.put(make_entry("q", {2}), {3 + x_error, 4});
  made.put(make_entry("k", {2}), {5 + x_error, 6});
  made.put(make_entry("v", {2}), {7 + x_error, 8});
  made.put(make_entry("attn", {2}), {9 + x_error + attn_error, 10});
  for (const char* name : {"q", "k", "v"}) made.edit().modules.push_back(module_of(name, {"x"}));
  made.edit().modules.push_back(module_of("x", {}));
  made.edit().modules.push_back(module_of("attn", {"q", "k", "v"}));
  return made;
}

// The same with q, k and v in one.
MemoryTrace fused(double x_error = 0, double attn_error = 0) {
  MemoryTrace made;
  made.put(make_entry("x", {2}), {1 + x_error, 2});
  made.put(make_entry("qkv", {6}), {3 + x_error, 5 + x_error, 7 + x_error, 4, 6, 8});
  made.put(make_entry("attn", {2}), {9 + x_error + attn_error, 10});
  made.edit().modules = {module_of("x", {}), module_of("qkv", {"x"}), module_of("attn", {"qkv"})};
  return made;
}

const std::string kJoin =
    R"([{"from": ["q", "k", "v"], "to": "qkv", "concat": {"dim": 0, "groups": 2}}])";
const std::string kCut =
    R"([{"from": "qkv", "to": ["q", "k", "v"], "split": {"dim": 0, "groups": 2}}])";

TEST_CASE("either side may be mapped, by joining or by splitting") {
  for (const auto& [reference, candidate] :
       {std::pair(apart(), fused()), std::pair(fused(), apart())}) {
    const bool is_apart = reference.manifest().tensors.size() == 5;
    for (const std::string& map :
         {std::string(is_apart ? R"("reference": )" : R"("candidate": )") + kJoin,
          std::string(is_apart ? R"("candidate": )" : R"("reference": )") + kCut}) {
      CAPTURE(map);
      const CompareReport out = compared(reference, candidate, map);
      CHECK(out.verdict == Verdict::kRight);
      CHECK(out.map_rules == "map.json");
      for (const comparison::TensorComparison& result : out.results) {
        CHECK(result.comparison->measurement.total.sum_d2 == 0);
      }
    }
  }
}

TEST_CASE("a mapped reference has the frontier of an unmapped pair") {
  for (const auto& [x, attn, first] : {std::tuple(1, 0, "x"), std::tuple(0, 1, "attn")}) {
    CAPTURE(first);
    const CompareReport plain = compared(fused(), fused(x, attn));
    const CompareReport joined = compared(apart(), fused(x, attn), R"("reference": )" + kJoin);
    CHECK(first_names(plain) == std::vector<std::string>{first});
    CHECK(first_names(joined) == std::vector<std::string>{first});
    CHECK(joined.downstream == plain.downstream);
    CHECK(joined.from_modules);
    const CompareReport split = compared(fused(), apart(x, attn), R"("reference": )" + kCut);
    CHECK(first_names(split) == std::vector<std::string>{first});
    CHECK(split.downstream == compared(apart(), apart(x, attn)).downstream);
  }
}

TEST_CASE("noise runs are mapped as the reference is") {
  MemoryTrace noise = apart(1e-3);
  noise.edit().run.noise = trace::NoiseFacts{1, 1e-7, "first"};
  const std::string map = R"("reference": )" + kJoin;
  const CompareReport out = compared(apart(), fused(1e-3), map, {&noise});
  CHECK(out.verdict == Verdict::kRight);
  CHECK(result_of(out, "qkv").comparison->noise->norms.size() == 1);
  CHECK(compared(apart(), fused(1), map, {&noise}).verdict == Verdict::kWrong);
}

TEST_CASE("tensors left as they are because others are missing are warned of") {
  MemoryTrace candidate = apart();
  std::erase_if(candidate.edit().tensors, [](const auto& entry) { return entry.key.name == "k"; });
  const CompareReport out = compared(fused(), candidate, R"("candidate": )" + kJoin);
  CHECK(out.warnings.size() == 2);
  CHECK(result_of(out, "qkv").outcome == Outcome::kMissing);
  CHECK(result_of(out, "q").outcome == Outcome::kExtra);
  CHECK(out.verdict == Verdict::kWrong);
}

CompareReport compared_by_2(const MemoryTrace& reference, const MemoryTrace& candidate,
                            const std::string& map, bool common = false) {
  CompareOptions options{{}, 1, {}};
  options.common = common;
  if (!map.empty()) {
    options.map = layout::parse_map_rules(R"({"schema": "ttrace.map/2", )" + map + "}", "map.json");
  }
  return compare_traces(reference, candidate, {}, options);
}

// A trace with a tensor that the other has not.
MemoryTrace with_own(MemoryTrace made, const std::string& name, Kind kind = Kind::kOutput) {
  made.put(make_entry(name, {2}, kind), {1, 2});
  return made;
}

TEST_CASE("what a rule drops is counted and told, and is no finding") {
  const std::string map =
      R"("reference": [{"drop": "mask", "reason": "the candidate has none"}],
         "candidate": [{"drop": "table{x...}", "reason": "constants"}])";
  const CompareReport out = compared_by_2(with_own(apart(), "mask"),
                                          with_own(with_own(apart(), "tables"), "table.1"), map);
  CHECK(out.verdict == Verdict::kRight);
  CHECK(out.counts.at(Outcome::kSkippedByRule) == 3);
  CHECK(result_of(out, "mask").reason == "map:/reference/0: the candidate has none");
  REQUIRE(out.dropped.size() == 2);
  CHECK(out.dropped[0].rule == "/reference/0");
  CHECK(out.dropped[0].tensors == 1);
  CHECK(out.dropped[1].reason == "constants");
  CHECK(out.dropped[1].tensors == 2);
  CHECK(out.warnings.empty());
}

TEST_CASE("a rule that drops what both traces have is warned of") {
  const CompareReport out =
      compared_by_2(apart(), apart(0, 1), R"("candidate": [{"drop": "attn", "reason": "slow"}])");
  CHECK(out.verdict == Verdict::kRight);
  REQUIRE(out.warnings.size() == 1);
  CHECK(out.warnings[0] ==
        "map.json: /candidate/0 drops 1 tensor that both traces have, and that are not compared "
        "now");
  check_refused(
      [] { compared_by_2(apart(), apart(), R"("candidate": [{"drop": "z", "reason": "slow"}])"); },
      {"map.json: /candidate/0/drop", "matches z"});
}

TEST_CASE("a tensor that is dropped keeps its place in the data flow") {
  const CompareReport out =
      compared_by_2(apart(), apart(1), R"("reference": [{"drop": "q", "reason": "slow"}])");
  CHECK(first_names(out) == std::vector<std::string>{"x"});
  CHECK(result_of(out, "q").outcome == Outcome::kSkippedByRule);
}

TEST_CASE("one tensor under several names is compared as each") {
  MemoryTrace several;
  several.put(make_entry("q", {2}, Kind::kInput), {1, 2});
  several.put(make_entry("k", {2}, Kind::kInput), {1, 2});
  MemoryTrace one;
  one.put(make_entry("qk", {2}, Kind::kInput), {1, 2});
  const std::string rule = R"([{"from": "qk", "to": ["q", "k"], "kind": "input", "same": true}])";
  const CompareReport out = compared_by_2(several, one, R"("candidate": )" + rule);
  CHECK(out.verdict == Verdict::kRight);
  CHECK(out.results.size() == 2);
  CHECK(compared_by_2(one, several, R"("reference": )" + rule).counts.at(Outcome::kMatch) == 2);
  MemoryTrace wrong;
  wrong.put(make_entry("q", {2}, Kind::kInput), {1, 2});
  wrong.put(make_entry("k", {2}, Kind::kInput), {1, 3});
  const CompareReport differs = compared_by_2(wrong, one, R"("candidate": )" + rule);
  CHECK(first_names(differs) == std::vector<std::string>{"k"});
}

TEST_CASE("what both have is judged alone, and the rest is counted") {
  const CompareReport out =
      compared_by_2(with_own(apart(), "mask"), with_own(with_own(apart(), "a"), "b"), "", true);
  CHECK(out.verdict == Verdict::kRight);
  REQUIRE(out.left_out.has_value());
  CHECK(out.left_out->of_reference == 1);
  CHECK(out.left_out->of_candidate == 2);
  CHECK(result_of(out, "a").outcome == Outcome::kSkippedByRule);
  CHECK(result_of(out, "a").reason == "in the candidate only, and left out by --common");
  CHECK(compared_by_2(with_own(apart(), "mask"), apart(0, 1), "", true).verdict == Verdict::kWrong);
  CHECK(!compared(apart(), apart(1)).left_out);
}

TEST_CASE("what matters most is not left out in silence") {
  for (const Kind kind : {Kind::kParam, Kind::kLoss, Kind::kMainGrad}) {
    for (const bool of_reference : {true, false}) {
      const MemoryTrace more = with_own(apart(), "own", kind);
      const CompareReport out = of_reference ? compared_by_2(more, apart(), "", true)
                                             : compared_by_2(apart(), more, "", true);
      CHECK(out.verdict == Verdict::kInconclusive);
      CHECK(test::contains(out.why, "is left out, because one side alone has it"));
    }
  }
  const CompareReport two = compared_by_2(
      with_own(with_own(apart(), "u", Kind::kParam), "v", Kind::kParam), apart(), "", true);
  CHECK(test::contains(two.why, "and 1 more parameters, losses or main gradients are left out"));
}

TEST_CASE("a map that does not fit stops the comparison") {
  check_refused([] { compared(fused(), apart(), R"("candidate": [{"from": "z", "to": "y"}])"); },
                {"map.json: /candidate/0/from", "matches z"});
}

TensorEntry whole_of(const std::string& name, tensor::Shape shape, How how,
                     std::vector<std::uint64_t> numbers, Kind kind = Kind::kOutput) {
  TensorEntry entry = make_entry(name, std::move(shape), kind);
  entry.microbatches = trace::Microbatches{how, 0, std::move(numbers)};
  return entry;
}

TensorEntry part_of(const std::string& name, tensor::Shape shape, std::uint64_t number,
                    Kind kind = Kind::kOutput) {
  TensorEntry entry = make_entry(name, std::move(shape), kind);
  entry.key.microbatch = number;
  return entry;
}

// a -> b, a batch of two samples of two numbers, their gradients' sum and their losses' mean.
MemoryTrace one_batch() {
  MemoryTrace made;
  made.put(whole_of("a", {2, 2}, How::kShard, {0, 1}), {1, 2, 3, 4});
  made.put(whole_of("b", {2, 2}, How::kShard, {0, 1}), {5, 6, 7, 8});
  made.put(whole_of("w", {2}, How::kSum, {0, 1}, Kind::kGradOutput), {4, 6});
  made.put(whole_of("loss", {}, How::kMean, {0, 1}, Kind::kLoss), {3});
  made.edit().modules = {module_of("a", {}), module_of("b", {"a"}), module_of("loss", {"b"})};
  return made;
}

// The same sample by sample, on a data-parallel rank each if `ranks` is 2; `error` is in the second
// sample's a, or in its b, and goes on from there.
MemoryTrace two_batches(std::uint64_t ranks, double a_error = 0, double b_error = 0) {
  MemoryTrace made(make_mesh({{"dp", ranks}}));
  const auto put = [&](TensorEntry entry, const Values& values) {
    if (ranks == 2) entry.placements["dp"] = trace::Only{*entry.key.microbatch};
    made.put(entry, values);
  };
  put(part_of("a", {1, 2}, 0), {1, 2});
  put(part_of("a", {1, 2}, 1), {3, 4 + a_error});
  put(part_of("b", {1, 2}, 0), {5, 6});
  put(part_of("b", {1, 2}, 1), {7, 8 + a_error + b_error});
  put(part_of("w", {2}, 0, Kind::kGradOutput), {1, 2});
  put(part_of("w", {2}, 1, Kind::kGradOutput), {3, 4});
  put(part_of("loss", {}, 0, Kind::kLoss), {2});
  put(part_of("loss", {}, 1, Kind::kLoss), {4 + a_error + b_error});
  made.edit().modules = {module_of("a", {}), module_of("b", {"a"}), module_of("loss", {"b"})};
  return made;
}

TEST_CASE("one big batch matches its micro-batches, in either direction") {
  for (const std::uint64_t ranks : {1, 2}) {
    const CompareReport out = compared(one_batch(), two_batches(ranks));
    CHECK(out.verdict == Verdict::kRight);
    CHECK(out.results.size() == 4);
    CHECK(out.counts.at(Outcome::kMatch) == 4);
    CHECK(compared(two_batches(ranks), one_batch()).counts.at(Outcome::kMatch) == 4);
    CHECK(compared(two_batches(ranks), two_batches(3 - ranks)).counts.at(Outcome::kMatch) == 8);
  }
}

TEST_CASE("a batch dealt out to data-parallel ranks is that batch") {
  MemoryTrace candidate(make_mesh({{"dp", 2}}));
  TensorEntry entry = whole_of("a", {2, 2}, How::kShard, {0, 1});
  entry.placements["dp"] = trace::Shard{0, std::nullopt};
  candidate.put(entry, {1, 2, 3, 4});
  MemoryTrace parts;
  parts.put(part_of("a", {1, 2}, 0), {1, 2});
  parts.put(part_of("a", {1, 2}, 1), {3, 4});
  CHECK(compared(parts, candidate).verdict == Verdict::kRight);
  candidate.put_shard(entry, 1, {3, 5});
  const CompareReport out = compared(parts, candidate);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].ranks == std::vector<std::uint64_t>{1});
}

TEST_CASE("a wrong micro-batch is found where it went wrong, on its rank") {
  for (const auto& [a, b, first] : {std::tuple(1, 0, "a"), std::tuple(0, 1, "b")}) {
    const CompareReport out = compared(one_batch(), two_batches(2, a, b));
    CHECK(out.verdict == Verdict::kWrong);
    REQUIRE(first_names(out) == std::vector<std::string>{first});
    CHECK(out.findings[0].ranks == std::vector<std::uint64_t>{1});
    const comparison::TensorComparison& result = out.results[out.findings[0].result];
    CHECK(result.comparison->measurement.largest_place->rank == 1);
    CHECK(result.comparison->measurement.largest_place->local == tensor::Shape{0, 1});
    CHECK(result.comparison->measurement.total.largest->at == tensor::Shape{1, 1});
    CHECK(out.downstream == (a != 0 ? 2U : 1U));
  }
}

TEST_CASE("a batch that is wrong is found by micro-batches of the reference") {
  MemoryTrace candidate = one_batch();
  candidate.put_shard(candidate.manifest().tensors[1], 0, {5, 6, 7, 9});
  const CompareReport out = compared(two_batches(1), candidate);
  CHECK(first_names(out) == std::vector<std::string>{"b"});
}

TEST_CASE("a micro-batch that was lost is missing, and the reason names it") {
  MemoryTrace candidate = two_batches(1);
  std::erase_if(candidate.edit().tensors, [](const TensorEntry& entry) {
    return entry.key.name == "b" && entry.key.microbatch == 1;
  });
  const CompareReport out = compared(one_batch(), candidate);
  CHECK(out.verdict == Verdict::kWrong);
  const auto missing = std::find_if(out.results.begin(), out.results.end(), [](const auto& result) {
    return result.outcome == Outcome::kMissing;
  });
  REQUIRE(missing != out.results.end());
  CHECK(missing->key.name == "b");
  CHECK(missing->reason ==
        "in the reference only; it is all of micro-batches 0, 1, and the other "
        "side lacks micro-batch 1");
}

TEST_CASE("noise is measured on what is compared") {
  MemoryTrace big = one_batch();
  MemoryTrace small = two_batches(1, 1e-3);
  small.edit().run.noise = trace::NoiseFacts{1, 1e-7, "first"};
  const CompareReport out = compared(big, two_batches(2, 1e-3), "", {&small});
  CHECK(out.verdict == Verdict::kRight);
  CHECK(result_of(out, "a").comparison->noise->norms.at(0) == Catch::Approx(1e-3).epsilon(1e-3));
  CHECK(compared(big, two_batches(2, 1), "", {&small}).verdict == Verdict::kWrong);
}

TEST_CASE("micro-batches with other names are put together too") {
  MemoryTrace candidate;
  candidate.put(part_of("m.a0", {1, 1}, 0), {1});
  candidate.put(part_of("m.a1", {1, 1}, 0), {2});
  candidate.put(part_of("m.a0", {1, 1}, 1), {3});
  candidate.put(part_of("m.a1", {1, 1}, 1), {4});
  MemoryTrace reference;
  reference.put(whole_of("a", {2, 2}, How::kShard, {0, 1}), {1, 2, 3, 4});
  const std::string map =
      R"("candidate": [{"from": ["m.a0", "m.a1"], "to": "a", "concat": {"dim": 1}}])";
  CHECK(compared(reference, candidate, map).verdict == Verdict::kRight);
  CHECK(compared(reference, candidate).verdict == Verdict::kInconclusive);
}

}  // namespace
}  // namespace ttrace::engine::compare_views_test
