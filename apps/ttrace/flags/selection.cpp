#include "flags/selection.h"

#include "base/error.h"
#include "base/text.h"
#include "flags/flag_group.h"

namespace ttrace::app {

void SelectionFlags::add_to(CLI::App& command) {
  const FlagGroup what(command, kWhat);
  what.value("--only GLOB", only, "only tensors whose name matches, repeatable");
  what.value("--skip GLOB", skip, "not the tensors whose name matches, repeatable");
  what.value("--kind KIND", kinds, "only tensors of this kind, repeatable");
  what.value("--step N", steps, "only tensors of this step, repeatable");
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
