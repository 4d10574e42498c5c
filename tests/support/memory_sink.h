// Where a merge writes in tests: a file of a trace in memory, stricter than a real one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/memory_trace.h"
#include "trace/sink.h"

namespace ttrace::test {

// Throws an internal error where a dataset is created twice, written before it is created, outside
// its shape or with another number of bytes than the box has, and on anything after finish().
class MemorySink : public trace::Sink {
 public:
  using Sink::create;
  void create(const std::string& dataset, tensor::DType dtype, const tensor::Shape& shape,
              const trace::Storage& storage) override;
  void write(const std::string& dataset, const tensor::Box& box,
             std::span<const std::byte> bytes) override;
  void finish(const trace::Manifest& manifest) override;

  bool finished() const { return finished_; }
  // Elements written to a dataset, those written twice counted twice.
  std::uint64_t written(const std::string& dataset) const { return datasets_.at(dataset).written; }
  const std::vector<std::byte>& bits(const std::string& dataset) const {
    return datasets_.at(dataset).bits;
  }
  // What finish() left: a trace of rank 0.
  const MemoryTrace& trace() const { return trace_; }

 private:
  struct Stored {
    trace::DatasetFacts facts;
    std::vector<std::byte> bits;
    std::uint64_t written = 0;
  };

  std::map<std::string, Stored> datasets_;
  bool finished_ = false;
  MemoryTrace trace_{{}, "merged"};
};

}  // namespace ttrace::test
