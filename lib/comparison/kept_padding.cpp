#include "comparison/kept_padding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "measure/sections.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::comparison {
namespace {

using trace::Kind;

// How large a state of the optimizer may be: moments of a decay, or a copy of the parameter. Some
// optimizers add 1e-30 to a square.
constexpr double kMostOfParameter = 2;
constexpr double kNothing = 1e-20;

// Calls `use` with all values of `box`, some at a time.
template <typename Use>
void read(const trace::Source& source, const layout::View& view, const tensor::Box& box, Use use) {
  const auto reader = measure::make_reader(source, view, measure::Replicas::kFirstOnly);
  std::vector<double> values;
  tensor::for_each_sub_box(box, measure::kReadElements, [&](const tensor::Box& part) {
    values.resize(tensor::volume(part));
    reader->read(part, values);
    for (const double value : values) use(value);
  });
}

const layout::View& longer_view(const Pair& pair, const Excess& excess) {
  return excess.of_candidate ? *pair.candidate : *pair.reference;
}

// By how much the optimizer may have moved the padding until this tensor: by its decay, which some
// optimizers take for a gradient and scale to a step of lr. Nothing if no setting is recorded.
std::optional<double> most_moved(const trace::Source& longer, const Pair& pair,
                                 const PaddedParameter& parameter) {
  const std::string& name =
      layout::stored_in(longer_view(pair, parameter.excess)).front()->key.name;
  for (const trace::OptimizerGroup& group : longer.manifest().optimizer) {
    const bool of_parameter =
        std::find(group.params.begin(), group.params.end(), name) != group.params.end();
    if (group.step < parameter.step || group.step > pair.key.step || !of_parameter) continue;
    const auto number = [&group](const char* key) {
      const auto found = group.numbers.find(key);
      return found == group.numbers.end() ? 0.0 : std::abs(found->second);
    };
    const double decay = number("weight_decay");
    if (decay == 0) return 0;
    const auto updates = std::max<std::uint64_t>(1, pair.key.step - parameter.step);
    return static_cast<double>(updates) * number("lr") *
           std::max(1.0, decay * std::abs(parameter.value));
  }
  return std::nullopt;
}

bool has_stayed(const trace::Source& longer, const Pair& pair, const FurtherRows& rows,
                const PaddedParameter& parameter) {
  if (!rows.are_constant()) return false;
  const double before = parameter.value;
  const double now = rows.first;
  if (before == 0) return now == 0;
  const double rounding =
      tensor::epsilon(longer_view(pair, parameter.excess).dtype) * std::abs(before);
  if (const auto most = most_moved(longer, pair, parameter)) {
    return std::abs(now - before) <= *most + rounding;
  }
  return now * before >= 0 && std::abs(now) <= std::abs(before) + rounding;
}

}  // namespace

FurtherRows rows_beyond(const trace::Source& longer, const Pair& pair, const Excess& excess) {
  const layout::View& view = longer_view(pair, excess);
  tensor::Box box = tensor::whole(view.shape);
  box.origin[excess.dim] = excess.shorter;
  box.extent[excess.dim] = excess.longer - excess.shorter;
  FurtherRows rows;
  bool any = false;
  read(longer, view, box, [&](double value) {
    if (!std::exchange(any, true)) rows.first = value;
    rows.finite = rows.finite && std::isfinite(value);
    rows.one_value = rows.one_value && value == rows.first;
    rows.largest = std::max(rows.largest, std::abs(value));
  });
  return rows;
}

bool addresses(const trace::Source& longer, const layout::View& ids, const Excess& excess) {
  const auto from = static_cast<double>(excess.shorter);
  const auto to = static_cast<double>(excess.longer);
  bool found = false;
  read(longer, ids, tensor::whole(ids.shape),
       [&](double id) { found = found || (id >= from && id < to); });
  return found;
}

bool is_kept(const trace::Source& longer, const Pair& pair, const FurtherRows& rows,
             PaddedParameter& parameter) {
  const Kind kind = pair.key.kind;
  if (kind == Kind::kParamGrad || kind == Kind::kMainGrad) return rows.are_zero();
  // Rows in doubt are not settled by it, and a gradient moves them.
  if (!parameter.one_value || parameter.has_gradient) return rows.finite;
  if (kind == Kind::kOptimizerState) {
    if (!tensor::is_floating(longer_view(pair, parameter.excess).dtype)) return rows.one_value;
    const double value = std::abs(parameter.value);
    return rows.are_constant() &&
           rows.largest <= kMostOfParameter * std::max(value, value * value) + kNothing;
  }
  if (!has_stayed(longer, pair, rows, parameter)) return false;
  parameter.value = rows.first;
  parameter.step = pair.key.step;
  return true;
}

bool is_left_by(const PaddedParameter& parameter, const Pair& pair, const FurtherRows& rows) {
  if (pair.key.kind == Kind::kGradOutput || pair.key.kind == Kind::kGradInput) {
    return parameter.has_gradient ? rows.finite : rows.are_zero();
  }
  const bool masked = rows.one_value && rows.first == -std::numeric_limits<double>::infinity();
  return rows.finite || masked;
}

}  // namespace ttrace::comparison
