// Causes by which values are wrong in their place: scales, sums, offsets, zeros, precision.
#include <cmath>

#include "localize/two_runs.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::localize::value_causes_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::minus;
using test::Names;
using test::random_values;
using test::times;
using test::TwoRuns;
using test::Values;
using trace::Kind;

const Values kWhole = random_values(64, 1);  // [16, 4]

Names names_of(const Values& candidate) {
  TwoRuns runs;
  runs.put(make_entry("fc", {16, 4}), kWhole, candidate);
  return runs.names();
}

TEST_CASE("a tail of zeros is truncated, zeros elsewhere are zeroed") {
  Values tail = kWhole;
  std::fill(tail.begin() + 48, tail.end(), 0.0);
  CHECK(names_of(tail) == Names{"truncated"});
  Values rows = kWhole;
  std::fill(rows.begin() + 8, rows.begin() + 16, 0.0);
  CHECK(names_of(rows) == Names{"zeroed"});
  CHECK(names_of(Values(64, 0.0)) == Names{"zeroed"});
  Values elements = kWhole;
  elements[5] = elements[22] = elements[47] = 0;
  CHECK(names_of(elements) == Names{"zeroed"});
}

TEST_CASE("an error in some rows alone is named by them, other errors are not") {
  Values rows = kWhole;
  for (std::size_t i = 8; i < 16; ++i) rows[i] = kWhole[i + 20] - 0.3;
  TwoRuns runs;
  runs.put(make_entry("fc", {16, 4}), kWhole, rows);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "mask_or_rows");
  CHECK(causes[0].evidence.find("2 of 16 indices along dimension 0 (2 to 3)") != std::string::npos);
  CHECK(names_of(random_values(64, 9)).empty());
}

TEST_CASE("elements that are zero on one side alone, on both sides, are another mask") {
  Values reference = kWhole;
  Values candidate = kWhole;
  for (const std::size_t i : {3, 17, 30, 44}) reference[i] = 0;
  for (const std::size_t i : {5, 18, 33, 60}) candidate[i] = 0;
  TwoRuns runs;
  runs.put(make_entry("fc", {16, 4}), reference, candidate);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "mask_or_rows");
  CHECK(causes[0].evidence.find("another mask: 4 elements are zero") == 0);
}

TEST_CASE("a bias that was added once more is an offset, and named") {
  TwoRuns runs(make_mesh({{"tp", 2}}));
  const Values bias = random_values(4, 2);
  runs.put(make_entry("fc.bias", {4}, Kind::kParam), bias);
  Values candidate = kWhole;
  for (std::size_t i = 0; i < candidate.size(); ++i) candidate[i] += bias[i % 4];
  runs.put(make_entry("fc", {16, 4}), kWhole, candidate);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "offset");
  CHECK(causes[0].evidence.find("the same row is added to all 16 rows: 1 times fc.bias") == 0);
}

TEST_CASE("values on the grid of a narrower type are of a lower precision") {
  Values rounded = kWhole;
  for (double& value : rounded) value = tensor::round_to(tensor::DType::kBFloat16, value);
  TwoRuns runs;
  runs.put(make_entry("fc", {16, 4}), kWhole, rounded);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "lower_precision");
  CHECK(causes[0].evidence.find("all values are numbers of bf16") == 0);
}

TEST_CASE("values that are on the grid and elsewhere are not of a lower precision") {
  Values other = random_values(64, 12);
  for (double& value : other) value = tensor::round_to(tensor::DType::kBFloat16, value);
  CHECK(names_of(times(30, other)).empty());
}

TEST_CASE("shards with factors of their own are scaled by rank") {
  TwoRuns runs(make_mesh({{"tp", 2}}));
  Values candidate = kWhole;
  for (std::size_t i = 0; i < 64; ++i) candidate[i] *= i < 32 ? 0.5 : 3;
  runs.put(make_entry("fc", {16, 4}), kWhole, candidate, {{"tp", trace::Shard{0, {}}}});
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "scaled_by_rank");
  CHECK(causes[0].evidence.find("0.5 = 1/2 on rank 0, 3 on rank 1") != std::string::npos);
}

TEST_CASE("terms that are the sum already are reduced twice") {
  TwoRuns runs(make_mesh({{"tp", 2}}));
  const trace::TensorEntry entry = make_entry("fc", {16, 4}, Kind::kParamGrad);
  runs.put(entry, kWhole, kWhole, {{"tp", trace::Partial{}}});
  for (const std::uint64_t rank : {0, 1}) {
    runs.candidate().put_shard(runs.candidate().manifest().tensors[0], rank, kWhole);
  }
  const Names names = runs.names();
  CHECK(std::count(names.begin(), names.end(), "double_reduction") == 1);
  CHECK(std::count(names.begin(), names.end(), "scaled") == 1);
}

TEST_CASE("half of a sum is no double reduction") {
  TwoRuns runs(make_mesh({{"tp", 2}}));
  runs.put(make_entry("fc", {16, 4}, Kind::kParamGrad), kWhole, times(0.5, kWhole),
           {{"tp", trace::Partial{}}});
  CHECK(runs.names() == Names{"scaled"});
}

TEST_CASE("copies that differ say how far each is from the reference") {
  TwoRuns runs(make_mesh({{"dp", 2}}));
  runs.put(make_entry("fc", {16, 4}), kWhole, kWhole);
  runs.candidate().put_shard(runs.candidate().manifest().tensors[0], 1, random_values(64, 4));
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "replica_conflict");
  CHECK(causes[0].axis == "dp");
  CHECK(causes[0].evidence.find("dp 0 is within the tolerance of the reference, dp 1 is ") == 0);
}

TEST_CASE("the first NaN is named with its place") {
  Values broken = kWhole;
  broken[9] = std::nan("");
  TwoRuns runs;
  runs.put(make_entry("fc", {16, 4}), kWhole, broken);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "non_finite");
  CHECK(causes[0].evidence.find("first that differs at [2, 1] on rank 0") != std::string::npos);
}

TEST_CASE("what is not finite decides the numbers and the ranks of a finding") {
  TwoRuns runs(make_mesh({{"tp", 2}}));
  Values broken = kWhole;
  for (double& value : broken) value *= 1 + 1e-4;  // an error that is larger than allowed
  broken[40] = std::nan("");
  runs.put(make_entry("fc", {16, 4}), kWhole, broken, {{"tp", trace::Shard{0, {}}}});
  const comparison::CompareReport report = runs.compared();
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].ranks == std::vector<std::uint64_t>{1});
  const comparison::TensorComparison& result = report.results[report.findings[0].result];
  CHECK(std::isnan(comparison::told_share(result)));
  CHECK(std::isnan(comparison::told_error(result)));
  CHECK(std::isinf(comparison::used_share(*result.comparison)));
  CHECK(std::isinf(comparison::passing_multiplier(*result.comparison)));
}

TEST_CASE("of copies that differ the distance is the error") {
  TwoRuns runs(make_mesh({{"dp", 2}}));
  runs.put(make_entry("fc", {16, 4}), kWhole, kWhole);
  Values other = kWhole;
  for (double& value : other) value *= 1.5;
  runs.candidate().put_shard(runs.candidate().manifest().tensors[0], 1, other);
  const comparison::CompareReport report = runs.compared();
  REQUIRE(report.findings.size() == 1);
  const comparison::TensorComparison& result = report.results[report.findings[0].result];
  CHECK(result.outcome == judge::Outcome::kReplicaConflict);
  CHECK(comparison::told_error(result) == Approx(0.5).epsilon(0.01));
  CHECK(comparison::told_share(result) > 1000);
}

// Raw gradients of two micro-batches, each on one rank of dp, and the main gradient.
struct Gradients {
  TwoRuns runs{make_mesh({{"dp", 2}})};
  Values first = random_values(64, 20);
  Values second = random_values(64, 21);
  Values sum = minus(first, times(-1, second));

  Gradients() {
    for (const std::uint64_t mb : {0, 1}) {
      trace::TensorEntry entry = make_entry("w", {16, 4}, Kind::kParamGrad);
      entry.key.microbatch = mb;
      runs.reference().put(entry, mb == 0 ? first : second);
      entry.held_at["dp"] = {mb};
      runs.candidate().put(entry, mb == 0 ? first : second);
    }
  }
};

TEST_CASE("shards of a sum that have their own rank's terms alone were never reduced") {
  Gradients made;
  Values candidate = made.first;
  std::copy(made.second.begin() + 32, made.second.end(), candidate.begin() + 32);
  made.runs.put(make_entry("w", {16, 4}, Kind::kMainGrad), made.sum, candidate,
                {{"dp", trace::Shard{0, {}}}});
  const std::vector<Cause> causes = made.runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "missing_reduction");
  CHECK(causes[0].axis == "dp");
  CHECK(causes[0].evidence.find("on rank 0 it lacks micro-batch 1; on rank 1 it lacks "
                                "micro-batch 0") != std::string::npos);
}

TEST_CASE("a sum on one stage of a pipeline was not reduced over the axis of its terms") {
  TwoRuns runs(make_mesh({{"pp", 2}, {"dp", 2}}));
  const Values terms[] = {random_values(64, 20), random_values(64, 21)};
  for (const std::uint64_t mb : {0, 1}) {
    trace::TensorEntry entry = make_entry("w", {16, 4}, Kind::kParamGrad);
    entry.key.microbatch = mb;
    runs.reference().put(entry, terms[mb]);
    entry.held_at = {{"pp", {1}}, {"dp", {mb}}};
    runs.candidate().put(entry, terms[mb]);
  }
  Values candidate = terms[0];
  std::copy(terms[1].begin() + 32, terms[1].end(), candidate.begin() + 32);
  runs.put(make_entry("w", {16, 4}, Kind::kMainGrad), minus(terms[0], times(-1, terms[1])),
           candidate, {{"pp", trace::Only{1}}, {"dp", trace::Shard{0, {}}}});
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "missing_reduction");
  CHECK(causes[0].axis == "dp");
}

TEST_CASE("a sum that lacks a term on all ranks is a wrong sum") {
  Gradients made;
  made.runs.put(make_entry("w", {16, 4}, Kind::kMainGrad), made.sum, made.first);
  CHECK(made.runs.names() == Names{"wrong_sum"});
}

TEST_CASE("a sum is looked at in all of its shards") {
  constexpr std::size_t kOfShard = 16;
  const Values terms[] = {random_values(20 * kOfShard, 20), random_values(20 * kOfShard, 21)};
  const Values sum = minus(terms[0], times(-1, terms[1]));
  const auto names_of = [&](const Values& candidate) {
    TwoRuns runs(make_mesh({{"dp", 20}}));
    for (const std::uint64_t mb : {0, 1}) {
      trace::TensorEntry entry = make_entry("w", {80, 4}, Kind::kParamGrad);
      entry.key.microbatch = mb;
      runs.reference().put(entry, terms[mb]);
      entry.held_at["dp"] = {mb};
      runs.candidate().put(entry, terms[mb]);
    }
    runs.put(make_entry("w", {80, 4}, Kind::kMainGrad), sum, candidate,
             {{"dp", trace::Shard{0, {}}}});
    return runs.names();
  };
  Values wrong = sum;
  std::copy_n(terms[0].begin() + 18 * kOfShard, kOfShard, wrong.begin() + 18 * kOfShard);
  CHECK(names_of(wrong) == Names{"wrong_sum"});
  // What the first shards lack does not explain the others.
  wrong = random_values(20 * kOfShard, 22);
  std::copy_n(terms[0].begin(), 16 * kOfShard, wrong.begin());
  CHECK(names_of(wrong) != Names{"wrong_sum"});
}

TEST_CASE("the weight of a term is printed where code could have written it") {
  const auto evidence_of = [](double weight) {
    Gradients made;
    const Values wrong = minus(made.first, times(-weight, made.second));
    made.runs.put(make_entry("w", {16, 4}, Kind::kMainGrad), made.sum, wrong);
    const std::vector<Cause> causes = made.runs.causes();
    REQUIRE(causes.size() == 1);
    CHECK(causes[0].name == "wrong_sum");
    return causes[0].evidence;
  };
  for (const auto& [weight, words] : {std::pair{2.0, "2 times micro-batch 1"},
                                      {1.5, "1.5 times micro-batch 1"},
                                      {32.0, "32 times micro-batch 1"},
                                      {2.71828e8, "another multiple of micro-batch 1"},
                                      {1.618034, "another multiple of micro-batch 1"}}) {
    CAPTURE(weight);
    CHECK(evidence_of(weight).find(words) != std::string::npos);
  }
}

TEST_CASE("a gradient norm of one rank's gradients alone is a local norm") {
  TwoRuns runs(make_mesh({{"tp", 2}}));
  runs.put(make_entry("w", {16, 4}, Kind::kMainGrad), kWhole, kWhole,
           {{"tp", trace::Shard{0, {}}}});
  double half = 0;
  double all = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    all += kWhole[i] * kWhole[i];
    half += i < 32 ? kWhole[i] * kWhole[i] : 0;
  }
  runs.put(make_entry("grad_norm", {}, Kind::kGradNorm), {std::sqrt(all)}, {std::sqrt(half)});
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "local_norm");
  CHECK(causes[0].evidence.find("the norm of the gradients of tp 0") != std::string::npos);
}

TEST_CASE("an update that was clipped by another norm is scaled, and the norm is named") {
  // Of two meshes over the same ranks, as experts and all else have them.
  TwoRuns runs(make_mesh({{"dp", 2}}));
  runs.candidate().edit().meshes["expert"] = make_mesh({{"ep", 2}});
  const Values dense = random_values(64, 30);
  const Values expert = times(0.5, random_values(64, 31));
  runs.put(make_entry("w", {16, 4}, Kind::kMainGrad), dense);
  trace::TensorEntry of_expert = make_entry("e", {16, 4}, Kind::kMainGrad);
  runs.reference().put(of_expert, expert);
  of_expert.mesh = "expert";
  runs.candidate().put(of_expert, expert);
  const auto squares = [](const Values& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return sum;
  };
  const double all = std::sqrt(squares(dense) + squares(expert));
  runs.put(make_entry("grad_norm", {}, Kind::kGradNorm), {all});
  const double own = std::sqrt(squares(dense));
  const Values before = random_values(64, 32);
  runs.put(make_entry("w", {16, 4}, Kind::kParam), before);
  runs.put(make_entry("w", {16, 4}, Kind::kParamAfterStep), minus(before, times(1 / all, dense)),
           minus(before, times(1 / own, dense)));
  const test::FindingInView seen(runs, "w", Kind::kParamAfterStep);
  const std::vector<Cause> causes = find_scaled_update(seen.the_case());
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "scaled");
  CHECK(causes[0].evidence.find("as if clipped by the norm of the gradients of the default mesh") !=
        std::string::npos);
}

TEST_CASE("an update in another direction is not scaled") {
  TwoRuns runs;
  const Values before = random_values(64, 32);
  runs.put(make_entry("w", {16, 4}, Kind::kParam), before);
  runs.put(make_entry("w", {16, 4}, Kind::kParamAfterStep), minus(before, random_values(64, 33)),
           minus(before, random_values(64, 34)));
  const test::FindingInView seen(runs, "w", Kind::kParamAfterStep);
  CHECK(find_scaled_update(seen.the_case()).empty());
}

// X·Xᵀ·X of a matrix in row-major order: a function of its singular values, as an orthogonalisation
// is.
Values cubed(const Values& x, std::uint64_t rows) {
  const std::uint64_t columns = x.size() / rows;
  Values made(x.size(), 0.0);
  for (std::uint64_t i = 0; i < rows; ++i) {
    for (std::uint64_t k = 0; k < rows; ++k) {
      double product = 0;
      for (std::uint64_t j = 0; j < columns; ++j)
        product += x[i * columns + j] * x[k * columns + j];
      for (std::uint64_t j = 0; j < columns; ++j) {
        made[i * columns + j] += product * x[k * columns + j];
      }
    }
  }
  return made;
}

// cubed() of the upper and of the lower half of the rows.
Values cubed_by_halves(const Values& x, std::uint64_t rows) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  Values made = cubed(Values(x.begin(), middle), rows / 2);
  const Values lower = cubed(Values(middle, x.end()), rows / 2);
  made.insert(made.end(), lower.begin(), lower.end());
  return made;
}

// The causes of an update of which each of two ranks has a half of the rows. The momentum before
// the step is `momentum`; none if it is empty.
std::vector<Cause> causes_of_update(std::uint64_t rows, const Values& gradient,
                                    const Values& momentum, const Values& reference,
                                    const Values& candidate, bool is_cut = true) {
  TwoRuns runs(make_mesh({{"fsdp", 2}}));
  const std::uint64_t columns = gradient.size() / rows;
  const Values before = random_values(rows * columns, 40);
  trace::TensorEntry entry = make_entry("w", {rows, columns}, Kind::kMainGrad);
  runs.reference().put(entry, gradient);
  if (is_cut) entry.placements["fsdp"] = trace::Shard{0, {}};
  runs.candidate().put(entry, gradient);
  if (!momentum.empty()) {
    runs.put(make_entry("w.momentum_buffer", {rows, columns}, Kind::kOptimizerState), momentum);
  }
  runs.put(make_entry("w", {rows, columns}, Kind::kParam), before);
  runs.put(make_entry("w", {rows, columns}, Kind::kParamAfterStep), minus(before, reference),
           minus(before, candidate));
  const test::FindingInView seen(runs, "w", Kind::kParamAfterStep);
  return find_orthogonal_by_shard(seen.the_case());
}

// The causes of a parameter in step 1, of which step 0 left `left` in both runs; the candidate has
// `average` beside it.
std::vector<Cause> causes_of_parameter(const Values& left, const Values& reference,
                                       const Values& candidate, const Values& average) {
  TwoRuns runs(make_mesh({{"dp", 1}}));
  runs.put(make_entry("w", {4, 2}, Kind::kParamAfterStep), left);
  runs.put(make_entry("average.w", {4, 2}, Kind::kBufferAfterStep), average);
  trace::TensorEntry next = make_entry("w", {4, 2}, Kind::kParam);
  next.key.step = 1;
  runs.put(next, reference, candidate);
  const test::FindingInView seen(runs, "w", Kind::kParam);
  return find_changed_between_steps(seen.the_case());
}

TEST_CASE(
    "a parameter that is not what the step before left is named, and what it was taken from") {
  const Values left = random_values(8, 60);
  const Values other = random_values(8, 61);
  const Values average = random_values(8, 62);
  std::vector<Cause> causes = causes_of_parameter(left, left, other, average);
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "changed_between_steps");
  CHECK(causes[0].evidence == "it is not what step 0 left");
  causes = causes_of_parameter(left, left, average, average);
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].evidence ==
        "it is not what step 0 left, but bit for bit what it left in average.w");
  CHECK(causes_of_parameter(left, left, left, average).empty());
  CHECK(causes_of_parameter(left, other, average, average).empty());
}

TEST_CASE("a tensor is named that a step moves and the reference's leaves as it was") {
  const Values before = random_values(8, 63);
  const Values moved = random_values(8, 64);
  const Values further = random_values(8, 65);
  std::string with_gradient = "other";
  const auto causes = [&](Kind kind, Kind left, const Values& reference, const Values& candidate) {
    TwoRuns runs(make_mesh({{"dp", 1}}));
    runs.put(make_entry("w", {4, 2}, kind), before);
    runs.put(make_entry("w", {4, 2}, left), reference, candidate);
    runs.put(make_entry(with_gradient, {4, 2}, Kind::kMainGrad), before);
    return find_not_frozen(test::FindingInView(runs, "w", left).the_case());
  };
  for (const auto& [kind, left] : {std::pair{Kind::kParam, Kind::kParamAfterStep},
                                   std::pair{Kind::kBuffer, Kind::kBufferAfterStep}}) {
    const std::vector<Cause> found = causes(kind, left, before, moved);
    REQUIRE(found.size() == 1);
    CHECK(found[0].name == "not_frozen");
    CHECK(causes(kind, left, moved, before).empty());
    CHECK(causes(kind, left, moved, further).empty());
  }
  // A learning rate of 0, or an update that rounding loses.
  with_gradient = "w";
  CHECK(causes(Kind::kParam, Kind::kParamAfterStep, before, moved).empty());
}

// The causes of an average of which the reference went `share` of the way to the new parameter.
std::vector<Cause> causes_of_average(const Values& candidate, double share = 0.1) {
  TwoRuns runs(make_mesh({{"dp", 1}}));
  const Values before = random_values(32, 70);
  const Values updated = random_values(32, 71);
  const Values average = random_values(32, 72);
  Values right = average;
  for (std::size_t i = 0; i < right.size(); ++i) right[i] += share * (updated[i] - average[i]);
  Values wrong = average;
  for (std::size_t i = 0; i < wrong.size(); ++i)
    wrong[i] += candidate[0] * (before[i] - average[i]);
  if (candidate.size() > 1) wrong = candidate;
  runs.put(make_entry("w", {4, 8}, Kind::kParam), before);
  runs.put(make_entry("w", {4, 8}, Kind::kParamAfterStep), updated);
  runs.put(make_entry("average.w", {4, 8}, Kind::kBuffer), average);
  runs.put(make_entry("average.w", {4, 8}, Kind::kBufferAfterStep), right, wrong);
  const test::FindingInView seen(runs, "average.w", Kind::kBufferAfterStep);
  return find_follows_old(seen.the_case());
}

TEST_CASE("an average that follows the parameter from before the update is named") {
  for (const double share : {0.1, 0.4}) {
    const std::vector<Cause> causes = causes_of_average({share});
    REQUIRE(causes.size() == 1);
    CHECK(causes[0].name == "follows_old");
  }
  CHECK(causes_of_average(random_values(32, 73)).empty());
  CHECK(causes_of_average(random_values(32, 72)).empty());  // it did not move
}

TEST_CASE("copies that differ by the loss scales of the ranks are named") {
  for (const double second : {1.0 / 1024, 1.0 / 65536}) {
    TwoRuns runs(make_mesh({{"dp", 2}}));
    const Values gradient = random_values(8, 63);
    for (std::uint64_t number = 0; number < 2; ++number) {
      trace::TensorEntry raw = make_entry("w", {8}, Kind::kParamGrad);
      raw.key.microbatch = number;
      runs.reference().put(raw, gradient);
      raw.scale = number == 0 ? 1.0 / 1024 : second;
      raw.held_at["dp"] = {number};
      runs.candidate().put(raw, gradient);
    }
    const trace::TensorEntry main = make_entry("w", {8}, Kind::kMainGrad);
    runs.reference().put(main, gradient);
    runs.candidate().put(main, gradient);
    runs.candidate().put_shard(main, 1, times(2, gradient));
    const test::FindingInView seen(runs, "w", Kind::kMainGrad);
    Case the_case = seen.the_case();
    the_case.conflict = true;
    const std::vector<Cause> causes = find_loss_scales(the_case);
    if (second * 1024 == 1) {
      CHECK(causes.empty());
      continue;
    }
    REQUIRE(causes.size() == 1);
    CHECK(causes[0].evidence ==
          "the scale of the loss is 64 times as large on rank 1 as on rank 0");
  }
}

TEST_CASE("an update that was orthogonalised shard by shard is named") {
  for (const auto& [rows, columns] :
       {std::pair<std::uint64_t, std::uint64_t>{16, 8}, {16, 32}, {64, 40}, {16, 16}}) {
    for (const bool has_momentum : {false, true}) {
      CAPTURE(rows, columns, has_momentum);
      const Values gradient = random_values(rows * columns, 50);
      const Values momentum = has_momentum ? random_values(rows * columns, 51) : Values();
      const Values used = has_momentum ? minus(gradient, times(-0.9, momentum)) : gradient;
      const Values whole = times(0.01, cubed(used, rows));
      const Values halves = times(0.01, cubed_by_halves(used, rows));
      const auto found = [&](const Values& reference, const Values& candidate, bool is_cut = true) {
        return causes_of_update(rows, gradient, momentum, reference, candidate, is_cut);
      };
      const std::vector<Cause> causes = found(whole, halves);
      REQUIRE(causes.size() == 1);
      CHECK(causes[0].name == "orthogonal_by_shard");
      CHECK(causes[0].axis == "fsdp");
      CHECK(found(whole, halves, false).empty());
      CHECK(found(whole, times(1.1, whole)).empty());
      CHECK(found(whole, random_values(rows * columns, 54)).empty());
      CHECK(found(random_values(rows * columns, 55), halves).empty());
      CHECK(found(whole, Values(rows * columns, 0.0)).empty());
      CHECK(found(halves, whole).empty());
    }
  }
}

TEST_CASE("copies of an updated parameter that did not move are stale on their ranks") {
  TwoRuns runs(make_mesh({{"dp", 2}}));
  const Values before = random_values(64, 32);
  runs.put(make_entry("w", {16, 4}, Kind::kParam), before);
  runs.put(make_entry("w", {16, 4}, Kind::kParamAfterStep), kWhole);
  runs.candidate().put_shard(runs.candidate().manifest().tensors[1], 1, before);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "stale");
  CHECK(causes[0].axis == "dp");
  CHECK(causes[0].evidence == "bit for bit the parameter before the step on dp 1");
}

TEST_CASE("copies that each lack a part of another rank's terms are a conflict") {
  // Two micro-batches a rank; the second one was added after the sum over dp.
  TwoRuns runs(make_mesh({{"dp", 2}}));
  std::vector<Values> raw;
  for (std::uint32_t mb = 0; mb < 4; ++mb) {
    raw.push_back(random_values(64, 40 + mb));
    trace::TensorEntry entry = make_entry("w", {16, 4}, Kind::kParamGrad);
    entry.key.microbatch = mb;
    runs.reference().put(entry, raw[mb]);
    entry.held_at["dp"] = {mb / 2};
    runs.candidate().put(entry, raw[mb]);
  }
  const auto sum = [&](const std::vector<std::size_t>& which) {
    Values made(64, 0.0);
    for (const std::size_t mb : which) made = minus(made, times(-1, raw[mb]));
    return made;
  };
  runs.put(make_entry("w", {16, 4}, Kind::kMainGrad), sum({0, 1, 2, 3}), sum({0, 1, 2}));
  runs.candidate().put_shard(runs.candidate().manifest().tensors.back(), 1, sum({0, 2, 3}));
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "replica_conflict");
  CHECK(causes[0].evidence.find("on dp 0 it lacks micro-batch 3; on dp 1 it lacks micro-batch 1") !=
        std::string::npos);
}

TEST_CASE("a layer that no rank has is missing, and the others' stages are named") {
  TwoRuns runs(make_mesh({{"pp", 2}}));
  for (const std::string layer : {"layers.0", "layers.1", "layers.2"}) {
    for (const std::string leaf : {".norm", ".fc"}) {
      trace::TensorEntry entry = make_entry(layer + leaf, {16, 4});
      runs.reference().put(entry, kWhole);
      if (layer == "layers.2") continue;
      entry.held_at["pp"] = {layer == "layers.0" ? 0U : 1U};
      runs.candidate().put(entry, kWhole);
    }
  }
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "missing_layer");
  CHECK(causes[0].evidence == "no rank has layers.2; there are layers.0 on pp 0, layers.1 on pp 1");
}

TEST_CASE("causes that were tried in vain are kept with what they leave") {
  TwoRuns runs;
  runs.put(make_entry("fc", {16, 4}), kWhole, random_values(64, 9));
  const comparison::CompareReport report = runs.compared();
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].causes.empty());
  const auto& rejected = report.findings[0].rejected;
  REQUIRE(!rejected.empty());
  CHECK(std::is_sorted(rejected.begin(), rejected.end(),
                       [](const auto& a, const auto& b) { return a.unexplained < b.unexplained; }));
  CHECK(std::any_of(rejected.begin(), rejected.end(),
                    [](const auto& one) { return one.name == "scaled"; }));
}

}  // namespace
}  // namespace ttrace::localize::value_causes_test
