#include "comparison/local_files.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "answer/environment.h"
#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/measure_pairs.h"
#include "layout/mesh.h"
#include "layout/plan.h"
#include "trace/elsewhere.h"

namespace ttrace::comparison {
namespace {

// Whether the rank at these coordinates has elements of the tensor, as far as the manifest tells.
bool may_hold(const trace::TensorEntry& entry, const trace::Mesh& mesh,
              const std::vector<std::uint64_t>& coordinates) {
  try {
    const auto held = layout::local_layout(entry, mesh, coordinates);
    return held && !held->parts.empty();
  } catch (const base::InputError&) {
    return true;  // rows, whose numbers stand in the files
  }
}

void add_files(const trace::Source& source, const layout::View& view, std::set<std::string>& out) {
  for (const trace::TensorEntry* entry : layout::stored_in(view)) {
    const trace::Mesh& mesh = source.manifest().meshes.at(entry->mesh);
    for (std::uint64_t i = 0; i < layout::mesh_size(mesh); ++i) {
      if (!may_hold(*entry, mesh, layout::coordinates_at(mesh, i))) continue;
      out.insert(source.rank_file(layout::rank_at(mesh, i)));
    }
  }
}

std::vector<std::string> lacking(const std::set<std::string>& needed,
                                 const std::set<std::string>& had) {
  std::vector<std::string> lacking;
  std::set_difference(needed.begin(), needed.end(), had.begin(), had.end(),
                      std::back_inserter(lacking));
  return lacking;
}

// "run/rank_00001.h5 and 3 more files".
std::string name_files(const std::vector<std::string>& files) {
  if (files.size() == 1) return base::printable(files.front());
  return base::render(
      {"{file} and {more:more file}", {{"file", files.front()}, {"more", files.size() - 1}}});
}

std::string part_lacks(std::uint64_t part, const std::vector<std::string>& files) {
  return base::render(
      {"part {part} lacks {files}", {{"part", part}, {"files", name_files(files)}}});
}

// What no part that was merged has of the files.
std::vector<std::string> had_by_none(const std::set<std::string>& needed,
                                     const std::vector<std::set<std::string>>& had) {
  std::vector<std::string> none(needed.begin(), needed.end());
  for (const std::set<std::string>& files : had) {
    std::erase_if(none, [&files](const std::string& file) { return files.contains(file); });
  }
  return none;
}

// "part 1 lacks run/rank_00001.h5, part 2 lacks run/rank_00000.h5"; nothing if a part has all.
std::string describe_apart(const WorkDivision& division, const std::set<std::string>& needed) {
  constexpr std::size_t kMostParts = 4;
  std::string text;
  std::size_t told = 0;
  for (std::size_t p = 0; p < division.had->size(); ++p) {
    if (division.measured_by[p].empty()) continue;
    const std::vector<std::string> missing = lacking(needed, (*division.had)[p]);
    if (missing.empty()) return "";
    if (told++ >= kMostParts) continue;
    if (!text.empty()) text += ", ";
    text += part_lacks(p + 1, missing);
  }
  if (told <= kMostParts) return text;
  return base::render(
      {"{parts}, and {more:more part} lack some", {{"parts", text}, {"more", told - kMostParts}}});
}

void leave_to_other_machines(const WorkDivision& division, const trace::Source& reference,
                             const trace::Source& candidate,
                             std::vector<TensorComparison>& results) {
  for (TensorComparison& result : results) {
    if (!is_to_be_measured(result)) continue;
    const std::vector<std::string> missing =
        lacking(files_needed(reference, candidate, result), division.had->front());
    if (missing.empty()) continue;
    result.outcome = judge::Outcome::kSkippedByRule;
    result.skipped = SkippedFor::kOtherPart;
    result.reason = part_lacks(division.part->index, missing);
  }
}

// Settles a tensor that no part has measured.
void settle_unmeasured(const WorkDivision& division, const std::set<std::string>& needed,
                       TensorComparison& result) {
  const std::string parts_missing = missing_parts(division);
  const std::vector<std::string> lost = had_by_none(needed, *division.had);
  if (!lost.empty() && parts_missing.empty()) {
    mark_unreadable(result, base::render({"{files}: no part has {count?this file|these files}",
                                          {{"files", name_files(lost)}, {"count", lost.size()}}}));
    return;
  }
  const std::string apart = describe_apart(division, needed);
  if (apart.empty()) {
    throw base::input_error("the parts lack the measurement of ",
                            base::printable(to_string(result.key)),
                            "; run them again to their end");
  }
  mark_interrupted(result);
  // Not skipped, as mark_interrupted() says: the tensor was selected, but no part could measure it.
  result.outcome = judge::Outcome::kNotJudged;
  if (lost.empty()) {
    result.reason = base::render({"its shards lie apart: {apart}[, and {missing}]",
                                  {{"apart", apart}, {"missing", parts_missing}}});
    return;
  }
  result.reason =
      base::render({"{files} {count?is|are} on no part that is here: {apart}[, and {missing}]",
                    {{"files", name_files(lost)},
                     {"count", lost.size()},
                     {"apart", apart},
                     {"missing", parts_missing}}});
}

}  // namespace

std::set<std::string> files_needed(const trace::Source& reference, const trace::Source& candidate,
                                   const Pair& pair) {
  std::set<std::string> needed;
  add_files(reference, *pair.reference, needed);
  add_files(candidate, *pair.candidate, needed);
  for (const measure::TensorRef& run : pair.noise) add_files(*run.source, *run.view, needed);
  return needed;
}

void prepare_local_work(const WorkDivision& division, const trace::Source& reference,
                        const trace::Source& candidate, Checkpoint& work,
                        std::vector<TensorComparison>& results) {
  if (division.part) leave_to_other_machines(division, reference, candidate, results);
  restore_measurements(work, candidate, results);
  if (division.part) return;
  for (TensorComparison& result : results) {
    if (!is_to_be_measured(result)) continue;
    settle_unmeasured(division, files_needed(reference, candidate, result), result);
  }
}

std::string missing_in_merge(const WorkDivision& division, bool any_left) {
  std::string missing = missing_parts(division);
  const bool merges = division.had && !division.part;
  return missing.empty() && merges && any_left ? answer::kApart : missing;
}

bool needs_another_machine(const std::string& problem) {
  return problem.ends_with(trace::kOnAnotherMachine);
}

void leave_to_other_machine(TensorComparison& result) {
  result.outcome = judge::Outcome::kNotJudged;
  result.reason =
      base::render({"diverged, and the files that tell whether rounding explains it lie on other "
                    "machines; merge the parts where the files of both runs are",
                    {}});
}

}  // namespace ttrace::comparison
