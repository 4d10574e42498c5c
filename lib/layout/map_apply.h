// Applies rules of names to the tensors and modules of a trace.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "layout/map_rules.h"
#include "layout/view.h"
#include "trace/key.h"

namespace ttrace::layout {

// Why a tensor is not compared.
struct DroppedBy {
  std::size_t rule = 0;
  std::string pointer;  // of the rule, in its file
  std::string reason;
};

struct Mapped {
  std::vector<ViewPtr> tensors;  // the dropped ones too, under their own names
  std::map<trace::TensorKey, DroppedBy> dropped;
  std::vector<std::string> warnings;  // tensors left as they are because others of them are missing
};

// Applies to each of `tensors` the first rule that matches its name. Throws an input error if a
// rule matches nothing, if shapes do not allow it, or if two tensors would have one key.
Mapped apply_map(const std::vector<MapRule>& rules, const std::string& file,
                 const std::vector<ViewPtr>& tensors);

// Renames the values and parameters of the data flow by the rules. Modules whose outputs become one
// are merged; a module whose output becomes several is repeated for each.
std::vector<trace::Module> mapped_modules(const std::vector<MapRule>& rules,
                                          const std::vector<trace::Module>& modules);

}  // namespace ttrace::layout
