#include "following.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/message.h"
#include "base/text.h"
#include "layout/manifest_merge.h"
#include "layout/mesh.h"
#include "trace/open/open_trace.h"
#include "trace/run_id.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

using base::concat;

std::set<std::uint64_t> steps_with_tensors(const trace::Manifest& manifest) {
  std::set<std::uint64_t> steps;
  for (const trace::TensorEntry& entry : manifest.tensors) steps.insert(entry.key.step);
  return steps;
}

// The manifest as it was when the step was finished. All that a rank has of finished steps is in
// its file, although the file is not closed.
trace::Manifest up_to(std::uint64_t step, trace::Manifest manifest) {
  std::erase_if(manifest.tensors, [step](const auto& entry) { return entry.key.step > step; });
  std::erase_if(manifest.optimizer, [step](const auto& group) { return group.step > step; });
  if (manifest.run.recorded) {
    std::erase_if(manifest.run.recorded->steps, [step](std::uint64_t one) { return one > step; });
  }
  manifest.run.unfinished.clear();
  return manifest;
}

}  // namespace

FollowedTrace::FollowedTrace(std::string path) : path_(std::move(path)) {
  if (!is_single_file() && !state_of(manifest_file())) return;  // its job may run
  for (const std::uint64_t rank : ranks_with_files()) {
    if (const auto state = state_of(file_of(rank))) stale_[file_of(rank)] = *state;
  }
  if (const auto state = state_of(manifest_file())) stale_[manifest_file()] = *state;
}

std::optional<FollowedTrace::FileState> FollowedTrace::state_of(const std::string& file) {
  struct stat facts {};
  if (file.empty() || ::stat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return std::nullopt;
  }
  return FileState{facts.st_dev, facts.st_ino, static_cast<std::uint64_t>(facts.st_size),
                   facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

bool FollowedTrace::is_single_file() const { return trace::names_single_file(path_); }

std::string FollowedTrace::file_of(std::uint64_t rank) const {
  return is_single_file() ? path_ : trace::rank_file(path_, rank);
}

std::string FollowedTrace::manifest_file() const {
  return is_single_file() ? "" : (fs::path(path_) / "manifest.json").string();
}

// While a rank changes its file, the file is missing for a moment.
std::vector<std::uint64_t> FollowedTrace::ranks_with_files() const {
  if (is_single_file()) {
    return state_of(path_) ? std::vector<std::uint64_t>{0} : std::vector<std::uint64_t>{};
  }
  try {
    return trace::ranks_with_files(path_);
  } catch (const base::InputError&) {
    return {};
  }
}

bool FollowedTrace::is_stale(const std::string& file, const FileState& state) const {
  const auto found = stale_.find(file);
  return found != stale_.end() && found->second == state;
}

trace::Manifest FollowedTrace::manifest_of(std::uint64_t rank) const {
  return is_single_file() ? trace::open_trace(path_)->manifest()
                          : trace::read_rank_manifest(path_, rank);
}

std::optional<FollowedTrace::Part> FollowedTrace::read_part(std::uint64_t rank,
                                                            const FileState& state) {
  try {
    const trace::Manifest manifest = manifest_of(rank);
    Part part;
    part.file = state;
    part.run = manifest.run.id;
    const auto& open = manifest.run.unfinished;
    part.is_closed = std::find(open.begin(), open.end(), rank) == open.end();
    if (const auto& recorded = manifest.run.recorded) {
      part.records = !recorded->kinds.empty();
      part.steps.insert(recorded->steps.begin(), recorded->steps.end());
    } else if (part.is_closed && is_single_file()) {
      part.steps = steps_with_tensors(manifest);
    }
    // A single file that was whole before anybody looked is of an earlier run.
    const bool is_earlier = earlier_runs_.contains(part.run) ||
                            (is_single_file() && part.is_closed && is_stale(path_, state));
    if (is_earlier) return std::nullopt;
    mesh_ = layout::ranks_of(manifest);
    return part;
  } catch (const base::InputError& error) {
    problem_ = error.what();
    return std::nullopt;
  }
}

void FollowedTrace::read_parts(TraceState& state) {
  std::set<std::uint64_t> fresh;  // ranks that write for another run than before
  std::set<std::string> begun;    // the ids of runs that such a rank has turned to
  for (const std::uint64_t rank : ranks_with_files()) {
    const auto file = state_of(file_of(rank));
    if (!file || (!is_single_file() && is_stale(file_of(rank), *file))) continue;
    const auto known = parts_.find(rank);
    if (known != parts_.end() && known->second.file == *file) continue;
    std::optional<Part> part = read_part(rank, *file);
    if (!part) continue;
    if (known != parts_.end()) {
      const auto& before = known->second.steps;
      const bool same =
          known->second.run == part->run &&
          std::includes(part->steps.begin(), part->steps.end(), before.begin(), before.end());
      if (!same) fresh.insert(rank);
      if (known->second.run != part->run) {
        earlier_runs_.insert(known->second.run);
        begun.insert(part->run);
      }
    }
    parts_[rank] = *std::move(part);
  }
  if (fresh.empty()) return;
  state.began_anew = true;
  forget_parts_but(fresh, begun);
}

// The files of other ranks are those of the run before, until they are written anew or where they
// are of the new run already.
void FollowedTrace::forget_parts_but(const std::set<std::uint64_t>& fresh,
                                     const std::set<std::string>& begun) {
  std::set<std::string> current;
  for (const std::uint64_t rank : fresh) current.insert(parts_.at(rank).run);
  for (auto it = parts_.begin(); it != parts_.end();) {
    if (fresh.contains(it->first) || begun.contains(it->second.run)) {
      ++it;
      continue;
    }
    stale_[file_of(it->first)] = it->second.file;
    if (!current.contains(it->second.run)) earlier_runs_.insert(it->second.run);
    it = parts_.erase(it);
  }
  manifest_.reset();
}

void FollowedTrace::read_whole(TraceState& state) {
  if (is_single_file()) {
    state.is_whole = !parts_.empty() && parts_.begin()->second.is_closed;
    return;
  }
  const auto file = state_of(manifest_file());
  if (!file || is_stale(manifest_file(), *file)) {
    manifest_.reset();
    return;
  }
  if (manifest_ != file) {
    manifest_.reset();
    try {
      const trace::Manifest manifest =
          trace::parse_manifest(base::read_text(manifest_file()), manifest_file());
      if (earlier_runs_.contains(manifest.run.id)) return;
      const std::set<std::uint64_t> steps = steps_with_tensors(manifest);
      steps_of_whole_.assign(steps.begin(), steps.end());
      manifest_ = file;
    } catch (const base::InputError& error) {
      problem_ = error.what();
      return;
    }
  }
  state.is_whole = true;
}

std::vector<std::uint64_t> FollowedTrace::ranks_of_other_run() const {
  std::vector<std::uint64_t> others;
  for (const auto& [rank, part] : parts_) {
    const auto fit = trace::fit_of(part.run, rank, parts_.begin()->second.run);
    if (fit == trace::RunFit::kOther) others.push_back(rank);
  }
  return others;
}

void FollowedTrace::find_finished(TraceState& state) const {
  if (state.is_whole) {
    if (is_single_file()) {
      const std::set<std::uint64_t>& steps = parts_.begin()->second.steps;
      state.finished.assign(steps.begin(), steps.end());
    } else {
      state.finished = steps_of_whole_;
    }
    return;
  }
  std::error_code error;
  if (!fs::exists(path_, error)) {
    state.waits_for = concat(path_, parts_.empty() ? " is not there" : " is not there any more");
    return;
  }
  if (parts_.empty()) {
    state.waits_for =
        !problem_.empty()
            ? problem_
            : concat(path_, stale_.empty() ? " has no step yet"
                                           : " has the trace of an earlier run alone, "
                                             "which `ttrace compare` judges");
    return;
  }
  std::vector<std::uint64_t> absent;
  std::set<std::uint64_t> all;
  for (const std::uint64_t rank : mesh_) {
    const auto part = parts_.find(rank);
    if (part == parts_.end()) {
      absent.push_back(rank);
    } else {
      all.insert(part->second.steps.begin(), part->second.steps.end());
    }
  }
  if (!absent.empty()) {
    state.waits_for = problem_.empty()
                          ? concat(layout::describe_ranks(absent), " of ", mesh_.size(),
                                   absent.size() == 1 ? " has" : " have", " written no step")
                          : problem_;
    return;
  }
  if (const auto others = ranks_of_other_run(); !others.empty()) {
    state.waits_for = base::render(
        {"{count?the file|the files} of {ranks} {count?is|are} of another run than that of rank "
         "{first}",
         {{"count", others.size()},
          {"ranks", layout::describe_ranks(others)},
          {"first", parts_.begin()->first}}});
    return;
  }
  for (const std::uint64_t step : all) {
    std::vector<std::uint64_t> behind;
    for (const auto& [rank, part] : parts_) {
      if (part.records && !part.steps.contains(step)) behind.push_back(rank);
    }
    if (behind.empty()) {
      state.finished.push_back(step);
    } else {
      state.waits_for = concat(layout::describe_ranks(behind), " of ", mesh_.size(),
                               behind.size() == 1 ? " has" : " have", " not finished step ", step);
    }
  }
  if (state.waits_for.empty()) state.waits_for = problem_;
}

TraceState FollowedTrace::look() {
  problem_.clear();
  TraceState state;
  read_parts(state);
  read_whole(state);
  find_finished(state);
  return state;
}

bool FollowedTrace::has_changed() const {
  return std::any_of(parts_.begin(), parts_.end(), [this](const auto& part) {
    return state_of(file_of(part.first)) != part.second.file;
  });
}

bool FollowedTrace::was_replaced() const {
  return std::any_of(parts_.begin(), parts_.end(), [this](const auto& part) {
    const auto now = state_of(file_of(part.first));
    return !now || now->device != part.second.file.device || now->inode != part.second.file.inode;
  });
}

std::unique_ptr<trace::Source> FollowedTrace::open(std::uint64_t step) const {
  if (manifest_) return trace::open_trace(path_);
  if (is_single_file()) return trace::open_trace(path_, up_to(step, manifest_of(0)));
  layout::ManifestMerge merge;
  for (const auto& [rank, part] : parts_) {
    trace::Manifest manifest = manifest_of(rank);
    if (manifest.run.id != part.run) {
      throw base::input_error(file_of(rank), ": another run writes there now");
    }
    merge.add(rank, up_to(step, std::move(manifest)));
  }
  return trace::open_trace(path_, merge.finish().manifest);
}

}  // namespace ttrace::app
