#include "trace/placements/only.h"

#include "base/strict_json.h"

namespace ttrace::trace {

using base::concat;

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
