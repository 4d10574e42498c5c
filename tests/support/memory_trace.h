// A trace in memory: what a job would have written, without files.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trace/source.h"

namespace ttrace::test {

class MemoryTrace : public trace::Source {
 public:
  explicit MemoryTrace(trace::Mesh mesh = {}, std::string path = "memory");

  // Puts a rank's shard in, as raw bits.
  void put_bits(const trace::TensorKey& key, std::uint64_t rank, tensor::DType dtype,
                const tensor::Shape& shape, std::vector<std::byte> bits);
  // Adds `entry` and cuts `values` (row-major, of the whole tensor) into the shards that the
  // placements give every rank. Partial axes: coordinate 0 holds the values, the others zeros.
  // Works for float64, float32 and int64 entries; throws for others.
  void put(const trace::TensorEntry& entry, const std::vector<double>& values);
  // Overwrites one rank's shard with `values` (its local box, row-major).
  void put_shard(const trace::TensorEntry& entry, std::uint64_t rank,
                 const std::vector<double>& values);
  void lose_rank(std::uint64_t rank) { lost_[rank] = "memory: rank lost"; }

  trace::Manifest& edit() { return manifest_; }

  const std::string& path() const override { return path_; }
  const trace::Manifest& manifest() const override { return manifest_; }
  std::string rank_file(std::uint64_t rank) const override;
  std::optional<std::string> rank_problem(std::uint64_t rank) const override;
  std::unique_ptr<trace::Dataset> open(std::uint64_t rank,
                                       const std::string& dataset) const override;

 private:
  struct Stored {
    trace::DatasetFacts facts;
    std::vector<std::byte> bits;
  };

  std::string path_;
  trace::Manifest manifest_;
  std::map<std::pair<std::uint64_t, std::string>, std::shared_ptr<const Stored>> datasets_;
  std::map<std::uint64_t, std::string> lost_;

  friend class MemoryDataset;
};

// Short forms for tests.
trace::TensorKey make_key(const std::string& name, trace::Kind kind = trace::Kind::kOutput,
                          std::uint64_t step = 0);
trace::TensorEntry make_entry(const std::string& name, tensor::Shape shape,
                              trace::Kind kind = trace::Kind::kOutput,
                              tensor::DType dtype = tensor::DType::kFloat32);
trace::Mesh make_mesh(std::vector<trace::MeshAxis> axes);
// `values` as stored bits of `dtype` (float64, float32, int64).
std::vector<std::byte> encode(tensor::DType dtype, const std::vector<double>& values);

}  // namespace ttrace::test
