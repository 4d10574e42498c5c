// The report of `ttrace compare` as data, which report/ writes as text and JSON, and its verdict.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/environment.h"
#include "answer/finding.h"
#include "answer/trace_facts.h"
#include "answer/verdict.h"
#include "comparison/division.h"
#include "comparison/tensor_comparison.h"
#include "comparison/tensor_selection.h"
#include "judge/noise_rule.h"
#include "judge/outcome.h"
#include "judge/slices.h"
#include "judge/tolerance.h"
#include "measure/measure.h"
#include "measure/measure_update.h"
#include "trace/key.h"
#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::comparison {

// A router that sent tokens to other experts than the reference's did.
struct RouterFlips {
  trace::TensorKey key;  // of the tensor that says which experts were chosen
  std::uint64_t tokens = 0;
  std::uint64_t experts = 0;
  std::uint64_t flipped = 0;      // tokens that went elsewhere
  std::uint64_t unexplained = 0;  // of them, those that rounding does not explain
  std::uint64_t first_unexplained = 0;
  std::string why;         // of the first unexplained one
  std::string scores;      // describes where the scores are from
  double noise = 0;        // of the scores: root mean square of their difference
  double largest_gap = 0;  // between the scores of experts swapped, of those explained
  bool follows = false;    // earlier flips have reached its input
};

// A gradient that is zero in one run alone where rounding put the argument of a kink, such as a
// ReLU, on its other side, or made another value the maximum of a window.
struct KinkFlips {
  trace::TensorKey key;       // of the gradient
  trace::TensorKey argument;  // of what lies on the other side in one run alone
  std::uint64_t elements = 0;
  std::uint64_t flipped = 0;
  std::uint64_t at_limits = 0;  // of those: at the least or greatest value of the argument
  std::uint64_t at_maxima = 0;  // of those: where a maximum moved
  double noise = 0;             // of the argument: root mean square of the difference
  double largest = 0;           // how far the argument is from the kink, at most
  double moved = 0;  // by how much the gradient is off in these elements, relative to its norm
};

// The words of `ttrace compare` for its verdicts.
inline constexpr answer::VerdictWords kCompareWords{"match", "diverged"};

// A first divergence, or tensors that are missing together.
struct ComparedFinding : answer::Finding {
  std::size_t result = 0;  // index into results
  std::vector<std::size_t> members;
  std::string one_sided_group;
  std::string parts;                    // which slices are beyond their own tolerance
  std::string values;                   // for a single number: both sides', and every replica's
  std::string before;                   // what it was computed from, and its outcome
  std::vector<std::size_t> depends_on;  // results
  std::vector<std::size_t> downstream;  // results that are bad and follow from it
  std::string merged;                   // how the candidate's shards make up the tensor
  std::string record_next;  // settings of the collector that record more of its layer, or empty
};

// The name of the difference that one side's optimizer has no group with the parameter.
inline constexpr const char* kParameterGroup = "parameter group";

// An optimizer setting that differs between the candidate and the reference, whatever the tensors
// show. It is a finding of its own, before the updates that it explains.
struct SettingDifference {
  std::uint64_t step = 0;
  std::string name;       // "lr", "weight_decay", "parameter group", "optimizer"
  std::string reference;  // described for people
  std::string candidate;
  std::vector<std::string> parameters;  // with this setting, sorted
  std::vector<std::size_t> updates;     // results: their updated parameters
};

// How the micro-batches of the two runs differ in a step.
struct MicrobatchMismatch {
  std::uint64_t step = 0;
  std::vector<std::uint64_t> reference;  // numbers, ascending
  std::vector<std::uint64_t> candidate;
  // Where the numbers are the same ones: those of the candidate that hold another one of the
  // reference, and which.
  std::map<std::uint64_t, std::uint64_t> swapped;
  std::optional<std::size_t> shown_by;  // a result whose values say so
  // Where ranks along this axis of the mesh hold different data under one number; else empty.
  std::string axis;
};

// The runs do not start alike, which is why what follows differs.
struct OtherStart {
  enum class What { kWeights, kData, kDraws, kDropout };
  What what = What::kWeights;
  std::uint64_t step = 0;    // the first one
  std::uint64_t differ = 0;  // parameters, inputs, draws of random numbers, or outputs of dropout
  std::uint64_t of = 0;      // parameters that were compared; 0 of data
  // Of weights that are the other side's, rounded to a narrower type: that type, and whose they
  // are.
  std::string rounded_to = {};
  TraceSide rounded = TraceSide::kCandidate;
  std::vector<std::uint64_t> microbatches;  // of data: those whose input differs, ascending
  std::vector<std::string> modules;         // of draws and dropout: those that drew others
};

// The reference has several ranks and the candidate one: REF and RUN look swapped.
struct SwappedRuns {
  std::uint64_t ranks = 0;                 // of the reference
  std::optional<std::size_t> disagreeing;  // a result of which the reference's own copies differ
};

// A wrong declared layout that the comparison corrected: all later tensors are judged under the
// layout that fits.
struct FollowedLayout {
  std::string name;           // of the tensor whose values show the layout
  std::string rule;           // for --layout
  std::uint64_t tensors = 0;  // that are judged under it
};

// What the runs start with was not compared: updates came before the first step that both recorded,
// so its parameters are judged as computed.
struct LateStart {
  std::uint64_t step = 0;
  std::uint64_t updates = 0;  // before it, of the run that had made more; 0 if nothing says it
};

// Tensors that a rule of the map leaves out.
struct DroppedTensors {
  std::string rule;  // its pointer in the file: "/candidate/3"
  std::string reason;
  std::uint64_t tensors = 0;
};

// Tensors that a comparison with --common leaves out.
struct LeftOut {
  std::uint64_t of_reference = 0;  // tensors that the reference alone has
  std::uint64_t of_candidate = 0;

  std::uint64_t total() const { return of_reference + of_candidate; }
};

// What was left unjudged because no noise run says how far a network carries roundings.
struct GrowthWithoutNoise {
  std::uint64_t tensors = 0;
};

struct CompareReport {
  answer::Verdict verdict = answer::Verdict::kRight;
  std::string why;      // of an inconclusive verdict
  std::string besides;  // of a diverged one: why it would be inconclusive if nothing had diverged
  // The clause of the first line that would repeat it (report/coverage_clauses.h), or empty.
  std::string_view why_is_about = {};
  answer::TraceFacts reference;
  answer::TraceFacts candidate;
  Selection selection;
  bool common = false;                  // tensors that one side alone has were left out
  std::vector<std::string> noise_runs;  // also those that a calibration was made from
  std::string tolerance_file;           // or empty
  std::string layout_rules;             // file that overrode the candidate's layouts, or empty
  std::string map_rules;                // file that renamed tensors, or empty
  std::vector<DroppedTensors> dropped;  // in the order of the rules
  std::optional<LeftOut> left_out;      // with --common
  std::vector<RouterFlips> routers;     // those that chose other experts for some tokens
  std::vector<KinkFlips> kinks;         // in the order of the data flow
  GrowthWithoutNoise growth;
  std::vector<trace::Kind> kinds_in_neither;  // kinds of a training step that neither trace has
  // What neither run could record, or was told to leave out, so that nothing of it is compared.
  std::vector<trace::Incomplete> left_out_by_both;
  // Steps whose update a loss scaler skipped in both runs, since gradients were infinite;
  // ascending.
  std::vector<std::uint64_t> skipped_steps;
  std::optional<LateStart> late_start;
  bool from_modules = false;  // the frontier follows the data flow, not the execution order
  std::map<judge::Outcome, std::uint64_t> counts;
  std::vector<TensorComparison> results;  // in the order of the data flow
  std::vector<ComparedFinding> findings;
  std::vector<SettingDifference> settings;         // by step and name
  std::vector<answer::Suspect> suspects;           // in the order of the data flow
  std::optional<MicrobatchMismatch> microbatches;  // the first one
  std::optional<OtherStart> other_start;           // only where the micro-batches are the same
  std::optional<SwappedRuns> swapped;              // only where there are findings
  std::vector<FollowedLayout> followed;
  // The candidate under these layouts, which results refer to; null where none was followed.
  std::shared_ptr<const trace::Source> relaid;
  std::string padding;  // a sentence of padding that carries a gradient, if the first finding is it
  std::size_t downstream = 0;
  std::vector<std::string> warnings;
  std::optional<answer::Interruption> interrupted;
  std::optional<PartOfWork> part;  // tensors of other parts are skipped
  answer::Environment environment;
};

}  // namespace ttrace::comparison
