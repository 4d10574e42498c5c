#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "command.h"

namespace ttrace::app {

void SelectionFlags::add_to(CLI::App& command) {
  command.add_option("--only", only, "only tensors whose name matches (glob, repeatable)");
  command.add_option("--skip", skip, "not the tensors whose name matches (glob, repeatable)");
  command.add_option("--kind", kinds, "only tensors of this kind (repeatable)");
  command.add_option("--step", steps, "only tensors of this step (repeatable)");
}

comparison::Selection SelectionFlags::selection() const {
  comparison::Selection selection{only, skip, {}, steps};
  for (const std::string& name : kinds) {
    const auto kind = trace::parse_kind(name);
    if (!kind) {
      std::vector<std::string> known;
      for (const trace::Kind each : trace::kAllKinds) known.emplace_back(kind_name(each));
      throw base::usage_error("--kind ", base::printable(name), ": there is no such kind",
                              base::nearest_hint(name, known));
    }
    selection.kinds.push_back(*kind);
  }
  return selection;
}

}  // namespace ttrace::app
