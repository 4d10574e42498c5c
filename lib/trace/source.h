// The interface to read a trace. The engine knows no other; trace/open implements it for files, the
// tests for memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tensor/box.h"
#include "tensor/dtype.h"
#include "trace/manifest.h"

namespace ttrace::trace {

struct DatasetFacts {
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Shape shape;
};

// Memory of a GPU.
struct DeviceMemory {
  std::uint32_t device = 0;
  std::span<const std::byte> bits;
};

// One rank's shard. Reading is thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetFacts& facts() const = 0;
  // The stored bits of `box` (in local coordinates, within the shape) as a dense row-major buffer
  // of exactly its size. Throws an input error if the file cannot give them.
  virtual void read(const tensor::Box& box, std::span<std::byte> out) const = 0;
  // All stored bits, dense and row-major, if they lie in the memory of a device: a backend may read
  // them there. read() copies them to the host.
  virtual std::optional<DeviceMemory> device_memory() const { return std::nullopt; }
};

// Identifies a trace independently of the folder and machine on which its files lie. Empty for a
// trace without files.
struct Fingerprint {
  std::uint64_t bytes = 0;  // of all ranks' files
  std::string manifest;     // checksum of the manifest's text
  std::string content;      // checksum of a sample of the files: of all bytes of a small trace
  // When the newest file was written, in seconds since 1970. A copy may have another time.
  std::int64_t modified = 0;

  bool is_of_same_trace(const Fingerprint& other) const {
    return bytes == other.bytes && manifest == other.manifest && content == other.content;
  }
};

// An open trace. Its members may be called from several threads.
class Source {
 public:
  virtual ~Source() = default;

  // The path, as the user gave it.
  virtual const std::string& path() const = 0;
  virtual const Manifest& manifest() const = 0;
  // Equal for two traces that lie in the same files, whatever names lead there; empty for a trace
  // without files.
  virtual std::string identity() const { return ""; }
  // The fingerprint of the files as they are now. Reads at most some MB.
  virtual Fingerprint fingerprint() const { return {}; }
  // The file that holds the rank's shards, for messages.
  virtual std::string rank_file(std::uint64_t rank) const = 0;
  // Why nothing of this rank can be read (missing, truncated, not HDF5), as a sentence that names
  // the file; or nothing.
  virtual std::optional<std::string> rank_problem(std::uint64_t rank) const = 0;
  // Throws an input error naming the file and `dataset` if it is absent or not readable.
  virtual std::unique_ptr<Dataset> open(std::uint64_t rank, const std::string& dataset) const = 0;
};

// An open trace with its manifest replaced.
class WithManifest : public Source {
 public:
  // `source` must outlive this.
  WithManifest(const Source& source, Manifest manifest)
      : source_(&source), manifest_(std::move(manifest)) {}

  const std::string& path() const override { return source_->path(); }
  const Manifest& manifest() const override { return manifest_; }
  std::string identity() const override { return source_->identity(); }
  Fingerprint fingerprint() const override { return source_->fingerprint(); }
  std::string rank_file(std::uint64_t rank) const override { return source_->rank_file(rank); }
  std::optional<std::string> rank_problem(std::uint64_t rank) const override {
    return source_->rank_problem(rank);
  }
  std::unique_ptr<Dataset> open(std::uint64_t rank, const std::string& dataset) const override {
    return source_->open(rank, dataset);
  }

 private:
  const Source* source_;
  Manifest manifest_;
};

}  // namespace ttrace::trace
