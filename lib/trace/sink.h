// The interface to write a trace file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "tensor/box.h"
#include "trace/manifest.h"

namespace ttrace::trace {

// How the elements of a dataset lie in the file.
struct Storage {
  tensor::Shape chunk;  // as many dimensions as the dataset, none 0; empty: contiguous
  std::optional<unsigned> deflate = {};  // level 0 to 9; only with a chunk
  // Space is reserved and nothing is written: the elements are 0, and take no disk where the file
  // system knows holes. Not with a chunk.
  bool sparse = false;
};

// One file of a trace: the single-file form, or one rank's file. Nothing appears under the file's
// name before finish(); an abandoned sink leaves nothing behind. create() and write() may be called
// from several threads. All throw an output error (base/error.h) if the file cannot be written; the
// sink is then of no use.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void create(const std::string& dataset, tensor::DType dtype, const tensor::Shape& shape,
                      const Storage& storage) = 0;
  void create(const std::string& dataset, tensor::DType dtype, const tensor::Shape& shape) {
    create(dataset, dtype, shape, Storage{});
  }
  // `bytes`: the stored bits of `box`, dense and row-major. No element is written twice.
  virtual void write(const std::string& dataset, const tensor::Box& box,
                     std::span<const std::byte> bytes) = 0;
  // Embeds `manifest` and puts the file in place.
  virtual void finish(const Manifest& manifest) = 0;
};

}  // namespace ttrace::trace
