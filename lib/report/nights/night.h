// A report as one of several nights: the state of each tensor and finding, by ids that are the same
// in the reports of all nights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "answer/answer.h"
#include "report/nights/evidence.h"
#include "trace/key.h"

namespace ttrace::report {

enum class Fate { kRight, kWrong, kUnchecked };

struct NightTensor {
  std::string id;
  std::optional<trace::Kind> kind = std::nullopt;  // none of a setting
  Fate fate = Fate::kUnchecked;
  std::string outcome = {};
  std::optional<double> used = std::nullopt;
  bool in_finding = false;  // a wrong tensor that is in no finding is downstream of one
  bool known = false;       // wrong, and excused as a known difference
  // Of a wrong tensor:
  std::optional<double> furthest = std::nullopt;  // furthest_use() where the report has it
  bool one_sided = false;                         // finite on one side alone
  bool suspect = false;
  std::optional<Evidence> evidence = std::nullopt;
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
  bool whole = true;        // lists every tensor; false: only those of findings
  std::uint64_t ranks = 0;  // of the run that was checked; 0 where the report does not say it
  // In the report's order. An optimizer setting that differs counts as a tensor ("setting:...").
  std::vector<NightTensor> tensors;
  std::vector<NightFinding> findings;
  // What may explain a change between nights, by name: "commit of the candidate". What differs in
  // any two nights (paths, times, ids) is left out.
  std::vector<std::pair<std::string, std::string>> circumstances;
  // How many tensors were checked, where not all are listed: those that a step computes, and those
  // of each kind. Nothing where the report does not say it.
  std::optional<std::uint64_t> checked;
  std::optional<std::map<trace::Kind, std::uint64_t>> checked_of_kind;
  std::vector<std::string> expired;  // ids or patterns of known differences
  std::string recorded_at;           // of the run that was checked, or empty
  std::string commit;                // likewise

  // Null where the report has no such tensor.
  const NightTensor* find(const std::string& id) const;
  std::unordered_map<std::string_view, std::size_t> index_of;  // of tensors, by id
};

// `file`: where the answer is from. Throws an input error naming it if the answer has an id twice,
// or lists another number of tensors than it counts.
Night night_of(const answer::Answer& answer, const std::string& file);
// The same of the JSON of an answer. Throws an input error also where it is none of compare,
// localize or audit.
Night read_night(std::string_view text, const std::string& file);

}  // namespace ttrace::report
