// How close the tensors of a job came to their limits over many nights, for people and
// (schemas/trend-v1.md) for programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
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
  std::vector<Night> nights;         // without their tensors and findings
  std::vector<TensorTrend> tensors;  // the worst first
  std::string why;  // the last night checked less than one before it: how much less, or empty

  std::string headline() const;
  int exit_code() const { return why.empty() ? 0 : 3; }
  // What is not as it was the night before.
  std::vector<ChangedCircumstance> changed_in(std::size_t night) const;
};

// Keeps of each night only what its trend needs: 16 bytes for a tensor that was judged.
class TrendReader {
 public:
  // The last night is read first, since each one before it is asked what it had checked beyond it.
  explicit TrendReader(Night last) : last_(std::move(last)) {}
  // Adds the nights before the last, the oldest first. Throws an input error if one is of another
  // command than the first one, or if all nights together would take more than base::json_memory().
  void add(Night night);
  // Adds the last night, and throws as add() does.
  NightTrend done() &&;

 private:
  void keep(Night night);
  void add_tensor(const NightTensor& tensor);

  Night last_;
  NightTrend trend_;
  std::unordered_map<std::string, std::size_t> rows_;  // in trend_.tensors, by id
  std::uint64_t bytes_ = 0;                            // that are kept
};

// `used` of the nights as a picture on a logarithmic scale, a block each.
std::string picture_of(const std::vector<std::optional<double>>& used);

// One line for each of the worst tensors, in a picture and in numbers; then the verdicts and what
// changed. `style.all`: every tensor.
void write_trend(const NightTrend& trend, const TextStyle& style, std::ostream& out);

std::string trend_json(const NightTrend& trend);

}  // namespace ttrace::report
