#include "specification/pattern_json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::specification {
namespace {

using base::JsonCursor;

constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kMostListedValues = 4096;
constexpr double kLargestExact = 0x1p53;

std::int64_t integer_of(const JsonCursor& cursor) {
  const double value = cursor.as_number();
  if (value != std::trunc(value) || std::abs(value) > kLargestExact) {
    throw cursor.error("expected a whole number, found ", base::excerpt(cursor.text()));
  }
  return static_cast<std::int64_t>(value);
}

Attributes::Content content_of(const JsonCursor& cursor, AttributeType type) {
  switch (type) {
    case AttributeType::kFlag:
      return cursor.as_bool();
    case AttributeType::kNumber:
      return number_from(cursor);
    case AttributeType::kInteger:
      return integer_of(cursor);
    case AttributeType::kNumbers:
      return numbers_from(cursor, kMostListedValues);
    case AttributeType::kDims: {
      std::vector<std::size_t> dims;
      for (const JsonCursor& item : cursor.items()) {
        dims.push_back(static_cast<std::size_t>(item.as_count()));
      }
      return dims;
    }
    case AttributeType::kWord:
      return cursor.as_string();
    case AttributeType::kWords:
      return cursor.as_strings();
  }
  throw base::internal_error("unknown type of attribute");
}

Attributes attributes_from(const JsonCursor& cursor, const Primitive& primitive) {
  Attributes attributes;
  for (const auto& [key, value] : cursor.members()) {
    const auto rule = std::find_if(
        primitive.attributes.begin(), primitive.attributes.end(),
        [&key = key](const AttributeRule& candidate) { return candidate.name == key; });
    if (rule == primitive.attributes.end()) {
      throw value.error(primitive.name, " has no attribute \"", base::excerpt(key), "\"");
    }
    attributes.set(rule->name, content_of(value, rule->type));
  }
  for (const AttributeRule& rule : primitive.attributes) {
    if (rule.required && !attributes.has(rule.name)) {
      throw cursor.error(primitive.name, " lacks the attribute \"", rule.name, "\"");
    }
  }
  return attributes;
}

Node node_from(const JsonCursor& cursor, std::uint64_t values_before) {
  const auto parts = cursor.items();
  if (parts.size() != 5) {
    throw cursor.error("a node is [primitive, arguments, attributes, dtype, shape], found ",
                       parts.size(), " members");
  }
  Node node;
  const std::string name = parts[0].as_string();
  node.primitive = find_primitive(name);
  if (node.primitive == nullptr) {
    throw parts[0].error("unknown primitive \"", base::excerpt(name), "\"",
                         base::did_you_mean(name, primitive_names()));
  }
  node.arguments = references_from(parts[1], values_before, "value");
  node.attributes = attributes_from(parts[2], *node.primitive);
  node.dtype = dtype_from(parts[3]);
  node.shape = shape_from(parts[4]);
  try {
    argument_slots(*node.primitive, node.attributes, node.arguments.size());
  } catch (const ShapeProblem& problem) {
    throw parts[1].error(node.primitive->name, ": ", problem.reason);
  }
  return node;
}

}  // namespace

double number_from(const JsonCursor& cursor) {
  if (cursor.is_string()) {
    const std::string text = cursor.as_string();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    throw cursor.error("expected a number, \"nan\", \"inf\" or \"-inf\", found \"",
                       base::excerpt(text), "\"");
  }
  const std::string text = cursor.text();
  if (text == "true" || text == "false") return text == "true" ? 1 : 0;
  return cursor.as_number();
}

std::vector<double> numbers_from(const JsonCursor& cursor, std::size_t most) {
  const auto items = cursor.items();
  if (items.size() > most) throw cursor.error("more than ", most, " values");
  std::vector<double> values;
  values.reserve(items.size());
  for (const JsonCursor& item : items) values.push_back(number_from(item));
  return values;
}

tensor::DType dtype_from(const JsonCursor& cursor) {
  const std::string name = cursor.as_string();
  const auto dtype = tensor::parse_dtype(name);
  if (!dtype) throw cursor.error("unknown dtype \"", base::excerpt(name), "\"");
  return *dtype;
}

tensor::Shape shape_from(const JsonCursor& cursor) {
  const auto items = cursor.items();
  if (items.size() > kMostDimensions) {
    throw cursor.error("more than ", kMostDimensions, " dimensions");
  }
  tensor::Shape shape;
  for (const JsonCursor& item : items) {
    const std::int64_t extent = integer_of(item);
    if (extent < -1) throw item.error("an extent is -1 or at least 0, found ", extent);
    shape.push_back(extent == -1 ? kAnyExtent : static_cast<std::uint64_t>(extent));
  }
  return shape;
}

std::vector<std::uint32_t> references_from(const JsonCursor& cursor, std::uint64_t end,
                                           std::string_view what) {
  std::vector<std::uint32_t> found;
  for (const JsonCursor& item : cursor.items()) {
    const std::uint64_t number = item.as_count();
    if (number >= end) {
      throw item.error(what, " ", number, " does not stand before its user, which is number ", end);
    }
    found.push_back(static_cast<std::uint32_t>(number));
  }
  return found;
}

Pattern pattern_from(const JsonCursor& cursor, const SpecificationLimits& limits) {
  cursor.allow_keys({"inputs", "nodes"});
  Pattern pattern;
  const std::uint64_t inputs = cursor.require("inputs").as_count();
  if (inputs > limits.tensors) {
    throw cursor.error("more than ", limits.tensors, " inputs");
  }
  pattern.inputs = static_cast<std::uint32_t>(inputs);
  const JsonCursor nodes = cursor.require("nodes");
  for (const JsonCursor& node : nodes.items()) {
    pattern.nodes.push_back(node_from(node, inputs + pattern.nodes.size()));
  }
  if (pattern.nodes.empty()) throw nodes.error("a pattern needs at least one node");
  return pattern;
}

}  // namespace ttrace::specification
