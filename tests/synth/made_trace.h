// Synthetic traces in memory.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comparison/pairing.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/measure.h"
#include "support/memory_trace.h"
#include "synth/fault.h"
#include "synth/make_trace.h"

namespace ttrace::test {

// A rank's file of a MemoryTrace.
class RankSink : public trace::Sink {
 public:
  using Sink::create;
  RankSink(MemoryTrace& trace, std::uint64_t rank) : trace_(trace), rank_(rank) {}

  void create(const std::string& dataset, tensor::DType dtype, const tensor::Shape& shape,
              const trace::Storage&) override {
    const std::size_t bytes = tensor::byte_count(shape, dtype).value();
    if (!stored_.emplace(dataset, Stored{dtype, shape, std::vector<std::byte>(bytes)}).second) {
      throw base::internal_error(dataset, ": created twice");
    }
  }
  void write(const std::string& dataset, const tensor::Box& box,
             std::span<const std::byte> bytes) override {
    Stored& stored = stored_.at(dataset);
    tensor::copy_common(box, bytes, tensor::whole(stored.shape), stored.bits,
                        tensor::element_bytes(stored.dtype));
  }
  void finish(const trace::Manifest& part) override {
    for (const trace::TensorEntry& entry : part.tensors) {
      const Stored& stored = stored_.at(dataset_path(entry.key));
      trace_.put_bits(entry.key, rank_, stored.dtype, stored.shape, stored.bits);
    }
  }

 private:
  struct Stored {
    tensor::DType dtype;
    tensor::Shape shape;
    std::vector<std::byte> bits;
  };

  MemoryTrace& trace_;
  std::uint64_t rank_;
  std::map<std::string, Stored> stored_;
};

inline MemoryTrace made(const synth::Request& request) {
  synth::check_recipe(request.recipe);
  synth::check_faults(request.recipe, request.faults);
  MemoryTrace trace;
  synth::make_trace(
      request, [&trace](std::uint64_t rank) { return std::make_unique<RankSink>(trace, rank); });
  trace.edit() = synth::manifest_of(request);
  return trace;
}

// The logical values of a floating-point tensor, put together; `equal` says whether all copies are.
inline std::vector<double> values_of(const MemoryTrace& trace, const std::string& name,
                                     bool* equal = nullptr) {
  for (const layout::ViewPtr& view : comparison::tensors_of(trace.manifest())) {
    if (view->key.name != name) continue;
    const auto reader =
        measure::TensorRef{&trace, view}.open(measure::Replicas::all(measure::cpu_backend()));
    const tensor::Box whole = tensor::whole(view->shape);
    std::vector<double> values(tensor::volume(whole));
    if (!values.empty()) reader->read(whole, values);
    reader->for_each_check([equal](const measure::CheckPath&, const measure::ReplicaCheck& check) {
      if (equal != nullptr) *equal = *equal && check.all_equal();
    });
    return values;
  }
  throw base::internal_error(name, ": not in the trace");
}

inline synth::Group group_of(trace::TensorEntry entry) {
  synth::Group group;
  group.entry = std::move(entry);
  return group;
}

}  // namespace ttrace::test
