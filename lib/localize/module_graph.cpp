#include "localize/module_graph.h"

#include <algorithm>

namespace ttrace::localize {

ModuleGraph::ModuleGraph(const std::vector<trace::Module>& modules) {
  for (const trace::Module& module : modules) {
    by_name_.emplace(module.name, &module);
    for (const std::string& value : module.inputs) consumers_[value].push_back(&module);
    for (const std::string& value : sources_of(module)) {
      const bool is_input =
          std::find(module.inputs.begin(), module.inputs.end(), value) != module.inputs.end();
      if (!is_input) returners_[value].push_back(&module);
    }
    for (const std::string& param : module.params) users_[param].push_back(&module);
  }
}

const trace::Module* ModuleGraph::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const std::vector<std::string>& ModuleGraph::sources_of(const trace::Module& module) {
  return module.computed_from ? *module.computed_from : module.inputs;
}

const std::vector<const trace::Module*>& ModuleGraph::in(const Lists& lists,
                                                         std::string_view name) {
  static const std::vector<const trace::Module*> none;
  const auto found = lists.find(name);
  return found == lists.end() ? none : found->second;
}

const std::vector<const trace::Module*>& ModuleGraph::consumers(std::string_view value) const {
  return in(consumers_, value);
}

const std::vector<const trace::Module*>& ModuleGraph::returners(std::string_view value) const {
  return in(returners_, value);
}

const std::vector<const trace::Module*>& ModuleGraph::users(std::string_view param) const {
  return in(users_, param);
}

}  // namespace ttrace::localize
