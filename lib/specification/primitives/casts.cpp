// Conversions to another type.
#include "specification/primitives/casts.h"

#include <cmath>
#include <limits>

#include "specification/primitives/families.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"
#include "tensor/codec.h"

namespace ttrace::specification {
namespace {

Value cast(const EvaluationCall& call) {
  const Value& x = *call.arguments[0];
  if (tensor::is_floating(call.dtype)) return x;
  if (call.dtype == tensor::DType::kBool) {
    return map<1>(call.context, {x}, [](double value) { return value != 0 ? 1.0 : 0.0; });
  }
  if (!tensor::is_floating(call.dtypes[0])) return x;
  return map<1>(call.context, {x}, [](double value) { return std::trunc(value); });
}

Value quantize(const EvaluationCall& call) {
  double largest = std::numeric_limits<double>::infinity();
  if (call.dtype == tensor::DType::kFloat8E4M3) largest = 448;
  if (call.dtype == tensor::DType::kFloat8E5M2) largest = 57344;
  if (!tensor::is_floating(call.dtype)) return cast(call);
  return map<1>(call.context, {*call.arguments[0]}, [&](double value) {
    if (value > largest) value = largest;
    if (value < -largest) value = -largest;
    return tensor::round_to(call.dtype, value);
  });
}

std::optional<std::vector<MatrixTerm>> terms_of_cast(const TermsCall& call) {
  if (!tensor::is_floating(call.dtype)) return std::nullopt;
  return std::vector<MatrixTerm>{{.left = 0}};
}

}  // namespace

const Primitive& rounding_primitive() { return *find_primitive("cast"); }

std::vector<Primitive> cast_primitives() {
  Primitive converted =
      entry("cast", {"x"}, 1, {}, Rounding::kWhereNarrower, like_first_rule, cast);
  converted.cut = cut_alike;
  converted.work = no_work;
  converted.terms = terms_of_cast;
  converted.move = Move::kInOrder;
  converted.shape_is_layout = true;
  converted.told_to_people = false;

  Primitive quantized =
      entry("quantize", {"x"}, 1, {}, Rounding::kExact, like_first_rule, quantize);
  quantized.cut = cut_alike;
  quantized.shape_is_layout = true;
  return {converted, quantized};
}

}  // namespace ttrace::specification
