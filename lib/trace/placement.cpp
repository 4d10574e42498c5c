#include "trace/placement.h"

#include "base/concat.h"

namespace ttrace::trace {
namespace {

struct Describe {
  std::string operator()(const Replicate&) const { return "replicate"; }
  std::string operator()(const Shard& shard) const {
    return base::concat("shard ", shard.dim, shard.sizes ? " (given sizes)" : "");
  }
  std::string operator()(const Partial& partial) const {
    return base::concat("partial ", reduction_name(partial.reduction));
  }
  std::string operator()(const Only& only) const { return base::concat("only ", only.coordinate); }
};

}  // namespace

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

std::string to_string(const Placement& placement) { return std::visit(Describe{}, placement); }

}  // namespace ttrace::trace
