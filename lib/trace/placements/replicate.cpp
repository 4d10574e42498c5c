#include "trace/placements/replicate.h"

#include "base/strict_json.h"

namespace ttrace::trace {

bool Replicate::is_spelled(const base::JsonCursor& value) {
  return value.is_string() && value.as_string() == kKeyword;
}

Replicate Replicate::parse(const base::JsonCursor&) { return {}; }

std::string Replicate::json() const { return "\"replicate\""; }

std::string Replicate::describe() const { return "replicate"; }

std::string Replicate::describe_over(const std::string& axis) const {
  return base::concat("replicas over ", axis);
}

}  // namespace ttrace::trace
