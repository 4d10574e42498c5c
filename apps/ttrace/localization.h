// The explanation of a comparison as requested by flags. Shared by `localize`, `report merge` and
// `run`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comparison.h"
#include "engine/localize_trace.h"
#include "shared_work.h"

namespace ttrace::app {

struct LocalizeFlags {
  ComparisonFlags comparison;
  std::string specification;
  std::string candidate_specification;
  std::vector<std::string> layers;
  bool all_layers = false;
  std::string report;
  std::string plan;
};

// The flags that request the localization `id`.
LocalizeFlags localize_flags_of(const comparison::ComparisonId& id);

// Compares, unless there is a report, and explains the findings. Processes share the comparison or,
// if there is a report, the judging of the modules that it names.
class SharedLocalization : public SharedWork {
 public:
  // `flags` must outlive this, and `compared`: the comparison, or null. Throws an input error
  // naming the file that cannot be read.
  explicit SharedLocalization(const LocalizeFlags& flags,
                              const comparison::CompareReport* compared = nullptr);

  comparison::ComparisonId id() const override;
  std::map<std::string, std::string> files_here() const override {
    return comparison_.files_here();
  }
  void run(comparison::Checkpoint* work, comparison::WorkDivision division,
           const std::atomic<bool>* stop) override;
  bool interrupted() const override { return !report_.unfinished.empty(); }
  void add_to_why(const std::string& text) override { report_.unfinished += text; }
  void set_part(comparison::PartOfWork part) override { report_.part = std::move(part); }
  GivenAnswer answer() const override;

  // The plan that flags.plan asks for.
  const std::optional<localize::WrittenPlan>& plan() const { return report_.written_plan; }

 private:
  localize::ReportedComparison reported(comparison::Checkpoint* work,
                                        const comparison::WorkDivision& division,
                                        const std::atomic<bool>* stop);

  const LocalizeFlags& flags_;
  const comparison::CompareReport* compared_;
  const Comparison comparison_;
  std::optional<layout::MapRules> map_;
  std::optional<specification::Specification> specification_;
  std::optional<specification::Specification> candidate_specification_;
  engine::LocalizeOptions options_;
  localize::LocalizeReport report_;
};

}  // namespace ttrace::app
