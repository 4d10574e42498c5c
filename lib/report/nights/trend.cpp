#include "report/nights/trend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/functions.h"
#include "base/text.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::concat;

constexpr std::size_t kMostTensors = 10;
constexpr std::size_t kMostNumbers = 7;  // the last nights, in figures
constexpr std::size_t kNumber = 9;       // columns

struct TensorTrend {
  std::string id;
  std::vector<std::optional<double>> used;  // by night
  double worst = 0;
};

// From a hundredth of what is allowed to a hundred times it.
std::string_view block_of(const std::optional<double>& used) {
  constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (!used) return "·";
  if (!(*used > 0)) return kBlocks.front();
  constexpr double kDecadesBelow = 2;
  const double height = 2 * (base::decimal_logarithm(*used) + kDecadesBelow);
  return kBlocks.at(static_cast<std::size_t>(std::clamp(height, 0.0, 7.0)));
}

std::optional<double> used_in(const Night& night, const std::string& id) {
  const NightTensor* const tensor = night.find(id);
  if (tensor == nullptr || !tensor->used) return std::nullopt;
  return std::isnan(*tensor->used) ? std::numeric_limits<double>::infinity() : *tensor->used;
}

std::vector<TensorTrend> trends_of(const std::vector<Night>& nights) {
  std::vector<TensorTrend> trends;
  std::set<std::string_view> seen;
  for (const Night& night : nights) {
    for (const NightTensor& tensor : night.tensors) {
      if (!seen.insert(tensor.id).second) continue;
      TensorTrend trend{tensor.id, {}, -1};
      for (const Night& one : nights) {
        trend.used.push_back(used_in(one, tensor.id));
        trend.worst = std::max(trend.worst, trend.used.back().value_or(-1));
      }
      if (trend.worst >= 0) trends.push_back(std::move(trend));
    }
  }
  std::stable_sort(trends.begin(), trends.end(),
                   [](const TensorTrend& a, const TensorTrend& b) { return a.worst > b.worst; });
  return trends;
}

std::string right_aligned(const std::string& text) {
  return std::string(text.size() < kNumber ? kNumber - text.size() : 1, ' ') + text;
}

void write_row(const TensorTrend& trend, std::ostream& out) {
  out << "  ";
  for (const auto& used : trend.used) out << block_of(used);
  const std::size_t all = trend.used.size();
  for (std::size_t i = all - std::min(all, kMostNumbers); i < all; ++i) {
    out << right_aligned(trend.used[i] ? base::short_number(*trend.used[i]) : "-");
  }
  out << "  " << base::printable(trend.id) << "\n";
}

// What is not as it was the night before: "framework of the candidate: torch 2.13 → torch 2.14".
void write_changes(const Night& before, const Night& now, std::ostream& out) {
  for (const auto& [what, value] : now.circumstances) {
    for (const auto& [name, was] : before.circumstances) {
      if (name != what || was == value) continue;
      out << "           " << base::printable(concat(what, ": ", was, " → ", value)) << "\n";
    }
  }
}

std::string night_line(const Night& night) {
  std::string text = concat(night.file, "  ", capitals(night.verdict));
  if (!night.recorded_at.empty()) text += concat("  ", night.recorded_at);
  if (!night.commit.empty()) text += concat("  ", night.commit);
  return text;
}

}  // namespace

void write_trend(const std::vector<Night>& nights, const TextStyle& style, std::ostream& out) {
  for (const Night& night : nights) {
    if (night.command == nights.front().command) continue;
    throw base::input_error(night.file, ": is a report of `ttrace ", night.command, "`, and ",
                            nights.front().file, " one of `ttrace ", nights.front().command,
                            "`; give reports of one command");
  }
  const std::vector<TensorTrend> trends = trends_of(nights);
  const std::size_t most = style.all ? trends.size() : kMostTensors;
  const std::size_t shown = std::min(trends.size(), most);
  std::string first = concat(base::plural(nights.size(), "night"), ", the worst ", shown, " of ",
                             base::plural(trends.size(), "tensor"), " by error over allowed");
  if (!trends.empty()) {
    first += concat("; the worst used ", base::short_number(trends.front().worst), " (",
                    trends.front().id, ")");
  }
  out << bold("TREND", "36", style) << "  " << base::printable(first) << "\n";
  for (std::size_t i = 0; i < shown; ++i) write_row(trends[i], out);
  for (std::size_t i = 0; i < nights.size(); ++i) {
    if (i > 0) write_changes(nights[i - 1], nights[i], out);
    out << "  night " << i + 1 << "  " << base::printable(night_line(nights[i])) << "\n";
  }
}

}  // namespace ttrace::report
