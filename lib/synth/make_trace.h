// The story of `ttrace synth`: a recipe becomes the files of a trace, box by box in bounded
// memory.
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
  Noise noise;
  std::vector<PlantedFault> faults;
  trace::RunFacts run;
  unsigned threads = 0;  // 0: one per core; no value depends on it
};

struct Made {
  std::uint64_t tensors = 0;
  std::uint64_t ranks = 0;  // with a file
  std::uint64_t bytes = 0;  // of all datasets
};

// The manifest of the whole trace, without the tensors whose fault is that they are missing.
trace::Manifest manifest_of(const Request& request);

// Writes the file of every rank, each with its own part of the manifest. Recipe and faults must
// have been checked. `open` gives the sink of a rank; what it throws goes through.
Made make_trace(const Request& request,
                const std::function<std::unique_ptr<trace::Sink>(std::uint64_t rank)>& open);

}  // namespace ttrace::synth
