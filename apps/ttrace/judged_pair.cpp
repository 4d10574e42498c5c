#include "judged_pair.h"

#include "base/input_text.h"
#include "base/parallel.h"
#include "output_file.h"

namespace ttrace::app {

void JudgedPairFlags::add_to(CLI::App& command, const std::string& candidate_is) {
  command.add_option("REF", reference, "the trusted trace: a file or a directory")->required();
  command.add_option("RUN", candidate, candidate_is + ": a file or a directory")->required();
  command.add_option("--noise", noise,
                     "a run of the reference with its first activation disturbed (repeatable; "
                     "three are best)");
  command.add_option("--tolerance", tolerance,
                     "tolerances (JSON) that `ttrace calibrate` wrote, with rules on top");
  command.add_option("--threads", threads, "number of threads (default: one per core)");
  add_layout_flag(command, layout);
  command.add_option("--map", map,
                     "rules (JSON) that rename, split, join, transpose, trim or pad tensors");
  selection.add_to(command);
}

void JudgedPairFlags::require_not_input(const std::string& output) const {
  std::vector<std::string> inputs{reference, candidate};
  inputs.insert(inputs.end(), noise.begin(), noise.end());
  for (const std::string& file : {layout, map, tolerance}) {
    if (!file.empty()) inputs.push_back(file);
  }
  for (const std::string& input : inputs) require_not_of_trace(output, input);
}

JudgedPair::JudgedPair(const JudgedPairFlags& flags) : flags_(flags), runs_(flags.noise.size()) {
  // To open a trace is to read its manifest, which for many small tensors takes as long as they do.
  base::parallel_for(2 + runs_.size(), flags.threads, [&](std::size_t i) {
    if (i == 0) {
      reference_ = open_told(flags.reference);
    } else if (i == 1) {
      candidate_.emplace(flags.candidate, flags.layout);
    } else {
      runs_[i - 2] = open_told(flags.noise[i - 2]);
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
  options.threads = flags_.threads;
  options.map = map_;
  if (calibration_) {
    options.calibration = &*calibration_;
    options.calibration_file = flags_.tolerance;
    options.today = today();
  }
  return options;
}

}  // namespace ttrace::app
