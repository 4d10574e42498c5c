// The tensors of a ttrace_run as a trace of one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "devices.h"
#include "trace/source.h"
#include "ttrace.h"

namespace ttrace::library {

// The tensors' memory must outlive it.
class MemoryRun : public trace::Source {
 public:
  // `role`: "the reference", for messages. Throws an input error that names the tensor if one of
  // them is not what ttrace.h asks for, or lies where this library cannot read it. `devices` must
  // outlive it.
  MemoryRun(const ttrace_run& run, const std::string& role, bool perturbed, const Devices& devices);

  const std::string& path() const override { return path_; }
  const trace::Manifest& manifest() const override { return manifest_; }
  // Identifies the memory: the same for two runs of the very same tensors.
  std::string identity() const override { return identity_; }
  std::string rank_file(std::uint64_t) const override { return path_; }
  std::optional<std::string> rank_problem(std::uint64_t) const override { return std::nullopt; }
  std::unique_ptr<trace::Dataset> open(std::uint64_t rank,
                                       const std::string& dataset) const override;

 private:
  struct Stored {
    trace::DatasetFacts facts;
    std::span<const std::byte> bits;
    std::optional<std::uint32_t> device;  // nothing: in the host's memory
  };
  class InMemory;
  class OnDevice;

  void add(const ttrace_tensor& tensor, std::uint64_t order);

  const Devices& devices_;
  std::string path_;
  std::string identity_;
  trace::Manifest manifest_;
  std::map<std::string, Stored> datasets_;  // by path
};

}  // namespace ttrace::library
