// A comparison as requested by flags. Shared by `compare`, `report merge`, `localize` and `run`.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "answer_output.h"
#include "comparison/division.h"
#include "engine/compare_traces.h"
#include "inputs.h"
#include "layout/map_rules.h"
#include "shared_work.h"

namespace ttrace::app {

struct ComparisonFlags {
  JudgedPairFlags pair;
  bool all_slices = false;
  bool common = false;
};

// The flags that request the comparison `id`.
ComparisonFlags flags_of(const comparison::ComparisonId& id);

class Comparison {
 public:
  // `flags` must outlive this. `candidate`: null where it is opened by its path. Throws an input
  // error naming the file that cannot be read.
  explicit Comparison(const ComparisonFlags& flags,
                      std::unique_ptr<trace::Source> candidate = nullptr);

  const JudgedPair& pair() const { return pair_; }

  // What was requested, and the current state of the files.
  comparison::ComparisonId id() const;

  // Every rank file of the traces that is here, and what it is.
  std::map<std::string, std::string> files_here() const;

  // Draft rules that map the names of one implementation of a model to those of another.
  layout::MapFile map_starter() const;

  comparison::CompareReport run(comparison::Checkpoint* work, comparison::WorkDivision division,
                                const std::atomic<bool>* stop) const;

 private:
  std::vector<const trace::Source*> sources() const;

  const ComparisonFlags& flags_;
  JudgedPair pair_;
};

// The answer that `compare` and `report merge` write.
GivenAnswer answer_of(const comparison::CompareReport& report, bool all_slices);

class SharedComparison : public SharedWork {
 public:
  // Arguments and errors are those of Comparison.
  explicit SharedComparison(const ComparisonFlags& flags,
                            std::unique_ptr<trace::Source> candidate = nullptr)
      : flags_(flags), comparison_(flags, std::move(candidate)) {}

  const Comparison& comparison() const { return comparison_; }
  const comparison::CompareReport& report() const { return report_; }

  comparison::ComparisonId id() const override { return comparison_.id(); }
  std::map<std::string, std::string> files_here() const override {
    return comparison_.files_here();
  }
  void run(comparison::Checkpoint* work, comparison::WorkDivision division,
           const std::atomic<bool>* stop) override;
  bool interrupted() const override { return report_.interrupted.has_value(); }
  void add_to_why(const std::string& text) override { report_.why += text; }
  void set_part(comparison::PartOfWork part) override { report_.part = std::move(part); }
  GivenAnswer answer() const override { return answer_of(report_, flags_.all_slices); }

 private:
  const ComparisonFlags& flags_;
  const Comparison comparison_;
  comparison::CompareReport report_;
};

}  // namespace ttrace::app
