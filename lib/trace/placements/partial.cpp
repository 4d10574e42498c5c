#include "trace/placements/partial.h"

#include "base/strict_json.h"

namespace ttrace::trace {

using base::concat;

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
  if (tensor::is_floating(tensor.dtype)) return std::nullopt;
  return concat("partial of ", tensor::dtype_name(tensor.dtype),
                "; only floating-point tensors are reduced");
}

}  // namespace ttrace::trace
