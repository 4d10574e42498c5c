// The tensors of some modules of a run, judged by what they were computed from.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "audit/record.h"
#include "engine/localize_trace.h"
#include "trace/source.h"

namespace ttrace::engine {

class LocalChecks {
 public:
  // Both must outlive this.
  LocalChecks(const trace::Source& run, const LocalizeOptions& options)
      : run_(run), options_(options) {}

  // Judges all tensors of the modules.
  void check(const std::set<std::string>& modules);

  // The module's tensors; only those of `like`'s step and micro-batch if it is given.
  std::vector<audit::AuditedTensor> of(const std::string& module,
                                       const trace::TensorKey* like) const;

  const std::vector<audit::AuditedTensor>& all() const { return tensors_; }

 private:
  void judge_values(const std::map<trace::TensorKey, double>& norms);

  const trace::Source& run_;
  const LocalizeOptions& options_;
  std::vector<audit::AuditedTensor> tensors_;
  std::map<std::string, std::vector<std::size_t>> by_module_;
};

}  // namespace ttrace::engine
