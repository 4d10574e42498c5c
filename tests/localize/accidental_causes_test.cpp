// Causes that fit by accident, each beside the bug that it would be mistaken for.
#include <algorithm>
#include <cmath>
#include <limits>

#include "localize/causes/trial.h"
#include "localize/two_runs.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::localize::accidental_causes_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::Names;
using test::random_values;
using test::rows_in_order;
using test::Scene;
using test::times;
using test::TwoRuns;
using test::Values;
using trace::Kind;

const Values kWhole = random_values(64, 1);  // [16, 4]
const Values kOnes(64, 1.0);

Values near_one(double by, std::uint32_t seed) {
  Values values = times(by, random_values(64, seed));
  for (double& value : values) value += 1;
  return values;
}

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Names names_of(const Values& reference, const Values& candidate,
               const test::Placements& placements = {}, const trace::Mesh& mesh = {},
               Kind kind = Kind::kOutput) {
  TwoRuns runs(mesh);
  runs.put(make_entry("fc", {16, 4}, kind), reference, candidate, placements);
  return runs.names();
}

// Names of what is found where so much is allowed that the tolerance rejects nothing.
Names names_with_room(const Values& reference, const Values& candidate) {
  Scene scene({}, reference);
  scene.hold_everywhere(candidate);
  Case the_case = scene.the_case();
  the_case.tolerance.floor_norm = 1e3;
  Names names;
  for (const Cause& cause : find_causes(the_case)) names.push_back(cause.name);
  return names;
}

// An output in four micro-batches, of which `wrong` has the reference's value of `other`.
struct Microbatches {
  std::uint64_t wrong;
  std::uint64_t other;
  std::uint64_t as_well;  // has the same value as `other`
  std::uint64_t ranks;    // micro-batches are dealt out over so many
  std::string name = "fc";
  Kind kind = Kind::kOutput;

  TwoRuns runs() const {
    TwoRuns made(make_mesh({{"dp", ranks}}));
    for (std::uint64_t mb = 0; mb < 4; ++mb) {
      trace::TensorEntry entry = make_entry(name, {16, 4}, kind);
      entry.key.microbatch = mb;
      const auto value_of = [this](std::uint64_t of) {
        return random_values(64, static_cast<std::uint32_t>(50 + (of == as_well ? other : of)));
      };
      made.reference().put(entry, value_of(mb));
      entry.held_at["dp"] = {mb % ranks};
      made.candidate().put(entry, value_of(mb == wrong ? other : mb));
    }
    return made;
  }
};

TEST_CASE("only a value that a rank had before may be stale") {
  const auto names = [](const Microbatches& of) { return of.runs().names(); };
  CHECK(names({2, 1, 1, 1}) == Names{"stale"});
  CHECK(names({2, 0, 0, 2}) == Names{"stale"});
  CHECK_FALSE(has(names({1, 2, 2, 1}), "stale"));  // it comes later
  CHECK_FALSE(has(names({0, 3, 3, 1}), "stale"));
  CHECK_FALSE(has(names({1, 0, 0, 2}), "stale"));  // another rank had it
  CHECK_FALSE(has(names({3, 0, 0, 2}), "stale"));
  CHECK_FALSE(has(names({2, 1, 3, 1}), "stale"));  // a later one is the same
  CHECK(names({2, 1, 0, 1}) == Names{"stale"});    // two earlier ones are
}

TEST_CASE("a constant is stale where it was right before") {
  const auto found = [](const Values& before) {
    TwoRuns runs;
    trace::TensorEntry entry = make_entry("fc.weight", {16, 4}, Kind::kParamGrad);
    const Values zeros(64, 0.0);
    runs.put(entry, before, zeros);
    entry.key.step = 1;
    runs.put(entry, kWhole, zeros);
    Names names;
    for (const auto& finding : runs.compared().findings) {
      for (const Cause& cause : finding.causes) names.push_back(cause.name);
    }
    return names;
  };
  CHECK(found(Values(64, 0.0)) == Names{"stale", "zeroed"});
  CHECK(found(random_values(64, 9)) == Names{"zeroed", "zeroed"});
}

TEST_CASE("data of another micro-batch is other data") {
  for (const std::uint64_t other : {1, 3}) {
    const TwoRuns runs = Microbatches{2, other, other, 1, "(model)[tokens]", Kind::kInput}.runs();
    CHECK_FALSE(has(runs.names(), "stale"));
    const comparison::CompareReport report = runs.compared();
    REQUIRE(report.other_start);
    CHECK(report.other_start->what == comparison::OtherStart::What::kData);
    CHECK(report.other_start->microbatches == std::vector<std::uint64_t>{2});
  }
}

TEST_CASE("a constant is a multiple of anything, on any grid, in any order and layer") {
  CHECK(names_of(near_one(0.01, 2), kOnes).empty());  // on the grid of every type
  CHECK(names_of(kOnes, Values(64, 0.98)).empty());   // "0.98 times"
  CHECK(names_of(kOnes, near_one(0.01, 3)).empty());
  CHECK(names_of(kOnes, times(2, kOnes)).empty());
  Values by_rank = kOnes;
  std::fill(by_rank.begin(), by_rank.begin() + 32, 0.5);
  const test::Placements cut{{"tp", trace::Shard{0, {}}}};
  CHECK_FALSE(has(names_of(kOnes, by_rank, cut, make_mesh({{"tp", 2}})), "scaled_by_rank"));
  // What varies is scaled, and rounded, as before.
  CHECK(names_of(near_one(0.01, 2), times(2, near_one(0.01, 2))) == Names{"scaled"});
  Values rounded = near_one(0.3, 2);
  for (double& value : rounded) value = tensor::round_to(tensor::DType::kBFloat16, value);
  CHECK(names_of(near_one(0.3, 2), rounded) == Names{"lower_precision"});
}

TEST_CASE("zeros are zeros, also of a constant") {
  CHECK(names_of(kOnes, Values(64, 0.0)) == Names{"zeroed"});
  Values tail = kOnes;
  std::fill(tail.begin() + 48, tail.end(), 0.0);
  CHECK(names_of(kOnes, tail) == Names{"truncated"});
  TwoRuns integers;
  integers.put(make_entry("mask", {16, 4}, Kind::kOutput, tensor::DType::kInt64), kOnes, tail);
  CHECK(integers.names() == Names{"truncated"});
}

TEST_CASE("terms of a constant may be its sum by accident") {
  const auto names = [](const Values& both) {
    TwoRuns runs(make_mesh({{"tp", 2}}));
    runs.put(make_entry("fc", {16, 4}, Kind::kParamGrad), both, both, {{"tp", trace::Partial{}}});
    for (const std::uint64_t rank : {0, 1}) {
      runs.candidate().put_shard(runs.candidate().manifest().tensors[0], rank, both);
    }
    return runs.names();
  };
  CHECK(has(names(kWhole), "double_reduction"));
  CHECK_FALSE(has(names(kOnes), "double_reduction"));
}

TEST_CASE("a small value is no multiple near nought") {
  CHECK_FALSE(has(names_with_room(kWhole, times(0.001, random_values(64, 9))), "scaled"));
  CHECK(names_with_room(kWhole, times(0.001, kWhole)) == Names{"scaled"});
}

TEST_CASE("two values are a multiple of two others more often than many are") {
  CHECK_FALSE(has(names_with_room({1, 2}, {2.1, 3.9}), "scaled"));
  CHECK(has(names_with_room({1, 2}, {2, 4}), "scaled"));
  Values nearly = times(2, kWhole);
  for (std::size_t i = 0; i < nearly.size(); ++i) nearly[i] *= i % 2 == 0 ? 1.03 : 0.97;
  CHECK(has(names_with_room(kWhole, nearly), "scaled"));
}

TEST_CASE("an update like the reference's is no multiple with nothing left") {
  TwoRuns runs;
  const Values before = random_values(64, 32);
  const auto after = [&before](double factor, std::uint32_t seed) {
    return test::minus(before, times(factor, random_values(64, seed)));
  };
  const auto found = [&](const Values& reference, const Values& candidate) {
    TwoRuns made;
    made.put(make_entry("w", {16, 4}, Kind::kParam), before);
    made.put(make_entry("w", {16, 4}, Kind::kParamAfterStep), reference, candidate);
    const test::FindingInView seen(made, "w", Kind::kParamAfterStep);
    return find_scaled_update(seen.the_case());
  };
  CHECK(found(after(1, 33), after(1, 33)).empty());
  CHECK(found(after(1, 33), after(0.001, 34)).empty());  // another step, and a small one
  const std::vector<Cause> causes = found(after(1, 33), after(1.25, 33));
  REQUIRE(causes.size() == 1);
  test::check_numbers(causes[0]);
}

TEST_CASE("layers that are alike are none of them") {
  const auto names = [](const Values& one, const Values& two) {
    TwoRuns runs;
    runs.put(make_entry("layers.0.fc", {16, 4}, Kind::kParam), kWhole, one);
    runs.put(make_entry("layers.1.fc", {16, 4}, Kind::kParam), one);
    runs.put(make_entry("layers.2.fc", {16, 4}, Kind::kParam), two);
    return runs.names();
  };
  const Values other = random_values(64, 7);
  CHECK(names(other, random_values(64, 8)) == Names{"other_layer"});
  CHECK_FALSE(has(names(other, other), "other_layer"));
  CHECK_FALSE(has(names(kOnes, random_values(64, 8)), "other_layer"));
}

TEST_CASE("copies of which one is right lack no sum") {
  const auto names = [](const Values& first, const Values& second) {
    TwoRuns runs(make_mesh({{"dp", 2}}));
    runs.put(make_entry("fc", {16, 4}), kWhole, first);
    runs.candidate().put_shard(runs.candidate().manifest().tensors[0], 1, second);
    return runs.names();
  };
  const Values zeros(64, 0.0);
  CHECK(names(kWhole, zeros) == Names{"replica_conflict"});
  CHECK(names(zeros, kWhole) == Names{"replica_conflict"});
  const Values part = random_values(64, 4);
  CHECK(has(names(part, test::minus(kWhole, part)), "missing_reduction"));
}

TEST_CASE("rows that are alike have not moved") {
  std::vector<std::size_t> step(16, 0);
  std::fill(step.begin() + 8, step.end(), 1);
  std::vector<std::size_t> later = step;
  later[8] = 0;
  const Values reference = rows_in_order(kWhole, 4, step);
  const Names names = names_of(reference, rows_in_order(kWhole, 4, later));
  CHECK_FALSE(has(names, "shifted"));
  std::vector<std::size_t> order(16);
  for (std::size_t i = 0; i < 16; ++i) order[i] = (i + 1) % 16;
  CHECK(names_of(kWhole, rows_in_order(kWhole, 4, order)) == Names{"shifted"});
}

TEST_CASE("equal rows differ from others by one row, whatever they are") {
  const auto repeated = [](std::uint32_t seed) {
    return rows_in_order(random_values(4, seed), 4, std::vector<std::size_t>(16, 0));
  };
  CHECK_FALSE(has(names_of(repeated(5), repeated(6)), "offset"));
  Values added = kWhole;
  const Values row = random_values(4, 2);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += row[i % 4];
  CHECK(names_of(kWhole, added) == Names{"offset"});
  // A row that is much larger than all that the reference has.
  Values large = kWhole;
  for (std::size_t i = 0; i < large.size(); ++i) large[i] += 30 * row[i % 4];
  CHECK(names_of(kWhole, large) == Names{"offset"});
  // Rows that hardly differ, each side's in its own way.
  const auto nearly = [&](std::uint32_t seed) {
    Values values = repeated(seed);
    const Values noise = random_values(values.size(), seed + 10);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 1e-7 * noise[i];
    return values;
  };
  CHECK_FALSE(has(names_of(nearly(5), nearly(6)), "offset"));
}

TEST_CASE("a constant of another shape says nothing of its layout") {
  const auto names = [](const Values& values) {
    TwoRuns runs(make_mesh({{"tp", 2}}));
    runs.put(make_entry("fc", {16, 4}), values, values, {{"tp", trace::Shard{0, {}}}});
    trace::TensorEntry& declared = runs.candidate().edit().tensors[0];
    declared.placements.clear();
    declared.shape = {8, 4};
    return runs.names();
  };
  CHECK(names(kWhole) == Names{"wrong_layout_declared"});
  CHECK(names(kOnes).empty());
}

TEST_CASE("whoever finds a cause, its numbers must support it") {
  Scene scene({}, kWhole);
  scene.hold_everywhere(times(2, kWhole));
  const Case the_case = scene.the_case();
  const auto supported = [&](const std::string& name, double unexplained, double value) {
    return is_supported(
        the_case, answer::cause_of(name, "", {"some words", {}}, unexplained, {{"value", value}}));
  };
  const double nan = std::nan("");
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(supported("new", 0.1, 1));
  CHECK_FALSE(supported("new", 0.1, nan));
  CHECK_FALSE(supported("new", 0.1, infinite));
  CHECK_FALSE(supported("new", nan, 1));
  CHECK_FALSE(supported("new", 0.72, 1));  // more than half of the squared error is left
  CHECK_FALSE(supported("new", 0.55, 1));  // a constant would leave twice as much at most
  CHECK(supported("mask_or_rows", 0.9, 1));
  CHECK_FALSE(supported("mask_or_rows", 0.9, nan));
}

TEST_CASE("the best of many hypotheses must fit better than the only one") {
  Scene scene({}, Values{1, 2, 3});
  scene.hold_everywhere({2, 1, 5});
  const Case the_case = scene.the_case();
  const double error = difference_of(the_case);
  CHECK_FALSE(is_by_chance(the_case, 0.2 * error, {}));
  CHECK(is_by_chance(the_case, 0.2 * error, {64}));
  CHECK(is_by_chance(the_case, 0.2 * error, {1, 2}));
  CHECK(is_by_chance(the_case, 0, {1, 3}));  // three numbers were fitted to three
  CHECK_FALSE(is_by_chance(the_case, 0.01 * error, {64}));
}

TEST_CASE("shards of one number are no copy and no slice of others") {
  const auto names = [](const Values& reference, const Values& candidate) {
    return names_of(reference, candidate, {{"tp", trace::Shard{0, {}}}}, make_mesh({{"tp", 2}}));
  };
  const auto halves = [](double first, double second) {
    Values values(64, first);
    std::fill(values.begin() + 32, values.end(), second);
    return values;
  };
  CHECK_FALSE(has(names(halves(1, 2), halves(1, 1)), "duplicated_shard"));
  CHECK_FALSE(has(names(halves(2, 1), halves(1, 1)), "duplicated_shard"));
  Values copied = kWhole;
  std::copy(kWhole.begin(), kWhole.begin() + 32, copied.begin() + 32);
  CHECK(names(kWhole, copied) == Names{"duplicated_shard"});
  // Rank 1 has a constant where the reference has one row of it.
  Values with_row = kWhole;
  std::fill(with_row.begin() + 20, with_row.begin() + 24, 0.5);
  Values constant = with_row;
  std::fill(constant.begin() + 32, constant.end(), 0.5);
  CHECK_FALSE(has(names(with_row, constant), "wrong_slice"));
  CHECK_FALSE(has(names(with_row, constant), "duplicated_shard"));
}

// The main gradient is the sum of three raw ones. `gone` is what the candidate's lacks.
Names names_of_sum(const std::vector<Values>& terms, const Values& gone) {
  TwoRuns runs;
  Values sum(64, 0.0);
  for (std::size_t mb = 0; mb < terms.size(); ++mb) {
    trace::TensorEntry entry = make_entry("w", {16, 4}, Kind::kParamGrad);
    entry.key.microbatch = mb;
    runs.put(entry, terms[mb]);
    sum = test::minus(sum, times(-1, terms[mb]));
  }
  runs.put(make_entry("w", {16, 4}, Kind::kMainGrad), sum, test::minus(sum, gone));
  return runs.names();
}

TEST_CASE("a sum of terms that are alike lacks none of them by name") {
  const Values terms[] = {random_values(64, 20), random_values(64, 21), random_values(64, 22)};
  CHECK(names_of_sum({terms[0], terms[1], terms[2]}, terms[1]) == Names{"wrong_sum"});
  CHECK_FALSE(has(names_of_sum({kOnes, kOnes, kOnes}, kOnes), "wrong_sum"));
  CHECK_FALSE(has(names_of_sum({kOnes, times(2, kOnes), kOnes}, times(0.7, kOnes)), "wrong_sum"));
  // What it lacks is no term.
  CHECK_FALSE(
      has(names_of_sum({terms[0], terms[1], terms[2]}, random_values(64, 23)), "wrong_sum"));
}

TEST_CASE("a product of rows that are alike is in no other order") {
  const auto names = [](const Values& x, const Values& dy, const Values& candidate) {
    Values product(16, 0.0);
    for (std::size_t at = 0; at < 256; ++at) {
      const std::size_t row = at / 16;
      product[at % 16] += dy[row * 4 + at % 16 / 4] * x[row * 4 + at % 4];
    }
    TwoRuns runs(make_mesh({{"tp", 2}}));
    runs.put(make_entry("fc", {16, 4}, Kind::kInput), x);
    runs.put(make_entry("fc", {16, 4}, Kind::kGradOutput), dy);
    runs.put(make_entry("fc.weight", {4, 4}, Kind::kParamGrad), product, candidate);
    return runs.names();
  };
  const Values rows = rows_in_order(kWhole, 4, std::vector<std::size_t>(16, 0));
  const Values other = random_values(16, 25);
  CHECK_FALSE(has(names(rows, random_values(64, 24), other), "wrong_order"));
  CHECK_FALSE(has(names(kOnes, random_values(64, 24), other), "wrong_order"));
  CHECK_FALSE(has(names(kOnes, kOnes, Values(16, 8.0)), "wrong_order"));
}

TEST_CASE("an update by one number is no multiple of the reference's") {
  const auto is_scaled = [](const Values& reference, const Values& candidate) {
    TwoRuns runs;
    const Values before = random_values(64, 32);
    runs.put(make_entry("w", {16, 4}, Kind::kParam), before);
    runs.put(make_entry("w", {16, 4}, Kind::kParamAfterStep), test::minus(before, reference),
             test::minus(before, candidate));
    const test::FindingInView seen(runs, "w", Kind::kParamAfterStep);
    const std::vector<Cause> found = find_scaled_update(seen.the_case());
    return std::any_of(found.begin(), found.end(),
                       [&](const Cause& cause) { return is_supported(seen.the_case(), cause); });
  };
  const Values step = random_values(64, 33);
  CHECK(is_scaled(step, times(2, step)));
  CHECK_FALSE(is_scaled(step, kOnes));
  CHECK_FALSE(is_scaled(kOnes, step));
  CHECK_FALSE(is_scaled(step, times(2, random_values(64, 34))));
}

}  // namespace
}  // namespace ttrace::localize::accidental_causes_test
