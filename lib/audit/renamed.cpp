#include "audit/renamed.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::audit {
namespace {

bool only_renames(const layout::MapRule& rule) {
  return rule.from.size() == 1 && rule.to.size() == 1 && rule.transpose.empty() && !rule.trim &&
         !rule.pad;
}

}  // namespace

RenamedSpecification renamed(const specification::Specification& specification,
                             const std::string& file, const std::vector<layout::MapRule>& rules) {
  RenamedSpecification out{specification, 0};
  std::set<std::tuple<trace::Kind, std::string, std::uint64_t, std::uint64_t>> known;
  for (specification::SpecifiedTensor& tensor : out.specification.tensors) {
    const auto match = layout::match_of(rules, tensor.name, {tensor.kind});
    if (match && !rules[match->rule].drops()) {
      if (only_renames(rules[match->rule])) {
        tensor.name = rules[match->rule].to.front().filled(match->captures);
      } else {
        ++out.left;
      }
    }
    if (known.emplace(tensor.kind, tensor.name, tensor.call, tensor.copy).second) continue;
    throw base::input_error(file, ": under the map two tensors would be ", kind_name(tensor.kind),
                            " of ", base::printable(tensor.name));
  }
  out.specification.index();
  return out;
}

}  // namespace ttrace::audit
