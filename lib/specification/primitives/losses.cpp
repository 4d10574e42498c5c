// The negative log-likelihood loss.
#include <cmath>

#include "base/error.h"
#include "base/functions.h"
#include "base/text.h"
#include "specification/primitives/families.h"
#include "specification/primitives/noise.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

bool is_none(const ShapeCall& call) {
  const std::string& reduction = call.attributes.word("reduction");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    throw shape_error("\"reduction\" is \"", base::printable(reduction),
                      "\", expected \"mean\", \"sum\" or \"none\"");
  }
  return reduction == "none";
}

void check_scores(const Shape& scores, const Shape& target) {
  if (scores.size() != 2 || target.size() != 1 || !fits(scores[0], target[0])) {
    throw shape_error("log-probabilities ", describe_shape(scores), " and target ",
                      describe_shape(target), " instead of [n, c] and [n]");
  }
}

Shape loss_shape(const ShapeCall& call) {
  check_scores(argument(call, 0), argument(call, 1));
  if (call.arguments[2] != nullptr) {
    require_fit("the weight", argument(call, 2), {argument(call, 0)[1]});
  }
  if (is_none(call)) return argument(call, 1);
  return {};
}

Shape loss_grad_shape(const ShapeCall& call) {
  check_scores(argument(call, 1), argument(call, 2));
  require_fit("g", argument(call, 0), is_none(call) ? argument(call, 2) : Shape{});
  return argument(call, 1);
}

Shape count_shape(const ShapeCall&) { return {}; }

// The target of row i among `classes`, or nothing if it is ignored.
std::optional<std::uint64_t> target_of(const Value& target, std::uint64_t i, double ignored,
                                       std::uint64_t classes) {
  const double at = target.data()[i];
  if (at == ignored) return std::nullopt;
  if (!(at >= 0 && at < static_cast<double>(classes))) {
    throw base::input_error("the target ", at, " is out of range, there are ", classes, " classes");
  }
  return static_cast<std::uint64_t>(at);
}

double ignored_by(const EvaluationCall& call) {
  return static_cast<double>(call.attributes.integer_or("ignore", -100));
}

Value loss(const EvaluationCall& call) {
  const Value scores = call.arguments[0]->to_dense();
  const Value target = call.arguments[1]->to_dense();
  const std::uint64_t classes = scores.shape()[1];
  const std::string& reduction = call.attributes.word("reduction");
  std::vector<double> terms(target.size(), 0.0);
  double total = 0;
  double square = 0;
  double weights = 0;
  for (std::uint64_t i = 0; i < target.size(); ++i) {
    const auto at = target_of(target, i, ignored_by(call), classes);
    if (!at) continue;
    const double weight = call.arguments[2] == nullptr ? 1.0 : call.arguments[2]->at(*at);
    terms[i] = -weight * scores.data()[i * classes + *at];
    total += terms[i];
    square += terms[i] * terms[i];
    weights += weight;
  }
  if (reduction == "none") return Value::of(call.shape, std::move(terms));
  if (call.noise != nullptr) {
    const double norms = std::sqrt(square * static_cast<double>(target.size()));
    // The terms have one sign, and may be added up one after the other.
    const double stepwise = coherent_roundoff(call.dtype, target.size()) * total;
    total += call.noise->stream(1).at(0) *
             base::hypotenuse(sum_roundoff(call.dtype, norms, target.size()), stepwise);
  }
  return Value::full({}, reduction == "mean" ? total / weights : total);
}

Value loss_grad(const EvaluationCall& call) {
  const Value g = call.arguments[0]->to_dense();
  const Value target = call.arguments[2]->to_dense();
  Value result = Value::zeros(call.shape);
  const std::uint64_t classes = call.shape[1];
  const std::string& reduction = call.attributes.word("reduction");
  double count = 0;
  for (std::uint64_t i = 0; i < target.size(); ++i) {
    count += target_of(target, i, ignored_by(call), classes) ? 1 : 0;
  }
  for (std::uint64_t i = 0; i < target.size(); ++i) {
    const auto at = target_of(target, i, ignored_by(call), classes);
    if (!at) continue;
    const double grad = reduction == "none" ? g.data()[i] : g.data()[0];
    result.fresh()[i * classes + *at] = -(reduction == "mean" ? grad / count : grad);
  }
  return result;
}

Value loss_count(const EvaluationCall& call) {
  const Value target = call.arguments[0]->to_dense();
  double count = 0;
  for (const double at : target.elements()) count += at == ignored_by(call) ? 0 : 1;
  return Value::full({}, count);
}

}  // namespace

std::vector<Primitive> loss_primitives() {
  using enum AttributeType;
  using enum Rounding;
  const AttributeRule ignore{"ignore", kInteger, false};
  const std::vector<AttributeRule> both{{"reduction", kWord}, ignore};
  std::vector<Primitive> all{
      entry("nll_loss", {"x", "target", "weight"}, 2, both, kOnce, loss_shape, loss),
      entry("nll_loss_grad", {"g", "x", "target"}, 3, both, kOnce, loss_grad_shape, loss_grad),
      entry("nll_loss_count", {"target"}, 1, {ignore}, kExact, count_shape, loss_count),
  };
  for (Primitive& primitive : all) primitive.shape_is_layout = true;
  return all;
}

}  // namespace ttrace::specification
