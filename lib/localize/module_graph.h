// The manifest's modules turned around: who consumes a value, who uses a parameter.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::localize {

class ModuleGraph {
 public:
  explicit ModuleGraph(const std::vector<trace::Module>& modules);

  bool empty() const { return by_name_.empty(); }
  const trace::Module* find(std::string_view name) const;
  // What the module's outputs were computed from directly.
  static const std::vector<std::string>& sources_of(const trace::Module& module);
  // Modules that take the value as an input.
  const std::vector<const trace::Module*>& consumers(std::string_view value) const;
  // Modules whose output was computed directly from the value without its being their input: the
  // containers around its producer, and the loss.
  const std::vector<const trace::Module*>& returners(std::string_view value) const;
  // Modules that use the parameter itself.
  const std::vector<const trace::Module*>& users(std::string_view param) const;

 private:
  using Lists = std::map<std::string, std::vector<const trace::Module*>, std::less<>>;

  static const std::vector<const trace::Module*>& in(const Lists& lists, std::string_view name);

  std::map<std::string, const trace::Module*, std::less<>> by_name_;
  Lists consumers_;
  Lists returners_;
  Lists users_;
};

}  // namespace ttrace::localize
