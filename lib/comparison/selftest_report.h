// The report of `ttrace selftest` as data: which faults a comparison of this pair would catch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparison/result.h"
#include "tensor/dtype.h"
#include "trace/key.h"

namespace ttrace::comparison {

enum class FaultKind {
  kScaled,      // all of it times 1 + δ
  kPartScaled,  // a sixteenth along one dimension times 1 + δ
  kSwapped,     // two shards of equal shape in each other's place
  kDropped,     // one rank's term of a sum is missing
  kRowZeroed,   // one index along dimension 0
  kStale,       // the value of another micro-batch or step, or from before the update
  kRounded,     // one rounding to bf16
};

inline constexpr std::array kAllFaults{
    FaultKind::kScaled,    FaultKind::kPartScaled, FaultKind::kSwapped, FaultKind::kDropped,
    FaultKind::kRowZeroed, FaultKind::kStale,      FaultKind::kRounded};

// "scaled", "part_scaled", ...: what the JSON calls it.
std::string_view fault_name(FaultKind kind);
// Whether the fault has sizes; the report then names the smallest that is caught.
bool has_sizes(FaultKind kind);

enum class TrialState {
  kCaught,
  kMissed,      // with sizes: not even the largest is caught
  kUnchanged,   // the fault changes no value: zeros scaled, equal shards swapped
  kImpossible,  // there is no such fault of this tensor
};

std::string_view state_name(TrialState state);

struct Trial {
  TrialState state = TrialState::kImpossible;
  double size = 0;   // for caught faults with sizes: the smallest δ
  std::string what;  // "ranks 0 and 1"; for an impossible one: why
};

struct SelftestTensor {
  trace::TensorKey key;
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Shape shape;
  std::string rule;      // the rule that judges it, as in the report of compare, or empty
  std::string unjudged;  // why no rule judges it, or empty
  std::array<Trial, kAllFaults.size()> trials;

  const Trial& trial(FaultKind kind) const { return trials[static_cast<std::size_t>(kind)]; }
  Trial& trial(FaultKind kind) { return trials[static_cast<std::size_t>(kind)]; }
};

// Whether it is not judged, or twice its value would pass.
bool checks_nothing(const SelftestTensor& tensor);

struct SelftestReport {
  // The verdict on the healthy pair. Faults are tried only if it matches.
  answer::Verdict pair = answer::Verdict::kRight;
  std::string why;  // why there is no table, or empty
  answer::TraceFacts reference;
  answer::TraceFacts candidate;
  std::vector<std::string> noise_runs;
  std::string tolerance_file;
  std::vector<double> ladder;           // the sizes tried, ascending
  std::vector<SelftestTensor> tensors;  // selected ones, sorted by key
  std::vector<std::string> warnings;
  answer::Environment environment;
};

// 0 for a table, 1 if the pair diverged, 3 if it was inconclusive or nothing could be tried.
int exit_code(const SelftestReport& report);

struct FaultSummary {
  std::uint64_t tried = 0;  // tensors in which it changes a value: caught or missed
  std::uint64_t caught = 0;
  std::uint64_t unchanged = 0;
  // With sizes: the smallest δ that is caught in half, in nine of ten, in all of the tried tensors;
  // nothing if that many are not caught at any size.
  std::optional<double> half;
  std::optional<double> nine_of_ten;
  std::optional<double> all;
  std::optional<std::size_t> weakest;  // index of the tensor that decides `all`; missed ones first
};

struct SelftestGroup {
  trace::Kind kind = trace::Kind::kOutput;
  tensor::DType dtype = tensor::DType::kFloat32;
  std::uint64_t tensors = 0;
  std::uint64_t blind = 0;  // of them: those that check nothing
  std::array<FaultSummary, kAllFaults.size()> faults;

  const FaultSummary& of(FaultKind fault) const { return faults[static_cast<std::size_t>(fault)]; }
};

// By kind and element type, in the order of both enumerations.
std::vector<SelftestGroup> groups_of(const std::vector<SelftestTensor>& tensors);

}  // namespace ttrace::comparison
