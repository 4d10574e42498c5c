// Faults that are planted into a synthetic trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "synth/recipe.h"
#include "trace/manifest.h"

namespace ttrace::synth {

// A fault that is planted into a synthetic trace. Faults that schemas/selftest-v1.md also has carry
// the same names.
struct PlantedFault {
  enum class Kind {
    kScaled,         // the tensor times a number
    kShardsSwapped,  // two shards of equal shape exchanged, on all of their replicas
    kPartDropped,    // a sum or mean over an axis: the term of the last coordinate is 0
    kRowZeroed,      // one index of dimension 0
    kStale,          // the value of another step or micro-batch
    kRoundedToBf16,  // rounded once
    kNan,            // the middle element is NaN
    kRankMissing,    // the rank has no file
    kKeyMissing,     // the trace does not contain the tensor
  };

  Kind kind = Kind::kScaled;
  std::optional<double> number;        // factor, row or rank
  std::optional<trace::Kind> of_kind;  // nothing: any kind
  std::string name;                    // of the tensor
  std::string text;                    // as given by the user

  bool concerns(const trace::TensorKey& key) const;
};

// Parses "scaled=1.01@fc.weight", "row_zeroed@main_grad/fc.weight", "rank_missing=3". Throws a
// usage error.
PlantedFault parse_fault(std::string_view text);

// Throws a usage error if a fault concerns no tensor or rank of the trace, or a tensor that cannot
// have it: integers that are scaled, a tensor without two shards of equal shape, ...
void check_faults(const Recipe& recipe, const std::vector<PlantedFault>& faults);

// All faults of one tensor, combined.
struct TensorFaults {
  double factor = 1;
  std::vector<std::uint64_t> zeroed_rows;
  bool stale = false;
  bool rounded = false;
  bool nan = false;
  bool swapped = false;
  bool dropped = false;
  bool missing = false;
};

TensorFaults faults_of(const trace::TensorEntry& entry, const std::vector<PlantedFault>& faults);

}  // namespace ttrace::synth
