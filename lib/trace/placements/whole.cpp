#include "trace/placements/whole.h"

#include "base/strict_json.h"

namespace ttrace::trace {

using base::concat;

bool Replicate::is_spelled(const base::JsonCursor& value) {
  return value.is_string() && value.as_string() == kKeyword;
}

Replicate Replicate::parse(const base::JsonCursor&) { return {}; }

std::string Replicate::json() const { return "\"replicate\""; }

std::string Replicate::describe() const { return "replicate"; }

std::string Replicate::describe_over(const std::string& axis) const {
  return concat("replicas over ", axis);
}

std::string_view reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kMean:
      return "mean";
    case Reduction::kMax:
      return "max";
  }
  return "";
}

bool Partial::is_spelled(const base::JsonCursor& value) { return has_member(value, kKeyword); }

Partial Partial::parse(const base::JsonCursor& value) {
  value.allow_keys({kKeyword});
  const base::JsonCursor reduction = value.require(kKeyword);
  const std::string word = reduction.as_string();
  for (const Reduction known : {Reduction::kSum, Reduction::kMean, Reduction::kMax}) {
    if (word == reduction_name(known)) return {known};
  }
  throw reduction.error("unknown reduction \"", base::printable(word),
                        "\", expected sum, mean or max");
}

std::string Partial::json() const {
  return concat("{\"partial\":\"", reduction_name(reduction), "\"}");
}

std::string Partial::describe() const { return concat("partial ", reduction_name(reduction)); }

std::string Partial::describe_over(const std::string& axis) const {
  return concat("partial ", reduction_name(reduction), " over ", axis);
}

std::optional<std::string> Partial::misfit(const PlacedTensor& tensor) const {
  const bool counts = tensor.dtype != tensor::DType::kBool && reduction != Reduction::kMean;
  if (tensor::is_floating(tensor.dtype) || counts) return std::nullopt;
  return concat("partial ", reduction_name(reduction), " of ", tensor::dtype_name(tensor.dtype),
                "; integers have sums and maxima, and nothing else is reduced but floating-point "
                "tensors");
}

bool Only::is_spelled(const base::JsonCursor& value) { return has_member(value, kKeyword); }

Only Only::parse(const base::JsonCursor& value) {
  value.allow_keys({kKeyword});
  return {value.require(kKeyword).as_count()};
}

std::string Only::json() const { return concat("{\"only\":", coordinate, "}"); }

std::string Only::describe() const { return concat("only ", coordinate); }

std::string Only::describe_over(const std::string& axis) const {
  return concat("only on ", axis, " ", coordinate);
}

std::optional<std::string> Only::misfit(const PlacedTensor& tensor) const {
  if (coordinate >= tensor.axis_size) {
    return concat("only ", coordinate, ", but the axis has size ", tensor.axis_size);
  }
  if (tensor.has_held_at) return "\"only\" and \"held_at\" both restrict this axis; give one";
  return std::nullopt;
}

}  // namespace ttrace::trace
