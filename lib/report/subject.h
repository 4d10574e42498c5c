// What a finding is about, in words that count the whole: "the gradients of 12 of 53 parameters
// (layers.*.norm1.weight)".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "trace/key.h"

namespace ttrace::report {

// All tensors of one kind in one step, as far as words need them.
class AllOfKind {
 public:
  void add(const trace::TensorKey& key);

  std::size_t names() const { return names_.size(); }
  std::size_t microbatches() const { return microbatches_.size(); }
  // How many names have this pattern (judge::name_pattern), and how many have a pattern of this
  // module.
  std::uint64_t of_pattern(const std::string& pattern) const;
  std::uint64_t of_module(const std::string& module) const;

 private:
  std::set<std::string> names_;
  std::set<std::uint64_t> microbatches_;
  std::map<std::string, std::uint64_t> patterns_;
  std::map<std::string, std::uint64_t> modules_;
};

// The tensors of a finding, of one kind in one step.
struct AlikeTensors {
  trace::Kind kind = trace::Kind::kOutput;
  std::set<std::string> names;  // at least one
  std::set<std::uint64_t> microbatches = {};
  std::uint64_t step = 0;
  bool is_first_step = true;       // of the run; otherwise the step is named
  const AllOfKind* all = nullptr;  // null: these are all

  void add(const trace::TensorKey& key);
};

std::string describe_subject(const AlikeTensors& tensors);

// "layers.*.norm1.*, layers.3.fc", and "and 3 more" after the first few. A pattern stands only
// where all names that have it are among `names`.
std::string describe_members(const std::set<std::string>& names, const AllOfKind& all,
                             bool parameters);

}  // namespace ttrace::report
