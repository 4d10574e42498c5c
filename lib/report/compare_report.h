// The answer of `ttrace compare` as data. Writers turn it into text and JSON; nothing here knows
// how.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compare/measure.h"
#include "compare/measure_update.h"
#include "diagnosis/cause.h"
#include "report/part_of_work.h"
#include "report/routing.h"
#include "report/truth.h"
#include "tolerance/noise_estimate.h"
#include "tolerance/tolerance.h"
#include "trace/manifest.h"
#include "verdict/outcome.h"
#include "verdict/slices.h"

namespace ttrace::report {

enum class Verdict { kMatch, kDiverged, kInconclusive };

std::string_view verdict_name(Verdict verdict);
// 0 match, 1 diverged, 3 inconclusive.
int exit_code(Verdict verdict);

struct TraceFacts {
  std::string path;  // as given
  std::uint64_t ranks = 0;
  std::vector<trace::MeshAxis> mesh;  // the default one
  std::vector<std::uint64_t> steps;
  std::string precision;
};

// Of a value that was judged by what it follows from in its own run: an updated parameter by
// replaying its optimizer, a gradient norm by the main gradients.
struct Replay {
  std::string of;  // "adamw", "adam", "sgd", "no update", "grad_norm"; the rest is of updates alone
  std::uint64_t updates = 0;
  std::uint64_t outside = 0;  // elements out of their bounds
  std::uint64_t unmoved = 0;  // of them, those that still have their old value
  double bound_norm = 0;      // of a gradient norm too
  std::optional<compare::WorstUpdate> worst;
  // Of any: how far it is from the reference, which does not decide.
  double reference_difference_norm = 0;
  double reference_norm = 0;
};

// Present where numbers were compared. With `replay` the measurement's "reference" is the replayed
// value, not the reference's; its replicas are as ever.
struct Comparison {
  compare::Measurement measurement;
  tolerance::Tolerance tolerance;
  std::optional<Replay> replay = std::nullopt;
  std::optional<tolerance::NoiseEstimate> noise = std::nullopt;  // what disturbed runs tell of it
  verdict::SliceJudgement slices = {};                           // nothing without noise
  // Of every element, what the reference's own accumulator rounded away; or empty.
  std::vector<double> own_rounding = {};
  std::vector<double> coherence = {};  // of its noise and of that of tensors like it
};

struct Result {
  trace::TensorKey key;
  verdict::Outcome outcome = verdict::Outcome::kMatch;
  std::string reason;
  std::string note;       // why one side lacks it though it has parts of it, or empty
  bool left_out = false;  // one side alone has it, and both were asked for: skipped
  tensor::Shape shape;    // the reference's, or the candidate's if that is all there is
  tensor::DType dtype = tensor::DType::kFloat32;
  std::optional<tensor::DType> candidate_dtype;  // where it is another
  bool exact = false;
  std::optional<Comparison> comparison;
  std::optional<TensorTruth> truth;   // only with a comparison
  std::uint64_t tokens_left_out = 0;  // rows of tokens that a router sent elsewhere
  // Of a missing or extra tensor: the other side's unmatched names of the same kind and shape.
  std::vector<std::string> nearest;
  // Where the largest difference lies in the candidate.
  std::optional<std::uint64_t> largest_rank;
  tensor::Shape largest_local;
};

struct Finding {
  std::size_t result = 0;  // index into results
  std::vector<std::size_t> members;
  std::string one_sided_group;
  std::string class_name;
  std::string called_at;
  std::vector<std::uint64_t> ranks;
  std::string where;                    // for people
  std::string parts;                    // which parts are beyond their own tolerance
  std::string values;                   // of a single number: both sides', and every replica's
  std::string before;                   // what it was computed from and how that fared
  std::vector<std::size_t> depends_on;  // results
  std::vector<std::size_t> downstream;  // results that are bad and follow from it
  std::string merged;                   // how the candidate's shards make up the tensor
  std::vector<diagnosis::Cause> causes;
};

// Something that the candidate's optimizer was told otherwise than the reference's: compared as
// data, whatever the tensors say. A finding of its own, before the updates that it explains.
struct SettingDifference {
  std::uint64_t step = 0;
  std::string name;       // "lr", "weight_decay", "parameter group", "optimizer"
  std::string reference;  // in words
  std::string candidate;
  std::vector<std::string> parameters;  // whose setting it is, sorted
  std::vector<std::size_t> updates;     // results: the updated parameters of these
};

// A bad tensor that follows from a finding and may hide another bug: its error, in units of what is
// allowed, is many times that of all it was directly computed from.
struct Suspect {
  std::size_t result = 0;
  double used = 0;                     // error / allowed; may be infinite
  double used_before = 0;              // the largest of what it depends on directly; at least 1
  std::optional<std::size_t> largest;  // which of these
};

// Of a comparison that was told to end before everything was measured.
struct Interruption {
  std::uint64_t measured = 0;
  std::uint64_t of = 0;
};

struct Environment {
  std::string backend;
  std::string instruction_set;
  unsigned threads = 0;
  double seconds = 0;
  std::uint64_t bytes_read = 0;
  std::string version;
};

// Tensors that a rule of the map leaves out.
struct DroppedTensors {
  std::string rule;  // its pointer in the file: "/candidate/3"
  std::string reason;
  std::uint64_t tensors = 0;
};

// What a comparison of what both sides have leaves out.
struct LeftOut {
  std::uint64_t of_reference = 0;  // tensors that the reference alone has
  std::uint64_t of_candidate = 0;

  std::uint64_t total() const { return of_reference + of_candidate; }
};

// The run in higher precision that gave a second opinion.
struct TruthRun {
  TraceFacts facts;
  std::uint64_t without = 0;       // compared tensors of floating-point numbers that it lacks
  std::uint64_t incomparable = 0;  // those that have another shape or class of type in it
  std::uint64_t unreadable = 0;
};

struct CompareReport {
  Verdict verdict = Verdict::kMatch;
  std::string why;  // of an inconclusive verdict
  TraceFacts reference;
  TraceFacts candidate;
  std::vector<std::string> noise_runs;  // also those that a calibration was made of
  std::string tolerance_file;           // or empty
  std::string layout_rules;             // file that overrode the candidate's layouts, or empty
  std::string map_rules;                // file that renamed tensors, or empty
  std::vector<DroppedTensors> dropped;  // in the order of the rules
  std::optional<LeftOut> left_out;      // with --common
  std::optional<TruthRun> truth;
  std::vector<RouterFlips> routers;           // those that chose otherwise for some tokens
  std::vector<trace::Kind> kinds_in_neither;  // of a training step, that no trace has
  bool from_modules = false;  // the frontier follows the data flow, not the execution order
  std::map<verdict::Outcome, std::uint64_t> counts;
  std::vector<Result> results;  // in the order of the data flow
  std::vector<Finding> findings;
  std::vector<SettingDifference> settings;  // by step and name
  std::vector<Suspect> suspects;            // in the order of the data flow
  std::size_t downstream = 0;
  std::vector<std::string> warnings;
  std::optional<Interruption> interrupted;
  std::optional<PartOfWork> part;  // the others' tensors are skipped
  Environment environment;
};

// ‖C - R‖/‖R‖; infinite where the reference is zero and the candidate is not.
double relative_error(const compare::Measurement& measurement);
// Share of the allowed error that is used, by the tensor or by the worst of its parts; infinite
// where nothing is allowed and something is there.
double used_share(const Comparison& comparison);
// The smallest multiplier with which the tensor and all of its parts would pass.
double passing_multiplier(const Comparison& comparison);

}  // namespace ttrace::report
