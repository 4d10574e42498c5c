#include "inputs.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "layout/layout_rules.h"
#include "layout/mesh.h"
#include "local_files.h"
#include "machine.h"
#include "trace/open/open_trace.h"
#include "trace/source.h"

namespace ttrace::app {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &local);
  return text.data();
}

specification::Specification read_specification(const std::string& path, std::uint64_t held) {
  specification::SpecificationLimits limits;
  limits.bytes = memory_limit() - std::min(held, memory_limit());
  return specification::read_specification(path, limits);
}

std::unique_ptr<trace::Source> open_and_log(const std::string& path) {
  auto source = trace::open_trace(path);
  const trace::Manifest& manifest = source->manifest();
  base::inform(base::concat("opened ", base::printable(path), ": ",
                            base::plural(manifest.tensors.size(), "tensor"), " over ",
                            base::plural(layout::ranks_of(manifest).size(), "rank")));
  return source;
}

std::vector<std::string> files_of_no_rank(const std::string& run, const trace::Source& source) {
  std::vector<std::string> found;
  std::error_code error;
  if (!std::filesystem::is_directory(run, error)) return found;
  const std::vector<std::uint64_t> ranks = layout::ranks_of(source.manifest());
  for (const std::uint64_t rank : trace::ranks_with_files(run)) {
    if (std::binary_search(ranks.begin(), ranks.end(), rank)) continue;
    found.push_back(base::concat(source.rank_file(rank), ": the manifest's meshes have no rank ",
                                 rank, "; files of two runs may lie in one directory"));
  }
  return found;
}

OpenedTrace::OpenedTrace(const std::string& path, const std::string& layout_rules)
    : OpenedTrace(open_and_log(path), layout_rules) {}

OpenedTrace::OpenedTrace(std::unique_ptr<trace::Source> opened, const std::string& layout_rules)
    : stored_(std::move(opened)) {
  if (layout_rules.empty()) return;
  overridden_ = std::make_unique<trace::WithManifest>(
      *stored_,
      layout::with_layout_rules(stored_->manifest(), base::read_text(layout_rules), layout_rules));
}

JudgedPair::JudgedPair(const JudgedPairFlags& flags, std::unique_ptr<trace::Source> candidate)
    : flags_(flags), runs_(flags.noise.size()) {
  // Opening a trace reads its manifest, which takes as long as the data if the tensors are small.
  execution_context(flags.threads).parallel_for(2 + runs_.size(), [&](std::size_t i) {
    if (i == 0) {
      reference_ = open_local(flags.reference, flags.local);
    } else if (i == 1) {
      candidate_.emplace(
          candidate ? std::move(candidate) : open_local(flags.candidate, flags.local),
          flags.layout);
    } else {
      runs_[i - 2] = open_local(flags.noise[i - 2], flags.local);
    }
  });
  for (const auto& run : runs_) noise_.push_back(run.get());
  if (!flags.map.empty()) map_ = layout::parse_map_rules(base::read_text(flags.map), flags.map);
  if (!flags.tolerance.empty()) {
    calibration_ = judge::parse_calibration(base::read_text(flags.tolerance), flags.tolerance);
  }
}

engine::CompareOptions JudgedPair::options() const {
  engine::CompareOptions options;
  options.selection = flags_.selection.selection();
  options.execution = execution_context(flags_.threads);
  options.map = map_;
  if (calibration_) {
    options.calibration = &*calibration_;
    options.calibration_file = flags_.tolerance;
    options.today = today();
  }
  return options;
}

}  // namespace ttrace::app
