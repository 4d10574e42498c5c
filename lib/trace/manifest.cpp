#include "trace/manifest.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace ttrace::trace {
namespace {

constexpr std::string_view kRoot = "(model)";

std::string_view owner_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? kRoot : name.substr(0, dot);
}

// Returns nothing for a tensor that belongs to no module.
std::string_view module_of(const TensorKey& key) {
  if (is_module_value(key.kind)) return module_of_value(key.name);
  switch (key.kind) {
    case Kind::kParam:
    case Kind::kBuffer:
    case Kind::kParamGrad:
    case Kind::kMainGrad:
    case Kind::kParamAfterStep:
      return owner_of(key.name);
    case Kind::kOptimizerState: {  // "<parameter>.<state>"
      const std::size_t dot = key.name.rfind('.');
      return dot == std::string::npos ? kRoot : owner_of(std::string_view(key.name).substr(0, dot));
    }
    default:
      return "";
  }
}

}  // namespace

const Incomplete* incomplete_of(const Manifest& manifest, const TensorKey& key) {
  const std::vector<Incomplete>& all = manifest.run.incomplete;
  if (all.empty()) return nullptr;
  const auto found = std::find_if(all.begin(), all.end(), [id = id_of(key)](const auto& one) {
    return base::glob_match(one.tensors, id);
  });
  return found == all.end() ? nullptr : &*found;
}

std::optional<bool> was_asked_for(const Manifest& manifest, const TensorKey& key) {
  const auto& recorded = manifest.run.recorded;
  if (!recorded) return std::nullopt;
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  // An index is always recorded: a tensor placed by rows cannot be read without it.
  if (key.kind != Kind::kIndex && !has(recorded->kinds, key.kind)) return false;
  if (!has(recorded->steps, key.step)) return false;
  const std::string_view module = module_of(key);
  if (!recorded->modules || module.empty()) return true;
  return std::any_of(
      recorded->modules->begin(), recorded->modules->end(),
      [module](const std::string& pattern) { return base::glob_match(pattern, module); });
}

}  // namespace ttrace::trace
