// The explanation of a comparison as requested by flags. Shared by `localize` and `run`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "answer_output.h"
#include "comparison.h"
#include "flags/policy.h"
#include "outputs.h"

namespace ttrace::app {

struct LocalizeFlags {
  ComparisonFlags comparison;
  std::string specification;
  std::string candidate_specification;
  std::vector<std::string> layers;
  bool all_layers = false;
  std::string report;
  std::string plan;
  AnswerFlags answer;
  PolicyFlags policy;
};

// Explains what the comparison found. Gives the answer to `write` and returns what that returns;
// the answer is valid until then. `plan`: that of flags.plan. `compared`: the comparison, or null,
// which reads its report or compares first.
int with_localization(const LocalizeFlags& flags, OutputFile& plan,
                      const comparison::CompareReport* compared,
                      const std::function<int(const Answer&)>& write);

}  // namespace ttrace::app
