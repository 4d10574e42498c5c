// How close the tensors of a job came to their limits over many nights, for people and
// (schemas/trend-v1.md) for programs.
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "report/nights/diff.h"
#include "report/nights/night.h"
#include "report/terminal_text.h"

namespace ttrace::report {

inline constexpr std::string_view kTrendSchema = "ttrace.trend/1";
// Tensors that are shown where not all are asked for.
inline constexpr std::size_t kTrendRows = 10;

struct TensorTrend {
  std::string id;
  std::vector<std::optional<double>> used;  // by night
  double worst = 0;
};

struct NightTrend {
  std::vector<Night> nights;
  std::vector<TensorTrend> tensors;  // the worst first
  std::string why;  // the last night checked less than one before it: how much less, or empty

  std::string headline() const;
  int exit_code() const { return why.empty() ? 0 : 3; }
  // What is not as it was the night before.
  std::vector<ChangedCircumstance> changed_in(std::size_t night) const;
};

// `used` of the nights as a picture on a logarithmic scale, a block each.
std::string picture_of(const std::vector<std::optional<double>>& used);

// There must be a night. Throws an input error if the reports are of several commands.
NightTrend trend_of(std::vector<Night> nights);

// One line for each of the worst tensors, in a picture and in numbers; then the verdicts and what
// changed. `style.all`: every tensor.
void write_trend(const NightTrend& trend, const TextStyle& style, std::ostream& out);

std::string trend_json(const NightTrend& trend);

}  // namespace ttrace::report
