// Writes a synthetic trace (`ttrace synth`): one file per rank, box by box in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "synth/fault.h"
#include "synth/recipe.h"
#include "synth/values.h"
#include "trace/sink.h"

namespace ttrace::synth {

struct Request {
  Recipe recipe;
  SyntheticNoise noise;
  std::vector<PlantedFault> faults;
  trace::RunFacts run;
  unsigned threads = 0;  // 0: one per core. No value depends on it.
};

struct Made {
  std::uint64_t tensors = 0;
  std::uint64_t ranks = 0;  // that have a file
  std::uint64_t bytes = 0;  // of all datasets
};

// The manifest of the whole trace, without tensors that have the fault kKeyMissing.
trace::Manifest manifest_of(const Request& request);

// Writes the file of every rank with its rank's manifest. check_recipe() and check_faults() must
// have passed. `open` returns the sink of a rank; its exceptions are passed on.
Made make_trace(const Request& request,
                const std::function<std::unique_ptr<trace::Sink>(std::uint64_t rank)>& open);

}  // namespace ttrace::synth
