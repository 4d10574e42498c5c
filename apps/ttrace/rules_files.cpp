#include "rules_files.h"

#include <array>
#include <ctime>

#include "base/input_text.h"
#include "base/log.h"
#include "base/text.h"
#include "layout/layout_rules.h"
#include "layout/mesh_map.h"
#include "trace/hdf5/reader.h"
#include "trace/with_manifest.h"

namespace ttrace::app {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &local);
  return text.data();
}

void add_layout_flag(CLI::App& command, std::string& path) {
  command.add_option("--layout", path,
                     "rules (JSON) that override the layouts of the run's manifest");
}

std::unique_ptr<trace::Source> open_told(const std::string& path) {
  auto source = trace::hdf5::open_trace(path);
  const trace::Manifest& manifest = source->manifest();
  base::inform(base::concat("opened ", base::printable(path), ": ",
                            base::plural(manifest.tensors.size(), "tensor"), " over ",
                            base::plural(layout::ranks_of(manifest).size(), "rank")));
  return source;
}

OpenedTrace::OpenedTrace(const std::string& path, const std::string& layout_rules)
    : stored_(open_told(path)) {
  if (layout_rules.empty()) return;
  overridden_ = std::make_unique<trace::WithManifest>(
      *stored_,
      layout::with_layout_rules(stored_->manifest(), base::read_text(layout_rules), layout_rules));
}

}  // namespace ttrace::app
