// The parts of a step's gradients that a job clips by norms of their own, as those of actor and
// critic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "trace/manifest.h"

namespace ttrace::trace {

// A part has the name of its gradient norm. The empty name stands for all gradients, whose norm is
// called `grad_norm`.
class NormedParts {
 public:
  explicit NormedParts(const Manifest& manifest);

  // The part that the gradient norm `norm` is of; nothing if no entry says whose norm it is.
  std::optional<std::string> part_of(std::uint64_t step, const std::string& norm) const;
  // The part that the gradient of `parameter` is clipped with; empty if that is all gradients.
  std::string part_with(std::uint64_t step, const std::string& parameter) const;
  // Whether the norm of `part` counts the gradient of `parameter`.
  bool counts(std::uint64_t step, const std::string& part, const std::string& parameter) const;
  // The limit that the gradients of `part` are clipped to; nothing if they are not clipped.
  std::optional<double> limit(std::uint64_t step, const std::string& part) const;

 private:
  using InStep = std::pair<std::uint64_t, std::string>;  // a step, and a name

  std::map<InStep, std::string> part_of_parameter_;
  std::set<InStep> parts_;
  std::map<InStep, double> limits_;  // by part
};

}  // namespace ttrace::trace
