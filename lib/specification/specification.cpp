#include "specification/specification.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace ttrace::specification {

bool AfterBackward::takes(const std::string& parameter,
                          const std::set<std::uint64_t>& microbatches) const {
  const auto known = taken.find(parameter);
  return known == taken.end() || std::ranges::includes(known->second, microbatches);
}

void Specification::index() {
  by_key_.clear();
  names_.clear();
  originals_.resize(tensors.size());
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const SpecifiedTensor& tensor = tensors[i];
    by_key_.emplace(Key{tensor.kind, tensor.name, tensor.call, tensor.copy, tensor.microbatch}, i);
    originals_[i] = tensor.same ? originals_[*tensor.same] : i;  // `same` is an earlier one
    names_[originals_[i]].push_back(i);
  }
  for (Specification& variant : variants) variant.index();
  for (Specification& of_step : updates) of_step.index();
}

std::optional<std::size_t> Specification::find(const trace::TensorKey& key) const {
  const auto of = update ? key.microbatch : std::nullopt;
  const auto found = by_key_.find(Key{key.kind, key.name, key.call, key.copy, of});
  if (found == by_key_.end()) return std::nullopt;
  return found->second;
}

std::size_t Specification::original(std::size_t tensor) const { return originals_[tensor]; }

const std::vector<std::uint32_t>& Specification::names_of_value(std::size_t tensor) const {
  return names_.at(originals_[tensor]);
}

bool Specification::is_frozen(std::uint64_t step, const std::string& parameter) const {
  return std::ranges::any_of(updates, [&](const Specification& one) {
    return one.update->step == step && one.update->frozen.contains(parameter);
  });
}

bool Specification::is_rewritten(std::uint64_t step, const std::string& parameter) const {
  const bool follows = std::ranges::any_of(
      updates, [&](const Specification& one) { return one.update->step == step; });
  return std::ranges::any_of(updates, [&](const Specification& one) {
    return (!follows || one.update->step == step) && one.update->rewritten.contains(parameter);
  });
}

std::vector<const Pattern*> Specification::all_patterns() const {
  std::vector<const Pattern*> found;
  for (const Pattern& pattern : patterns) found.push_back(&pattern);
  for (const Specification& variant : variants) {
    for (const Pattern& pattern : variant.patterns) found.push_back(&pattern);
  }
  return found;
}

trace::TensorKey Specification::key_of(std::size_t tensor) const {
  trace::TensorKey key;
  key.kind = tensors[tensor].kind;
  key.name = tensors[tensor].name;
  key.call = tensors[tensor].call;
  key.copy = tensors[tensor].copy;
  key.microbatch = tensors[tensor].microbatch;
  return key;
}

Specification read_specification(const std::string& path, const SpecificationLimits& limits) {
  std::error_code problem;  // read_text() tells it
  const std::uint64_t size = std::filesystem::file_size(path, problem);
  if (!problem && size > limits.bytes / 2) {
    throw base::input_error(path, ": reading its ", base::human_bytes(size),
                            " needs more than the ", base::human_bytes(limits.bytes),
                            " of memory that are allowed; allow more with --memory");
  }
  return parse_specification(base::read_text(path), path, limits);
}

}  // namespace ttrace::specification
