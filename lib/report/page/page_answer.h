// What a page or another format shows of an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/answer.h"
#include "tensor/shape.h"

namespace ttrace::report {

// A label and what stands beside it.
using PageFact = std::pair<std::string, std::string>;

struct PageRun {
  std::string role;  // "reference", "candidate", "run"
  std::vector<PageFact> facts;
};

struct PageTensor {
  std::string id;
  std::uint64_t step = 0;
  std::optional<std::uint64_t> microbatch;
  std::string kind;
  std::string name;
  std::uint64_t call = 0;
  std::uint64_t copy = 0;
  std::string outcome;
  std::string phase;
  std::string module;
  std::optional<std::uint64_t> layer;
  std::string shape;  // "8 × 16"
  std::string dtype;
  std::string rule;
  std::string reason;
  std::optional<double> used;  // error over allowed
  std::optional<double> error;
  std::optional<double> eps;  // the error in units of the type's rounding
  std::optional<double> allowed;
  bool alarming = false;  // an outcome that makes a run bad
  bool known = false;     // excused as a known difference
};

// A part of the candidate's tensor that the same ranks hold.
struct PageShard {
  tensor::Shape origin;
  tensor::Shape extent;
  std::vector<std::uint64_t> ranks;
  std::optional<double> error;
  double share = 0;  // of the tensor's squared error
};

struct PageCause {
  std::string name;  // with its axis
  std::string evidence;
  std::optional<double> unexplained;
  std::vector<PageFact> values;  // numbers that its evidence does not say
};

struct PageCheck {
  std::string operation;
  std::string result;
  std::string expected;
  std::string reason;
  std::optional<double> error;
  std::optional<double> bound;
};

struct PageFinding {
  std::string id;
  std::string title;
  std::string outcome;
  std::string phase;
  std::vector<std::string> path;  // modules on the way to the place
  std::string place;
  std::string code;  // class, file and line
  std::vector<PageFact> facts;
  std::vector<PageCause> causes;
  std::vector<PageCause> rejected;
  std::vector<PageCheck> checks;
  std::vector<std::string> members;  // ids of results, the shown one first
  std::vector<std::string> depends_on;
  std::vector<std::vector<std::uint64_t>> replica_classes;
  std::vector<std::uint64_t> shape;
  std::vector<PageShard> shards;
  bool known = false;  // excused as a known difference
};

struct PageMeshAxis {
  std::string name;
  std::uint64_t size = 1;
};

struct PageAnswer {
  std::string command;  // that gave it: "compare"
  std::string verdict;
  std::uint64_t exit_code = 0;
  std::uint64_t but_for_known = 0;  // findings that are excused in a verdict that is good
  std::string headline;
  std::vector<std::string> remarks;  // what was not checked, and why the answer is worth less
  std::vector<PageRun> runs;
  std::string repeat;                                         // the command line that repeats it
  std::vector<std::pair<std::string, std::uint64_t>> counts;  // tensors by outcome, none of them 0
  std::string counted_as;                                     // "tensors"
  std::vector<PageFinding> findings;
  std::string findings_are = "what is wrong";  // the heading of their titles
  std::vector<PageTensor> tensors;
  bool has_all_tensors = true;  // of the report: not with --json-detail findings
  std::vector<PageMeshAxis> mesh;
  std::vector<std::uint64_t> mesh_ranks;  // in its order, or empty: 0, 1, 2, ...
  std::vector<PageFact> made_by;
};

// "DIVERGED", "MATCH but for 3 known".
std::string verdict_in_words(const PageAnswer& answer);

// The place of a finding: "layers.0.attn", "the gradient synchronisation over tp"; or "".
std::string place_in_words(const answer::AnsweredFinding& finding);

PageAnswer page_answer_of(const answer::Answer& told);

}  // namespace ttrace::report
