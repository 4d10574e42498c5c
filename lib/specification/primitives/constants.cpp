// Constants: results without arguments.
#include <utility>

#include "specification/primitives/families.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

Shape full_shape(const ShapeCall& call) { return call.declared; }

Shape line_shape(const ShapeCall& call) {
  if (call.declared.size() != 1) throw shape_error("the result must have one dimension");
  return call.declared;
}

Shape literal_shape(const ShapeCall& call) {
  const auto& values = call.attributes.numbers("values");
  if (is_open(call.declared) || count_of(call.declared) != values.size() || values.size() > 4096) {
    throw shape_error(values.size(), " values do not fill ", describe_shape(call.declared),
                      " (at most 4,096)");
  }
  return call.declared;
}

Value full(const EvaluationCall& call) {
  return Value::full(call.shape, call.attributes.number("value"));
}

Value arange(const EvaluationCall& call) {
  Value value = Value::uninitialised(call.shape);
  const double start = call.attributes.number("start");
  const double step = call.attributes.number("step");
  for (std::uint64_t i = 0; i < value.size(); ++i) {
    value.fresh()[i] = start + static_cast<double>(i) * step;
  }
  return value;
}

Value literal(const EvaluationCall& call) {
  return Value::of(call.shape, call.attributes.numbers("values"));
}

Primitive constant(std::string_view name, std::vector<AttributeRule> attributes,
                   Shape (*shape)(const ShapeCall& call),
                   Value (*evaluate)(const EvaluationCall&)) {
  Primitive primitive =
      entry(name, {}, 0, std::move(attributes), Rounding::kExact, shape, evaluate);
  primitive.shape_is_layout = true;
  primitive.told_to_people = false;
  return primitive;
}

}  // namespace

std::vector<Primitive> constant_primitives() {
  using enum AttributeType;
  Primitive filled = constant("full", {{"value", kNumber}}, full_shape, full);
  filled.work = no_work;
  filled.described_by = "value";
  return {
      filled,
      constant("arange", {{"start", kNumber}, {"step", kNumber}}, line_shape, arange),
      constant("literal", {{"values", kNumbers}}, literal_shape, literal),
  };
}

}  // namespace ttrace::specification
