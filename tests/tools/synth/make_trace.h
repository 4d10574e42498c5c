// Fills a manifest with numbers: makes the files of all its ranks, box by box in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tools/synth/values.h"
#include "trace/manifest.h"
#include "trace/sink.h"

namespace ttrace::synth {

struct Request {
  trace::Manifest manifest;
  Settings settings;
  std::optional<unsigned> deflate;  // level 0 to 9
  bool sparse = false;              // zeros that are not written and take no disk
};

// Writes the file of every rank, with the rank's part of the manifest. A shard without elements is
// left out. `open` returns the sink of a rank. Throws an input error if a tensor cannot have its
// layout.
void make_trace(const Request& request,
                const std::function<std::unique_ptr<trace::Sink>(std::uint64_t rank)>& open);

}  // namespace ttrace::synth
