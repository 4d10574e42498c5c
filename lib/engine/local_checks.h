// The tensors of some modules of a run, judged by what they were computed from.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "audit/record.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/division.h"
#include "comparison/result.h"
#include "engine/localize_trace.h"
#include "trace/source.h"

namespace ttrace::engine {

class LocalChecks {
 public:
  // All must outlive this. `of`: the work in options.work that these checks belong to.
  LocalChecks(const trace::Source& run, const LocalizeOptions& options, comparison::WorkOf of)
      : run_(run), options_(options) {
    if (options.work != nullptr) work_.emplace(*options.work, of);
  }

  // Judges all tensors of the modules, or those of a part of the division.
  void check(const std::set<std::string>& modules, comparison::WorkDivision division);
  // Says what was left undone; nothing if all was done.
  std::optional<answer::Interruption> interruption() const;

  // The module's tensors; only those of `like`'s step and micro-batch if it is given.
  std::vector<audit::AuditedTensor> of(const std::string& module,
                                       const trace::TensorKey* like) const;

  const std::vector<audit::AuditedTensor>& all() const { return tensors_; }

 private:
  void judge_values(const std::map<trace::TensorKey, double>& norms);
  void judge_after_backward(const std::map<trace::TensorKey, double>& norms);

  const trace::Source& run_;
  const LocalizeOptions& options_;
  std::optional<comparison::Checkpoint> work_;
  comparison::WorkDivision division_;
  std::vector<audit::AuditedTensor> tensors_;
  std::map<std::string, std::vector<std::size_t>> by_module_;
};

}  // namespace ttrace::engine
