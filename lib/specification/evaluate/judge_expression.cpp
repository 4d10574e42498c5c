#include "specification/evaluate/judge_expression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "specification/evaluate/bands.h"
#include "specification/evaluate/bound.h"
#include "specification/evaluate/equal_scores.h"
#include "specification/evaluate/evaluation.h"
#include "specification/evaluate/full_judging.h"
#include "specification/evaluate/probes.h"
#include "specification/primitives/noise.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Integers may differ in this many elements for each element that simulated roundings change.
constexpr double kUnequalPerFlip = 3;
// Rows of fewer elements are named only after kDrawsOfMore draws.
constexpr std::uint64_t kFewestInRow = 32;
// The most draws that look for another set of chosen elements.
constexpr std::uint64_t kDrawsOfSets = 32;
// The most ways to choose among equal elements that are tried; fewer if the first change nothing.
constexpr std::uint64_t kWaysToChoose = 128;
constexpr std::uint64_t kWaysWithoutTies = 8;
// The most that a factor which elements share may be off: eight roundings to bf16.
constexpr double kMostOfSharedFactor = 0x1p-5;
// The number of draws if those of draws_for() are too few to know the spread.
constexpr std::uint64_t kDrawsOfMore = 32;
constexpr std::uint64_t kFewestForOneDraw = 4096;
// A tensor that uses at most this share of its bound is judged by a sample of simulated roundings;
// above it, all roundings are simulated.
constexpr double kSampledShare = 0.6;
// The most that a bound of exact inputs may be of the value.
constexpr double kMostOfExact = 0.5;
// Above this share of the allowed scale, the rounding on storage is taken into account, too.
constexpr double kSuspectedScale = 0.5;

Perturbation draw(const ExpressionOptions& options, std::uint64_t number,
                  bool keeps_exact_leaves = false) {
  return {Noise(options.seed).stream(1 + number).bits(), keeps_exact_leaves};
}

// More draws for fewer elements: the size of one random number says little.
std::uint64_t draws_for(std::uint64_t elements) {
  return elements >= kFewestForOneDraw ? 1 : elements >= 256 ? 2 : 4;
}

// Whether some rows are off, but not most of them, and rows have too few elements for their spread
// to be known: where a row's spread is much larger than that of others, as after a division by a
// small number, its random numbers may all be small in a few draws.
bool needs_more_draws(const ExpressionJudgement& judgement, const RowSums& sums) {
  const std::uint64_t rows = sums.error.size();
  return sums.elements() < kFewestInRow * rows && judgement.non_finite == 0 &&
         judgement.rows_beyond > 0 && 2 * judgement.rows_beyond <= rows;
}

// Whether nothing but the scale is off, by no more than a few roundings of a 16-bit factor. The
// rounding of a factor that all or the largest elements share is one random number, which may be
// near 0 in one draw.
bool needs_more_draws_of_scale(const ExpressionJudgement& judgement) {
  return judgement.share > 1 && judgement.non_finite == 0 &&
         std::abs(judgement.scale - 1) <= kMostOfSharedFactor &&
         judgement.residual * judgement.expected_norm <= judgement.bound;
}

// Whether nothing but some small elements is off, and these are few. Roundings move an element that
// is a difference of larger numbers much more than others of its size, and a band may have one such
// element.
bool needs_more_draws_of_small(const ExpressionJudgement& judgement) {
  return judgement.small_elements_beyond > 0 &&
         judgement.small_elements_beyond < kFewestForOneDraw && judgement.non_finite == 0 &&
         judgement.norm_share <= 1 && judgement.row_share <= kRowMultiplier;
}

// Whether a step rounds: an expression of integers alone is exact.
bool has_rounding(const Expression& expression) {
  for (std::uint32_t v = 0; v < expression.leaves.size() + expression.steps.size(); ++v) {
    if (unit_roundoff(dtype_of_value(expression, v)) > 0) return true;
  }
  return false;
}

// Whether a step asks which numbers are equal, as the derivative of a maximum does: inputs that are
// off by a rounding each never are.
bool asks_for_equal_numbers(const Expression& expression) {
  return std::any_of(expression.steps.begin(), expression.steps.end(), [&](const Step& step) {
    return step.node->primitive->finds_equals &&
           tensor::is_floating(dtype_of_value(expression, step.arguments[0]));
  });
}

// What storing the result adds to the roundings of the expression.
StorageRounding storage_of(const Expression& expression, tensor::DType dtype) {
  StorageRounding storage{unit_roundoff(dtype), tensor::quantum(dtype)};
  std::uint32_t value = expression.result;
  while (value >= expression.leaves.size()) {
    const Step& step = expression.steps[value - expression.leaves.size()];
    const Rounding rounding = step.node->primitive->rounding;
    const bool narrowing = rounding == Rounding::kWhereNarrower &&
                           unit_roundoff(step.node->dtype) >
                               unit_roundoff(dtype_of_value(expression, step.arguments[0]));
    if (rounding == Rounding::kOnce || narrowing) {
      if (unit_roundoff(step.node->dtype) >= storage.unit) storage.unit = 0;
      break;
    }
    if (step.arguments.size() != 1) break;
    value = step.arguments[0];
  }
  return storage;
}

void require_same_shape(const Value& expected, const Value& recorded) {
  if (expected.shape() == recorded.shape()) return;
  throw base::input_error("the recorded tensor is ", describe_shape(recorded.shape()),
                          ", its expression gives ", describe_shape(expected.shape()));
}

std::vector<std::uint64_t> different_elements(const Value& one, const Value& other) {
  std::vector<std::uint64_t> different;
  for (std::uint64_t i = 0; i < one.size(); ++i) {
    if (one.data()[i] != other.data()[i]) different.push_back(i);
  }
  return different;
}

// Removes from `unequal` the elements that another choice among equal elements changes: topk does
// not say which one it takes. Each way to choose reads the lines from another place on; if lines
// are no longer than the number of ways, each of n equal elements comes first in some way. Returns
// whether any other choice changes something.
bool leave_out_ties(const Expression& expression, std::span<const Value> leaves,
                    const Value& expected, const ExpressionOptions& options,
                    std::vector<std::uint64_t>& unequal) {
  bool any = false;
  for (std::uint64_t way = 1; way < kWaysToChoose && !unequal.empty(); ++way) {
    if (way > kWaysWithoutTies && !any) break;
    // The first ways read from a half, a fourth, three fourths ... of the line on.
    double begin = 0;
    double part = 0.5;
    for (std::uint64_t bits = way; bits > 0; bits >>= 1U, part /= 2) {
      if ((bits & 1U) != 0) begin += part;
    }
    Perturbation ties;
    ties.ties = begin;
    const Value chosen = evaluate(expression, leaves, ties, options.context).to_dense();
    any = any || !different_elements(chosen, expected).empty();
    std::erase_if(unequal, [&](std::uint64_t i) { return chosen.data()[i] != expected.data()[i]; });
  }
  return any;
}

// Judges integers and booleans: they must be equal, except for choices among equal scores and for
// elements that simulated roundings change too.
void judge_exactly(const Expression& expression, std::span<const Value> leaves,
                   const Value& recorded, const ExpressionOptions& options,
                   ExpressionJudgement& judgement) {
  const Value expected =
      evaluate(expression, leaves, std::nullopt, options.context, options.sharing).to_dense();
  require_same_shape(expected, recorded);
  judgement.equal_bits = different_elements(recorded, expected).empty();
  if (judgement.equal_bits) return;
  auto scores = EqualScores::of(expression, leaves, options.context, options.sharing);
  const auto ordered = [&](const Value& held) {
    return scores ? scores->in_order_of(held, expected) : held;
  };
  const auto different = [&](const Value& held) {
    return scores ? scores->different(held, expected) : different_elements(held, expected);
  };
  const Value chosen = ordered(recorded);
  std::vector<std::uint64_t> unequal = different(chosen);
  const bool has_ties = !scores && leave_out_ties(expression, leaves, expected, options, unequal);
  judgement.unequal = unequal.size();
  if (unequal.empty()) return;
  if (has_rounding(expression)) {
    const std::uint32_t wanted[] = {expression.result,
                                    scores ? scores->value() : expression.result};
    // Roundings often change the order of the chosen elements, but rarely the set: two draws may
    // show no other set.
    const bool chooses_sets = scores ? !scores->ordered() : has_ties;
    const std::uint64_t most_draws = chooses_sets ? kDrawsOfSets : 2;
    for (std::uint64_t d = 0; d < most_draws && (d < 2 || judgement.undecided == 0); ++d) {
      const std::vector<Value> moved =
          evaluate_values(expression, leaves, wanted, draw(options, d), options.context);
      judgement.undecided = std::max<std::uint64_t>(judgement.undecided,
                                                    different(ordered(moved[0].to_dense())).size());
      if (scores) scores->add_draw(moved[1]);
    }
  }
  if (scores && !scores->may_be_rounding(chosen, expected, unequal)) judgement.undecided = 0;
  const double most = kUnequalPerFlip * static_cast<double>(judgement.undecided);
  judgement.share = most > 0 ? static_cast<double>(judgement.unequal) / most : kInfinite;
  judgement.below_bound = judgement.follows() && most >= static_cast<double>(expected.size());
}

double root_mean_square(const Value& value) {
  const Value dense = value.to_dense();
  double squares = 0;
  std::uint64_t finite = 0;
  for (const double element : dense.elements()) {
    if (!std::isfinite(element)) continue;
    squares += element * element;
    ++finite;
  }
  return finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
}

// Judges with roundings that are simulated on a sample. Returns nothing if there is no sample, or
// if the full simulation has to decide.
std::optional<ExpressionJudgement> judge_by_sample(
    const FullJudging& judging, const ExpressionJudgement& compared, const StorageRounding& storage,
    const Expression& expression, std::span<const Value> leaves, const Perturbation& perturbation,
    tensor::DType dtype, const ExpressionOptions& options) {
  if (compared.non_finite > 0) return std::nullopt;
  const auto sample = sample_of(expression);
  if (!sample) return std::nullopt;
  const std::uint32_t wanted[] = {expression.result};
  const Value moved =
      evaluate_values(expression, leaves, wanted, perturbation, options.context, &*sample)[0];
  const auto sums = judging.with_sample(moved, sample->result);
  if (!sums) return std::nullopt;
  ExpressionJudgement judgement = compared;
  judge_rows(*sums, storage, dtype, options.most_rows, judgement);
  if (judgement.norm_share > kSampledShare || judgement.scale_share > kSuspectedScale ||
      judgement.row_share > kSampledShare * kRowMultiplier ||
      judgement.band_share > kSampledShare * kBandMultiplier) {
    return std::nullopt;
  }
  return judgement;
}

// Whether the zeros prove nothing because roundings inside the formula are as large as its inputs:
// a formula that adds a large number and subtracts it again makes zeros of everything. Roundings of
// a function that saturates are smaller than its inputs by the roundoff, and those of a function of
// zeros are a few times the type's smallest number, or what the terms of a product in bf16 lose.
bool may_be_anything(const ExpressionJudgement& judgement, std::span<const Value> leaves,
                     const Value& recorded, tensor::DType dtype) {
  constexpr double kPart = 1.0 / 16;
  constexpr double kQuanta = 4;
  constexpr double kLost = 1024;
  const auto count = static_cast<double>(std::max<std::uint64_t>(recorded.size(), 1));
  const double nothing = std::max(kQuanta * tensor::quantum(dtype), kLost * kept_in_sum(dtype));
  if (judgement.bound / std::sqrt(count) <= nothing) return false;
  double largest = 0;
  for (const Value& leaf : leaves) largest = std::max(largest, root_mean_square(leaf));
  return !(judgement.bound / std::sqrt(count) < kPart * largest);
}

void judge_in_full(const Expression& expression, std::span<const Value> leaves,
                   const Value& recorded, tensor::DType dtype, const ExpressionOptions& options,
                   ExpressionJudgement& judgement) {
  const Value expected =
      evaluate(expression, leaves, std::nullopt, options.context, options.sharing);
  require_same_shape(expected, recorded);
  FullJudging judging(expected, recorded, dtype, options.context);
  judging.compare(judgement);
  // Keeps exact inputs only in sums of products: other operations may round inside in other ways
  // than the specification says.
  const auto plan = plan_of(expression);
  const bool keeps_inputs =
      (plan && takes_leaves(expression, *plan)) || asks_for_equal_numbers(expression);
  const StorageRounding storage = storage_of(expression, dtype);
  if (judging.is_equal() && !judging.is_zero()) {
    judge_rows(judging.sums(), {unit_roundoff(dtype), tensor::quantum(dtype)}, dtype,
               options.most_rows, judgement);
    judgement.below_bound = false;
    return;
  }
  if (const auto sampled = judge_by_sample(judging, judgement, storage, expression, leaves,
                                           draw(options, 0, keeps_inputs), dtype, options)) {
    judgement = *sampled;
    if (judgement.equal_bits) judgement.below_bound = false;
    return;
  }
  const ExpressionJudgement compared = judgement;
  const auto simulate = [&](std::uint64_t draws, bool keeps) {
    judging.forget_draws();
    for (std::uint64_t d = 0; d < draws; ++d) {
      judging.add_draw(evaluate(expression, leaves, draw(options, d, keeps), options.context),
                       draws);
    }
    judgement = compared;
    judge_rows(judging.sums(), storage, dtype, options.most_rows, judgement);
    if (judgement.scale_share <= kSuspectedScale) return;
    judgement = compared;
    judging.add_drift_of_storage();
    judge_rows(judging.sums(), storage, dtype, options.most_rows, judgement);
  };
  simulate(draws_for(recorded.size()), keeps_inputs);
  if (needs_more_draws(judgement, judging.sums()) || needs_more_draws_of_small(judgement) ||
      needs_more_draws_of_scale(judgement)) {
    simulate(kDrawsOfMore, keeps_inputs);
  }
  const bool has_exact = std::any_of(expression.leaves.begin(), expression.leaves.end(),
                                     [](const Leaf& leaf) { return leaf.exact; });
  if (judgement.below_bound && !keeps_inputs && has_exact) {
    // Where inputs are exact the bound is narrower. A tensor within it holds. Another one is not
    // accused: its operations may round inside in other ways than the specification says.
    const ExpressionJudgement wide = judgement;
    simulate(recorded.size() < kFewestForOneDraw ? kDrawsOfMore : 1, true);
    const bool narrow = judgement.bound <= kMostOfExact * judgement.expected_norm;
    if (judgement.below_bound || !narrow || !judgement.follows()) judgement = wide;
  }
  if (judgement.equal_bits &&
      !(judging.is_zero() && may_be_anything(judgement, leaves, recorded, dtype))) {
    judgement.below_bound = false;
  }
}

// Judges by probes. Returns nothing if they cannot judge, or object.
std::optional<ExpressionJudgement> judge_by_probes(const Expression& expression,
                                                   std::span<const Value> leaves,
                                                   const Value& recorded, tensor::DType dtype,
                                                   const ExpressionOptions& options) {
  const std::uint64_t columns = recorded.shape().empty() ? 1 : recorded.shape().back();
  if (columns < kProbes || recorded.size() / columns < kFewestRowsToProbe) return std::nullopt;
  const auto plan = plan_of(expression);
  if (!plan || plan_bytes(expression, *plan) > judging_bytes(expression)) return std::nullopt;
  const std::size_t first = expression.leaves.size();
  const tensor::Shape& shape = expression.steps[expression.result - first].node->shape;
  // The bound is a share of the row's norm, too wide for elements much smaller than the largest.
  if (shape != recorded.shape() || has_small_elements(recorded)) return std::nullopt;
  const auto sums = probe(expression, *plan, leaves, recorded, options);
  if (!sums) return std::nullopt;
  ExpressionJudgement judgement;
  judgement.by_probes = true;
  judge_rows(*sums, storage_of(expression, dtype), dtype, options.most_rows, judgement);
  if (judgement.norm_share > kProbedShare || judgement.scale_share > kProbedShare ||
      judgement.row_share > kProbedRowShare || judgement.below_bound) {
    return std::nullopt;
  }
  return judgement;
}

}  // namespace

std::uint64_t seed_of(const trace::TensorKey& key) {
  return base::fnv1a(
      base::concat(trace::kind_name(key.kind), '\n', key.name, '\n', key.call, '\n', key.copy));
}

ExpressionJudgement judge_expression(const Expression& expression, std::span<const Value> leaves,
                                     const Value& recorded, tensor::DType dtype,
                                     const ExpressionOptions& options) {
  ExpressionJudgement judgement;
  if (!tensor::is_floating(dtype)) {
    judge_exactly(expression, leaves, recorded.to_dense(), options, judgement);
    return judgement;
  }
  if (options.products == Products::kProbed) {
    if (auto probed = judge_by_probes(expression, leaves, recorded, dtype, options)) return *probed;
  }
  judge_in_full(expression, leaves, recorded, dtype, options, judgement);
  return judgement;
}

}  // namespace ttrace::specification
