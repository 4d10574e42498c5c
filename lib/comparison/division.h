// Divides a comparison, an audit or a localization among processes: which share each measures, and
// what a report of one share holds for the merge of all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "trace/source.h"

namespace ttrace::comparison {

class Checkpoint;

inline constexpr std::uint64_t kMostParts = 1'000'000;

// Which of how many shares of the tensors a process measures: 1 of 8 to 8 of 8.
struct PartNumber {
  std::uint64_t index = 1;
  std::uint64_t of = 1;
};

// The arguments of a comparison, an audit or a localization, and facts about its files.
// Measurements may be reused where both are equal.
struct ComparisonId {
  std::string reference;  // paths as given, or empty; an audit has none
  std::string candidate;  // or the run of an audit
  std::vector<std::string> noise;
  std::string tolerance;
  std::string layout;
  std::string map;
  std::vector<std::string> only;
  std::vector<std::string> skip;
  std::vector<std::string> kinds;
  std::vector<std::uint64_t> steps;
  bool common = false;
  std::string specification;
  bool exact = false;
  bool localized = false;  // of a localization, which the next four are of
  std::string candidate_specification = "";
  std::vector<std::string> layers = {};
  bool all_layers = false;
  std::string report = "";
  // --local-files: the facts name no rank file, as each part has others.
  bool local_files = false;
  // Subject ("the files of ref.h5") and fact ("1 file, 3 bytes, ...").
  std::vector<std::pair<std::string, std::string>> facts = {};
};

// Returns "the candidate is a/ there and b/ here", or nothing if they are the same.
std::string describe_difference(const ComparisonId& there, const ComparisonId& here);

// The member "part" of a report.
struct PartOfWork {
  PartNumber number;
  bool interrupted = false;
  ComparisonId comparison;
  std::vector<std::string> measurements;  // lines of a Checkpoint
  // With --local-files: the rank files that it has, and what they are ("9 bytes, 1f2e...").
  std::map<std::string, std::string> files = {};
};

// Returns for every item the number (from 0) of the process that gets it, so that their sums of
// weights are about equal: the heaviest item first, each to the process with the least so far.
// Processes need not communicate: all compute the same from the manifests.
std::vector<std::uint64_t> dealt_out(const std::vector<std::uint64_t>& weights,
                                     std::uint64_t parts);

// Estimates how many bytes measuring the pair reads; both sides must be present.
std::uint64_t bytes_to_read(const Pair& pair, const trace::Manifest& candidate);

struct WorkDivision {
  // This process measures this share alone; the other tensors are skipped.
  std::optional<PartNumber> part = std::nullopt;
  // Names, for messages, of parts 1, 2, ... that have measured everything; or empty. A part without
  // a name is missing.
  std::vector<std::string> measured_by = {};
  // Tensors with one text are in one part; if null, every tensor may be in any.
  std::function<std::string(const trace::TensorKey&)> unit = nullptr;
  // With --local-files: the rank files that each part has, in the order of the parts; of a process
  // that is a part, its own alone. See local_files.h.
  std::optional<std::vector<std::set<std::string>>> had = std::nullopt;
};

// "parts 2 and 5 of 8 are missing", or nothing if none is.
std::string missing_parts(const WorkDivision& division);

// Returns for every record that is to be measured the number (from 0) of the process that measures
// it, and 0 for the others, which the manifests alone judge.
std::vector<std::uint64_t> parts_of(const std::vector<TensorComparison>& results,
                                    const trace::Manifest& candidate, std::uint64_t parts,
                                    const WorkDivision& division);

// Leaves this process only its own share of the measuring, less what was restored. Throws an input
// error where a restored measurement does not fit its tensor, or where a part that should have
// measured everything has not. Tensors of missing parts are skipped as interrupted.
void prepare_work(const WorkDivision& division, const trace::Source& reference,
                  const trace::Source& candidate, Checkpoint& work,
                  std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
