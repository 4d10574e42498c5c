// A report as one of several nights: what became of each tensor and finding, by ids that the
// reports of other nights have too.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ttrace::report {

enum class Fate { kRight, kWrong, kUnchecked };

struct NightTensor {
  std::string id;
  Fate fate = Fate::kUnchecked;
  std::string outcome;
  std::optional<double> used;
  bool in_finding = false;  // else, where it is wrong, it follows from one
  bool known = false;       // wrong, and excused as a known difference
};

struct NightFinding {
  std::string id;
  std::string headline;
  std::vector<std::string> members;  // ids of tensors, or of the setting itself
};

struct Night {
  Night() = default;
  Night(Night&&) = default;
  Night& operator=(Night&&) = default;
  Night(const Night&) = delete;  // index_of has the addresses of ids
  Night& operator=(const Night&) = delete;
  ~Night() = default;

  std::string file;
  std::string command;  // that gave the report: "compare"
  std::string verdict;
  std::string headline;
  bool whole = true;  // has every tensor, else those of findings alone
  // In the report's order. A setting that differs is one of them, as it is of the findings.
  std::vector<NightTensor> tensors;
  std::vector<NightFinding> findings;
  // What may have changed between nights, by its name: "commit of the candidate". What differs
  // between any two nights (paths, times, ids) is left out.
  std::vector<std::pair<std::string, std::string>> circumstances;
  std::vector<std::string> expired;  // ids or patterns of known differences
  std::string recorded_at;           // of the run that was checked, or empty
  std::string commit;                // likewise

  // Null where the report has no such tensor.
  const NightTensor* find(const std::string& id) const;
  std::unordered_map<std::string_view, std::size_t> index_of;  // of tensors, by id
};

// Throws an input error naming `file` if the JSON is no report of compare, localize or audit in
// this version, or has an id twice.
Night read_night(std::string_view text, const std::string& file);

}  // namespace ttrace::report
