// Where the bytes of a new trace file go.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tensor/box.h"
#include "trace/manifest.h"

namespace ttrace::trace {

// One file of a trace: the single-file form, or one rank's file. Nothing appears under the file's
// name before finish(); an abandoned sink leaves nothing behind.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void create(const std::string& dataset, tensor::DType dtype,
                      const tensor::Shape& shape) = 0;
  // `bytes`: the stored bits of `box`, dense and row-major.
  virtual void write(const std::string& dataset, const tensor::Box& box,
                     std::span<const std::byte> bytes) = 0;
  // Embeds `manifest` and puts the file in place.
  virtual void finish(const Manifest& manifest) = 0;
};

}  // namespace ttrace::trace
