// The answer of `ttrace localize` as data: the findings of a comparison, each with what follows
// from its own inputs in its module and what does not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "answer/answer.h"
#include "answer/audited_tensor.h"
#include "comparison/division.h"
#include "comparison/result.h"
#include "localize/isolation.h"
#include "localize/isolation_plan.h"
#include "localize/phase.h"
#include "localize/place.h"
#include "specification/compare_specifications.h"
#include "trace/key.h"

namespace ttrace::localize {

using answer::AuditedTensor;

// A finding of a comparison, or a group of alike findings: what its report says, and which tensors
// of its module follow from the module's own inputs.
struct LocalizedFinding : answer::Finding {
  std::string id;
  std::string title;          // "main_grad of 10 LayerNorm parameters (layers.*.norm1.*)"
  std::string headline = {};  // its sentence
  std::string outcome;        // as in the report: "diverged", "missing", ...
  std::optional<trace::TensorKey> shown;    // the tensor that stands for it; nothing of a setting
  std::vector<std::string> members;         // ids of all tensors
  std::vector<trace::TensorKey> keys = {};  // of the members that are tensors
  Place place;                              // of a single tensor
  std::vector<std::string> depends_on;      // ids
  std::uint64_t downstream = 0;             // tensors
  // What localize adds.
  std::string module;
  std::vector<AuditedTensor> local;  // the module's tensors in the candidate, with their checks
  bool here = false;                 // one of them does not follow from its own inputs
  bool after_right_values = false;   // all that it was computed from was recorded and matches
  std::string summary;               // of `local`, for people
  std::string upstream;              // what it depends on, for people
  std::string next;                  // what to do next
};

// How many tensors of a kind there are, and how many of them were checked.
struct CheckedTensors {
  std::uint64_t tensors = 0;
  std::uint64_t checked = 0;
};

// What `ttrace localize` needs of a report.
struct ReportedComparison {
  std::string file;  // for messages
  std::string verdict;
  int exit_code = 0;
  std::string why;
  std::string besides;  // why it would be inconclusive if nothing had diverged
  answer::TraceFacts reference;
  answer::TraceFacts candidate;
  comparison::Selection selection;
  bool common = false;
  std::optional<answer::Answer::Tolerance> tolerance;
  std::string layout_rules;  // file that overrode the candidate's layouts, or empty
  std::string map_rules;     // file that renamed tensors, or empty
  // Rules for --layout under which the rest was judged, where layouts were declared wrongly.
  std::vector<std::string> followed_layouts;
  std::uint64_t tensors = 0;                   // of both traces
  std::uint64_t skipped = 0;                   // of them, left out by flags and rules
  std::optional<comparison::PartNumber> part;  // of a divided comparison: others are skipped
  std::string other_start;  // "the runs do not start from the same weights ...", or empty
  std::vector<LocalizedFinding> findings;
  std::vector<answer::Suspect> suspects;
  std::vector<std::string> warnings;
  std::map<std::string, std::string> outcomes;  // by id, of tensors that are not a match
  std::map<std::string, CheckedTensors> kinds;  // by name
  std::vector<trace::TensorKey> bad;  // that differ or only one side has, in the report's order
  std::vector<trace::TensorKey> frontier;  // those that are findings of their own
};

struct LocalizedSuspect : answer::Suspect {
  bool here = false;
  std::string summary;
};

// A module checked because of --layer or --all-layers.
struct LayerSummary {
  std::string module;
  std::string class_name;
  std::uint64_t judged = 0;
  std::uint64_t not_judged = 0;
  double worst_share = 0;  // of a tensor that holds
  std::vector<AuditedTensor> broken;
};

// A plan for a second pair of runs.
struct WrittenPlan {
  std::string file;
  RewritingPlan plan;
};

// The words of `ttrace localize` for its verdicts.
inline constexpr answer::VerdictWords kLocalizeWords{"nothing to explain", "findings"};

struct LocalizeReport {
  ReportedComparison comparison;
  std::string specification;                          // the file, or empty
  std::string candidate_specification;                // the file, or empty
  std::optional<specification::CodeComparison> code;  // of the two
  std::vector<LocalizedFinding> findings;
  // Titles of findings of the comparison that the specification shows to follow from others.
  std::vector<std::string> consequences;
  std::vector<LocalizedSuspect> suspects;
  std::vector<LayerSummary> layers;
  std::string plan_digest;               // of the plan that both runs were rewritten by, or empty
  std::vector<IsolatedModule> isolated;  // its modules
  std::optional<WrittenPlan> written_plan;
  std::map<std::string, std::uint64_t> not_replayable;  // by class of module, or reason
  std::string unfinished;  // interrupted, or of a merge that lacks parts: which; or empty
  std::optional<comparison::PartOfWork> part;  // of a divided localization: nothing is explained
  std::vector<std::string> warnings;
  answer::Environment environment;

  // The number of modules that were asked for and had at least one tensor judged.
  std::uint64_t judged_layers() const;
  // Wrong: there are findings. Right: there is nothing to explain. Inconclusive: the localization
  // is unfinished, or it has no findings and the comparison is inconclusive or no module that was
  // asked for could be judged.
  answer::Verdict verdict() const;
};

// "171 of 201 tensors were left out (--only final_norm*)"; empty if none was.
std::string describe_left_out(const ReportedComparison& comparison);

// "input, output and param_grad follow from their own inputs (worst 0.4 of the bound); main_grad
// does not follow from the sum of raw gradients".
std::string describe_local(const std::vector<AuditedTensor>& local);

}  // namespace ttrace::localize
