// An audit as requested by flags. Shared by `audit` and `report merge`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "audit/verdict.h"
#include "engine/audit_trace.h"
#include "flags/selection.h"
#include "inputs.h"
#include "local_files.h"
#include "shared_work.h"
#include "specification/specification.h"

namespace ttrace::app {

struct AuditedRunFlags {
  std::string run;
  std::string specification;
  std::string layout;
  std::string tolerance;
  unsigned threads = 0;
  bool exact = false;
  LocalFiles local;
  SelectionFlags selection;
};

// The flags that request the audit `id`.
AuditedRunFlags audit_flags_of(const comparison::ComparisonId& id);

class SharedAudit : public SharedWork {
 public:
  // `flags` must outlive this. `run`: null where it is opened by its path. Throws an input error
  // naming the file that cannot be read.
  explicit SharedAudit(const AuditedRunFlags& flags, std::unique_ptr<trace::Source> run = nullptr);

  comparison::ComparisonId id() const override;
  std::map<std::string, std::string> files_here() const override;
  void run(comparison::Checkpoint* work, comparison::WorkDivision division,
           const std::atomic<bool>* stop) override;
  bool interrupted() const override { return report_.interrupted.has_value(); }
  void add_to_why(const std::string& text) override { report_.why += text; }
  void set_part(comparison::PartOfWork part) override { report_.part = std::move(part); }
  GivenAnswer answer() const override;
  const audit::AuditReport& report() const { return report_; }

 private:
  const AuditedRunFlags& flags_;
  const OpenedTrace trace_;
  engine::AuditOptions options_;
  std::optional<specification::Specification> specification_;
  audit::AuditReport report_;
};

}  // namespace ttrace::app
