#include "replay/expression/judge_expression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "replay/expression/bound.h"
#include "replay/expression/evaluation.h"
#include "replay/expression/probes.h"
#include "replay/primitives/loops.h"
#include "replay/primitives/shape_rules.h"
#include "tensor/codec.h"

namespace ttrace::replay {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Integers may differ in so many elements for each that simulated roundings change.
constexpr double kUnequalPerFlip = 3;
// A sample of simulated roundings decides up to this share; beyond it all are simulated.
constexpr double kSampledShare = 0.6;
// Share of the allowed scale from which on the rounding of the storage is looked at too.
constexpr double kSuspectedScale = 0.5;

Perturbation draw(const ExpressionOptions& options, std::uint64_t number,
                  bool keeps_exact_leaves = false) {
  return {Noise(options.seed).stream(1 + number).bits(), keeps_exact_leaves};
}

// More draws for fewer elements: the size of one random number says little.
std::uint64_t draws_for(std::uint64_t elements) {
  return elements >= 4096 ? 1 : elements >= 256 ? 2 : 4;
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
    const std::string_view name = step.node->primitive->name;
    return (name == "equal" || name == "not_equal") &&
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
    const bool narrowing = rounding == Rounding::kCast &&
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

tensor::Shape place_of(const Value& value, std::uint64_t element) {
  return tensor::coordinates(tensor::whole(value.shape()), element);
}

// Integers and booleans: equal, but for what simulated roundings change too.
void judge_exactly(const Expression& expression, std::span<const Value> leaves,
                   const Value& recorded, const ExpressionOptions& options,
                   ExpressionJudgement& judgement) {
  const Value expected =
      evaluate(expression, leaves, std::nullopt, options.context, options.sharing).to_dense();
  require_same_shape(expected, recorded);
  for (std::uint64_t i = 0; i < expected.size(); ++i) {
    if (expected.data()[i] == recorded.data()[i]) continue;
    if (judgement.unequal++ == 0) judgement.first_unequal = place_of(recorded, i);
  }
  judgement.equal_bits = judgement.unequal == 0;
  if (judgement.equal_bits) return;
  if (has_rounding(expression)) {
    for (std::uint64_t d = 0; d < 2; ++d) {
      const Value moved =
          evaluate(expression, leaves, draw(options, d), options.context).to_dense();
      std::uint64_t flips = 0;
      for (std::uint64_t i = 0; i < expected.size(); ++i) {
        if (moved.data()[i] != expected.data()[i]) ++flips;
      }
      judgement.undecided = std::max(judgement.undecided, flips);
    }
  }
  judgement.share = judgement.undecided == 0
                        ? kInfinite
                        : static_cast<double>(judgement.unequal) /
                              (kUnequalPerFlip * static_cast<double>(judgement.undecided));
}

// 0 for finite numbers, else which of the others it is.
int class_of(double value) {
  if (std::isfinite(value)) return 0;
  return std::isnan(value) ? 1 : value > 0 ? 2 : 3;
}

// The largest number of a type, beyond which values become infinite when they are stored.
double largest_of(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat16:
      return 65504;
    case tensor::DType::kFloat8E4M3:
      return 448;
    case tensor::DType::kFloat8E5M2:
      return 57344;
    case tensor::DType::kFloat64:
      return std::numeric_limits<double>::max();
    default:
      return 0x1.fep127;
  }
}

// What one row adds, apart from spreads.
struct RowPart {
  double product = 0;
  std::uint64_t non_finite = 0;
  std::uint64_t first = 0;  // of those
  bool equal = true;
  bool left_out = false;  // an element that is not finite, on one side or on both
};

class FullJudging {
 public:
  FullJudging(const Value& expected, const Value& recorded, tensor::DType dtype,
              const ExpressionOptions& options)
      : expected_(expected.to_dense()),
        recorded_(recorded.to_dense()),
        dtype_(dtype),
        options_(options),
        sums_(recorded.shape()),
        columns_(recorded.shape().empty() ? 1 : recorded.shape().back()),
        counts_(static_cast<std::size_t>(recorded.size()), 0) {}

  void compare(ExpressionJudgement& judgement) {
    std::vector<RowPart> parts(sums_.error.size());
    const double largest = largest_of(dtype_);
    for_rows(options_.context, parts.size(), columns_, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t r = begin; r < end; ++r) parts[r] = compare_row(r, largest);
    });
    judgement.equal_bits = true;
    for (const RowPart& part : parts) {
      if (part.non_finite > 0 && judgement.non_finite == 0) {
        judgement.first_unequal = place_of(recorded_, part.first);
      }
      judgement.non_finite += part.non_finite;
      judgement.equal_bits = judgement.equal_bits && part.equal;
      left_out_ = left_out_ || part.left_out;
      sums_.product += part.product;
    }
    if (judgement.non_finite > 0) judgement.share = kInfinite;
  }

  void add_draw(const Value& moved_value, std::uint64_t draws) {
    const Value moved = moved_value.to_dense();
    const auto weight = static_cast<double>(draws);
    std::vector<double> drifts(sums_.error.size(), 0.0);
    std::vector<double> fourths(sums_.error.size(), 0.0);
    for_rows(options_.context, drifts.size(), columns_,
             [&](std::uint64_t begin, std::uint64_t end) {
               for (std::uint64_t r = begin; r < end; ++r) {
                 for (std::uint64_t i = r * columns_; i < (r + 1) * columns_; ++i) {
                   const double e = expected_.data()[i];
                   const double apart = moved.data()[i] - e;
                   if (counts_[i] == 0 || !std::isfinite(apart)) continue;
                   const double square = apart * apart;
                   sums_.spread[r] += square / weight;
                   fourths[r] += square * square / weight;
                   drifts[r] += apart * e;
                 }
               }
             });
    double drift = 0;
    for (std::size_t r = 0; r < drifts.size(); ++r) {
      drift += drifts[r];
      sums_.spread_fourth += fourths[r];
    }
    sums_.moved = std::hypot(sums_.moved, drift / std::sqrt(weight));
    sums_.draws = draws;
  }

  // The sums with a spread that is relative to E what it is in `part` of the result; nothing if
  // that part is 0.
  std::optional<RowSums> with_sample(const Value& moved_part, const Part& part) const {
    const Value moved = moved_part.to_dense();
    const Value exact = part.of(expected_).to_dense();
    const Value recorded = part.of(recorded_).to_dense();
    double spread = 0;
    double fourth = 0;
    double square = 0;
    double drift = 0;
    for (std::uint64_t i = 0; i < moved.size(); ++i) {
      const double e = exact.data()[i];
      const double apart = moved.data()[i] - e;
      if (!std::isfinite(apart) || !std::isfinite(recorded.data()[i])) continue;
      spread += apart * apart;
      fourth += apart * apart * apart * apart;
      square += e * e;
      drift += apart * e;
    }
    if (!(square > 0)) return std::nullopt;
    RowSums sums = sums_;
    double all = 0;
    for (std::size_t r = 0; r < sums.spread.size(); ++r) {
      sums.spread[r] = spread / square * sums.expected[r];
      all += sums.expected[r];
    }
    const double times = static_cast<double>(expected_.size()) / static_cast<double>(moved.size());
    sums.spread_fourth = fourth * (all / square) * (all / square) / times;
    sums.moved = std::abs(drift) * all / square;
    return sums;
  }

  // Elements of equal size are all rounded in one direction when the result is stored, which
  // changes its scale.
  void add_drift_of_storage() {
    double drift = 0;
    for (std::uint64_t i = 0; i < expected_.size(); ++i) {
      const double e = expected_.data()[i];
      if (counts_[i] != 0) drift += (tensor::round_to(dtype_, e) - e) * e;
    }
    sums_.moved = std::hypot(sums_.moved, drift);
  }

  // After compare(): whether C is E, without any rounding.
  bool is_equal() const {
    return !left_out_ && std::all_of(sums_.error.begin(), sums_.error.end(),
                                     [](double error) { return error == 0; });
  }

  const RowSums& sums() const { return sums_; }

 private:
  RowPart compare_row(std::uint64_t r, double largest) {
    const double* c = recorded_.data() + r * columns_;
    const double* e = expected_.data() + r * columns_;
    bool plain = true;
    for (std::uint64_t i = 0; i < columns_; ++i) {
      plain &= std::abs(c[i]) <= largest;
      plain &= std::abs(e[i]) <= largest;
    }
    RowPart part = plain ? compare_plain(r, c, e) : compare_any(r, c, e, largest);
    for (std::uint64_t i = 0; part.equal && i < columns_; ++i) {
      part.equal =
          c[i] == e[i] || counts_[r * columns_ + i] == 0 || tensor::round_to(dtype_, e[i]) == c[i];
    }
    return part;
  }

  // All elements are finite, as nearly always.
  RowPart compare_plain(std::uint64_t r, const double* c, const double* e) {
    constexpr std::uint64_t kSums = 8;
    double errors[kSums] = {};
    double expected[kSums] = {};
    double products[kSums] = {};
    const auto add = [&](std::uint64_t i, std::uint64_t s) {
      const double apart = c[i] - e[i];
      errors[s] += apart * apart;
      expected[s] += e[i] * e[i];
      products[s] += c[i] * e[i];
    };
    std::uint64_t i = 0;
    for (; i + kSums <= columns_; i += kSums) {
      for (std::uint64_t s = 0; s < kSums; ++s) add(i + s, s);
    }
    for (std::uint64_t s = 0; i < columns_; ++i, ++s) add(i, s);
    RowPart part;
    for (std::uint64_t s = 0; s < kSums; ++s) {
      sums_.error[r] += errors[s];
      sums_.expected[r] += expected[s];
      part.product += products[s];
    }
    std::fill_n(counts_.begin() + static_cast<std::ptrdiff_t>(r * columns_), columns_, 1);
    return part;
  }

  RowPart compare_any(std::uint64_t r, const double* c, const double* expected, double largest) {
    RowPart part;
    for (std::uint64_t i = 0; i < columns_; ++i) {
      double e = expected[i];
      if (std::abs(e) > largest) e = tensor::round_to(dtype_, e);
      const int kind = class_of(c[i]);
      part.left_out = part.left_out || kind != 0;
      if (kind != class_of(e)) {
        if (part.non_finite++ == 0) part.first = r * columns_ + i;
        part.equal = false;
        part.left_out = true;
        continue;
      }
      if (kind != 0) continue;
      counts_[r * columns_ + i] = 1;
      const double apart = c[i] - e;
      sums_.error[r] += apart * apart;
      sums_.expected[r] += e * e;
      part.product += c[i] * e;
    }
    return part;
  }

  Value expected_;
  Value recorded_;
  tensor::DType dtype_;
  const ExpressionOptions& options_;
  RowSums sums_;
  std::uint64_t columns_;
  bool left_out_ = false;
  std::vector<char> counts_;  // elements that are finite on both sides
};

// Judges with roundings that are simulated on a sample. Returns nothing where there is none, or
// where it does not say enough.
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
  conclude(*sums, storage, dtype, options.most_rows, judgement);
  if (judgement.norm_share > kSampledShare || judgement.scale_share > kSuspectedScale ||
      judgement.row_share > kSampledShare * kRowMultiplier) {
    return std::nullopt;
  }
  return judgement;
}

void judge_in_full(const Expression& expression, std::span<const Value> leaves,
                   const Value& recorded, tensor::DType dtype, const ExpressionOptions& options,
                   ExpressionJudgement& judgement) {
  const Value expected =
      evaluate(expression, leaves, std::nullopt, options.context, options.sharing);
  require_same_shape(expected, recorded);
  FullJudging judging(expected, recorded, dtype, options);
  judging.compare(judgement);
  const std::uint64_t draws = draws_for(recorded.size());
  // Other operations may round inside in other ways than the specification says.
  const auto plan = plan_of(expression);
  const bool keeps_inputs =
      (plan && takes_leaves(expression, *plan)) || asks_for_equal_numbers(expression);
  const StorageRounding storage = storage_of(expression, dtype);
  if (judging.is_equal()) {
    conclude(judging.sums(), {unit_roundoff(dtype), tensor::quantum(dtype)}, dtype,
             options.most_rows, judgement);
    return;
  }
  if (const auto sampled = judge_by_sample(judging, judgement, storage, expression, leaves,
                                           draw(options, 0, keeps_inputs), dtype, options)) {
    judgement = *sampled;
    return;
  }
  for (std::uint64_t d = 0; d < draws; ++d) {
    judging.add_draw(evaluate(expression, leaves, draw(options, d, keeps_inputs), options.context),
                     draws);
  }
  const ExpressionJudgement compared = judgement;
  conclude(judging.sums(), storage, dtype, options.most_rows, judgement);
  if (judgement.scale_share <= kSuspectedScale) return;
  judgement = compared;
  judging.add_drift_of_storage();
  conclude(judging.sums(), storage, dtype, options.most_rows, judgement);
}

// By probes, or nothing where they cannot judge or object.
std::optional<ExpressionJudgement> judge_by_probes(const Expression& expression,
                                                   std::span<const Value> leaves,
                                                   const Value& recorded, tensor::DType dtype,
                                                   const ExpressionOptions& options) {
  const std::uint64_t columns = recorded.shape().empty() ? 1 : recorded.shape().back();
  if (columns < kProbes || recorded.size() / columns < kFewestRowsToProbe) return std::nullopt;
  const auto plan = plan_of(expression);
  if (!plan) return std::nullopt;
  const std::size_t first = expression.leaves.size();
  const tensor::Shape& shape = expression.steps[expression.result - first].node->shape;
  if (shape != recorded.shape()) return std::nullopt;
  const auto sums = probe(expression, *plan, leaves, recorded, options);
  if (!sums) return std::nullopt;
  ExpressionJudgement judgement;
  judgement.by_probes = true;
  conclude(*sums, storage_of(expression, dtype), dtype, options.most_rows, judgement);
  if (judgement.norm_share > kProbedShare || judgement.scale_share > kProbedShare ||
      judgement.row_share > kProbedRowShare) {
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

}  // namespace ttrace::replay
