// What an answer says is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer/answered_tensor.h"
#include "answer/finding.h"

namespace ttrace::answer {

// Where in the program a module was called, or made.
struct CodeSource {
  std::string class_name;
  std::string called_at;  // file, line and function
};

// A thing that is wrong, at one place. Of a comparison, findings of one group are alike, and one of
// them stands for all.
struct AnsweredFinding {
  struct Place {
    std::string kind;  // "module", "between", "synchronisation", "optimizer"
    std::string of;
  };

  struct Setting {
    std::uint64_t step = 0;
    std::string name;
    std::string reference;
    std::string candidate;
  };

  TensorId id;
  std::string group;  // the id of the group that it is in
  std::string title;
  std::string headline;  // a sentence
  std::string outcome;   // of its tensors, or "setting"
  // A long group has what follows of its first findings alone.
  std::optional<std::vector<TensorId>> members;  // its tensors; the updates of a setting
  std::string one_sided;  // what is missing or extra as a whole: "the module layers.3"
  std::string module;
  std::string phase;
  std::optional<Place> place;
  std::optional<CodeSource> source;
  std::optional<std::vector<std::uint64_t>> ranks;  // that stand out
  std::string where;
  std::string parts;   // which slices are beyond their own tolerance
  std::string values;  // for a single number: both sides'
  std::string merged;  // how the candidate's shards make up the tensor
  std::optional<std::vector<std::vector<std::uint64_t>>> replica_classes;
  std::optional<std::vector<TensorId>> depends_on;  // the first ones
  std::optional<std::vector<TensorId>> downstream;  // the first ones
  std::optional<std::uint64_t> downstream_total;
  std::optional<std::vector<Cause>> causes;  // the best first
  std::optional<std::vector<RejectedCause>> rejected;
  // With some of the difference, the largest share first.
  std::vector<AnsweredTensor::Shard> shards;
  std::string record_next;  // settings of the collector that record more of its layer
  // What localize and audit found in its module.
  std::optional<bool> here;
  std::string local;  // the checks, for people
  std::vector<AnsweredTensor::Check> checks;
  std::string upstream;
  std::string next;
  // Of a setting that differs.
  std::optional<Setting> setting;
  std::vector<std::string> parameters;  // the first ones
  std::optional<std::uint64_t> parameters_total;
  std::optional<std::uint64_t> known;  // the known difference that excuses it, by number
};

}  // namespace ttrace::answer
