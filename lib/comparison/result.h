// The answer of `ttrace compare` as data. Writers turn it into text and JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comparison/part_of_work.h"
#include "comparison/tensor_comparison.h"
#include "judge/noise_rule.h"
#include "judge/outcome.h"
#include "judge/slices.h"
#include "judge/tolerance.h"
#include "measure/measure.h"
#include "measure/measure_update.h"
#include "trace/key.h"
#include "trace/manifest.h"

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
  std::string scores;      // where the scores are from, in words
  double noise = 0;        // of the scores: root mean square of their difference
  double largest_gap = 0;  // between the scores of experts swapped, of those explained
  bool follows = false;    // flips before it have reached its input
};

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

// Why a tensor diverged, with the numbers that say so. A cause without evidence does not exist.
struct Cause {
  std::string name;        // as in the table of lib/localize/README.md, e.g. "missing_reduction"
  std::string axis;        // mesh axis it is about, or empty
  std::string evidence;    // one line, without the name
  double unexplained = 0;  // ‖what the cause leaves over‖ / ‖R‖
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
  std::vector<Cause> causes;
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
  std::map<judge::Outcome, std::uint64_t> counts;
  std::vector<TensorComparison> results;  // in the order of the data flow
  std::vector<Finding> findings;
  std::vector<SettingDifference> settings;  // by step and name
  std::vector<Suspect> suspects;            // in the order of the data flow
  std::size_t downstream = 0;
  std::vector<std::string> warnings;
  std::optional<Interruption> interrupted;
  std::optional<PartOfWork> part;  // the others' tensors are skipped
  Environment environment;
};

}  // namespace ttrace::comparison
