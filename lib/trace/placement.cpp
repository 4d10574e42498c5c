#include "trace/placement.h"

#include "base/text.h"

namespace ttrace::trace {
namespace {

using base::concat;

struct Describe {
  std::string operator()(const Replicate&) const { return "replicate"; }
  std::string operator()(const Shard& shard) const {
    return concat("shard ", shard.dim, shard.sizes ? " (given sizes)" : "");
  }
  std::string operator()(const Zigzag& zigzag) const {
    return concat("shard ", zigzag.dim, " (zigzag)");
  }
  std::string operator()(const Segments& segments) const {
    return concat("shard ", segments.dim, " (", segments.segments.size() * segments.repeat,
                  " segments)");
  }
  std::string operator()(const Strided& strided) const {
    return concat("shard ", strided.dim, " (stride ", strided.stride, ")");
  }
  std::string operator()(const Flat&) const { return "flat ranges"; }
  std::string operator()(const Boxes&) const { return "boxes"; }
  std::string operator()(const Rows& rows) const {
    return concat("rows of dimension ", rows.dim, " by ", rows.index);
  }
  std::string operator()(const Partial& partial) const {
    return concat("partial ", reduction_name(partial.reduction));
  }
  std::string operator()(const Only& only) const { return concat("only ", only.coordinate); }
};

struct CutDimension {
  template <typename Other>
  std::optional<std::uint64_t> operator()(const Other& placement) const {
    if constexpr (requires { placement.dim; }) {
      return placement.dim;
    } else {
      return std::nullopt;
    }
  }
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

std::optional<std::uint64_t> cut_dimension(const Placement& placement) {
  return std::visit(CutDimension{}, placement);
}

}  // namespace ttrace::trace
