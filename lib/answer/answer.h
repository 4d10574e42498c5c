// The answer of a command: what every file, page and screen shows, and what one night's run is
// compared with another's by. It is a value: whoever reads one needs nothing else, and refers to
// tensors by their ids. members.h describes every struct here once; reader, writer and schema
// follow from that (answer_json.h).
//
// Numbers are finite, or infinite where nothing is allowed, or NaN where a value is not a number.
// An optional member or an empty text, list or count is one that the command has nothing to say
// of.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "answer/answered_finding.h"
#include "answer/answered_tensor.h"
#include "trace/key.h"

namespace ttrace::answer {

template <typename Value>
using Named = std::map<std::string, Value, std::less<>>;

struct Answer {
  using Counts = Named<std::uint64_t>;

  struct Axis {
    std::string name;
    std::uint64_t size = 1;
  };

  struct Run {
    std::string path;  // as given
    std::uint64_t ranks = 0;
    std::vector<Axis> mesh;
    std::vector<std::uint64_t> steps;
    std::string precision;
    std::vector<std::uint64_t> mesh_ranks;  // of the mesh, row-major; empty: 0, 1, 2, ...
  };

  // What tells a run from others, wherever its files lie.
  struct Identity {
    std::string run_id;
    std::uint64_t bytes = 0;
    std::string manifest;         // checksum of its text
    std::string content;          // checksum of the files
    Named<std::string> recorded;  // "recorded_at", "command", "commit", ...
  };

  // Of the runs that have files.
  struct Identities {
    std::optional<Identity> reference;
    std::optional<Identity> candidate;
    std::optional<Identity> run;
  };

  // Where a run's files lay, and when the newest was written, in seconds since 1970.
  struct Files {
    std::string path;  // absolute
    std::int64_t modified = 0;
  };

  struct Places {
    std::optional<Files> reference;
    std::optional<Files> candidate;
    std::optional<Files> run;
  };

  struct Sharpness {
    std::string precision;  // "f32"
    std::uint64_t tensors = 0;
    double median = 0;  // allowed ‖C - R‖ / ‖R‖
    double widest = 0;
  };

  // What judged.
  struct Tolerance {
    std::string rule;  // "noise", "fallback"
    std::vector<std::string> noise_runs;
    std::string file;
    std::vector<Sharpness> sharpness;
  };

  struct Selected {
    std::vector<std::string> only;
    std::vector<std::string> skip;
    std::vector<std::string> kinds;
    std::vector<std::uint64_t> steps;
    std::optional<bool> common;  // of commands that compare
  };

  struct Remark {
    std::string name;  // "below_noise_floor"
    std::uint64_t tensors = 0;
    bool unchecked = false;  // its tensors were selected and not checked
    std::string text;
  };

  struct JudgedParameters {
    std::uint64_t parameters = 0;
    std::uint64_t judged = 0;
    std::vector<std::string> not_judged;
    std::optional<std::vector<std::uint64_t>> unmoved;  // of updates: steps
  };

  // How much was checked.
  struct Coverage {
    std::uint64_t tensors = 0;
    // Of a comparison.
    std::optional<std::uint64_t> selected;
    std::optional<std::uint64_t> agree;
    std::optional<std::uint64_t> computed;  // by a step, and selected
    std::optional<std::uint64_t> computed_unchecked;
    std::optional<std::vector<Remark>> remarks;
    // Of an audit.
    std::optional<std::uint64_t> judged;
    std::optional<Counts> not_judged;  // by reason
    std::uint64_t below_bound = 0;
    std::uint64_t zero_within_rounding = 0;
    std::uint64_t not_finite = 0;
    std::uint64_t narrow_factors = 0;
    std::uint64_t wide_bound = 0;
    Counts lacking;  // by kind
    std::optional<JudgedParameters> gradients;
    std::string coarser;  // the type of gradients that are coarser than their parameters
    std::optional<JudgedParameters> updates;
    std::optional<std::uint64_t> selected_of;
    std::uint64_t overflowed = 0;
    std::string record_next;
  };

  // Findings that a reader takes as one.
  struct Group {
    TensorId id;
    std::string title;
    std::string headline;
    TensorId shown;
    std::vector<TensorId> findings;
  };

  struct Suspect {
    TensorId id;
    double used = 0;
    double used_before = 0;
    std::optional<TensorId> largest_before;
    std::string module;
    std::optional<bool> here;
    std::string local;
  };

  struct Closest {
    TensorId id;
    double used = 0;
  };

  struct Dropped {
    std::string rule;
    std::string reason;
    std::uint64_t tensors = 0;
  };

  struct LeftOut {
    std::uint64_t reference = 0;
    std::uint64_t candidate = 0;
  };

  struct Unexplained {
    std::uint64_t token = 0;
    std::string why;
  };

  struct Router {
    trace::TensorKey key;
    std::uint64_t tokens = 0;
    std::uint64_t experts = 0;
    std::uint64_t flipped = 0;
    std::uint64_t unexplained = 0;
    std::string scores;
    double noise = 0;
    double largest_gap = 0;
    bool after_flips = false;
    std::optional<Unexplained> first_unexplained;
  };

  struct Kink {
    trace::TensorKey key;
    trace::TensorKey argument;
    std::uint64_t elements = 0;
    std::uint64_t flipped = 0;
    std::uint64_t at_limits = 0;
    std::uint64_t at_maxima = 0;
    double noise = 0;
    double largest = 0;
    double moved = 0;
  };

  struct Swap {
    std::uint64_t candidate = 0;
    std::uint64_t reference = 0;
  };

  struct Microbatches {
    std::uint64_t step = 0;
    std::vector<std::uint64_t> reference;
    std::vector<std::uint64_t> candidate;
    std::vector<Swap> swapped;
    std::string axis;
    std::optional<TensorId> shown_by;
    std::string text;
  };

  struct Rounded {
    std::string to;
    std::string side;
  };

  // The runs do not start alike.
  struct OtherStart {
    std::string what;
    std::uint64_t step = 0;
    std::uint64_t differ = 0;
    std::uint64_t of = 0;
    std::vector<std::uint64_t> microbatches;
    std::optional<Rounded> rounded;
    std::vector<std::string> modules;
    std::string text;
  };

  struct SwappedRuns {
    std::uint64_t reference_ranks = 0;
    std::optional<TensorId> disagreeing;
  };

  struct Followed {
    std::string name;
    std::string rule;
    std::uint64_t tensors = 0;
  };

  struct GivenSetting {
    std::string name;
    std::vector<double> values;
    std::uint64_t parameters = 0;
  };

  struct SharpnessOfAudit {
    double worst_share = 0;
    std::optional<TensorId> worst;
    std::optional<double> gradient;
  };

  struct CheckedKind {
    std::string kind;
    std::uint64_t tensors = 0;
    std::uint64_t checked = 0;
  };

  // What localize explains.
  struct Compared {
    std::string verdict;
    std::string why;
    std::vector<CheckedKind> kinds;
  };

  struct CodeTensor {
    std::string kind;
    std::string name;
    std::uint64_t call = 0;
    std::uint64_t copy = 0;
  };

  struct CodeDifference {
    std::string what;
    CodeSource source;
    std::vector<CodeTensor> tensors;
  };

  struct Layer {
    std::string module;
    std::string class_name;
    std::uint64_t judged = 0;
    std::uint64_t not_judged = 0;
    double worst_share = 0;
    std::vector<AnsweredTensor::Check> broken;
  };

  struct Isolated {
    std::string module;
    CodeSource source;
    std::string verdict;
    std::optional<std::string> phase;
    std::vector<TensorId> wrong;
    std::string reason;
  };

  struct PlanFile {
    std::string file;
    std::uint64_t modules = 0;
  };

  // A difference that people know of.
  struct Known {
    TensorId id;          // or
    std::string pattern;  // over ids
    std::string file;
    std::string owner;
    std::string reason;
    std::string expires;
    std::string state;  // "matched", "beyond", "expired", "unmatched"
    std::uint64_t findings = 0;
    std::string why;
  };

  struct Since {
    std::string file;
    std::string verdict;
    std::string headline;
    std::uint64_t exit_code = 0;
  };

  struct Environment {
    std::string backend;
    std::string instruction_set;
    std::string remarks;
    std::uint64_t threads = 0;
    double seconds = 0;
    std::optional<std::uint64_t> bytes_read;
    std::string version;
    Places traces;
  };

  // JSON that is passed on unread.
  struct Raw {
    std::string text;
  };

  // The share of a divided comparison.
  struct Part {
    std::uint64_t index = 1;
    std::uint64_t of = 1;
    bool interrupted = false;
    Raw comparison;
    std::optional<Named<std::string>> files;  // with --local-files
    std::vector<std::string> measurements;    // lines of a checkpoint
  };

  std::string command;  // "compare", "audit", "localize"
  std::string verdict;
  std::string headline;
  std::string why;      // of an inconclusive verdict
  std::string besides;  // why it would be inconclusive if nothing were wrong
  std::uint64_t exit_code = 0;

  std::optional<Run> reference;
  std::optional<Run> candidate;
  std::optional<Run> run;  // of an audit
  Identities identity;
  std::optional<Tolerance> tolerance;
  std::string layout_rules;
  std::string map_rules;
  std::optional<Selected> selection;
  std::string specification;  // the file
  std::string candidate_specification;
  std::vector<Dropped> map_dropped;
  std::optional<LeftOut> left_out;
  std::vector<std::string> kinds_in_neither;
  std::vector<Router> routing;
  std::vector<Kink> kinks;
  std::optional<Microbatches> microbatches;
  std::optional<OtherStart> other_start;
  std::optional<SwappedRuns> swapped;
  std::vector<Followed> followed_layouts;
  std::string frontier_from;
  std::optional<Counts> counts;  // by outcome, and "total"
  std::optional<Coverage> coverage;
  std::optional<SharpnessOfAudit> sharpness;
  std::vector<GivenSetting> given_settings;
  std::optional<Compared> comparison;
  std::optional<std::uint64_t> expressions_compared;
  std::optional<std::vector<CodeDifference>> code;
  std::vector<AnsweredFinding> findings;
  std::optional<std::vector<Group>> groups;
  std::vector<std::string> consequences;
  std::optional<std::vector<Suspect>> suspects;
  std::optional<std::vector<Layer>> layers;
  std::string plan;
  std::optional<std::vector<Isolated>> isolated;
  std::optional<PlanFile> written_plan;
  std::optional<Counts> not_replayable;
  std::string detail;  // "findings": of the tensors those of findings alone
  std::optional<Closest> closest;
  std::optional<std::vector<AnsweredTensor>> results;
  std::vector<std::string> warnings;
  std::optional<Part> part;
  // What the person at the command made of it.
  std::optional<std::uint64_t> but_for_known;
  std::optional<std::vector<Known>> known;
  std::optional<std::vector<std::string>> beyond_known;
  std::vector<CheckedKind> required;
  std::optional<Since> since;
  Environment environment;
};

}  // namespace ttrace::answer
