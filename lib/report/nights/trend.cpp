#include "report/nights/trend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/functions.h"
#include "base/text.h"
#include "report/nights/less_checked.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::concat;

constexpr std::size_t kMostNumbers = 7;  // the last nights, in figures
constexpr std::size_t kNumber = 9;       // columns

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

void require_one_command(const std::vector<Night>& nights) {
  for (const Night& night : nights) {
    if (night.command == nights.front().command) continue;
    throw base::input_error(night.file, ": is a report of `ttrace ", night.command, "`, and ",
                            nights.front().file, " one of `ttrace ", nights.front().command,
                            "`; give reports of one command");
  }
}

std::string right_aligned(const std::string& text) {
  return std::string(text.size() < kNumber ? kNumber - text.size() : 1, ' ') + text;
}

void write_row(const TensorTrend& trend, std::ostream& out) {
  out << "  " << picture_of(trend.used);
  const std::size_t all = trend.used.size();
  for (std::size_t i = all - std::min(all, kMostNumbers); i < all; ++i) {
    out << right_aligned(trend.used[i] ? base::short_number(*trend.used[i]) : "-");
  }
  out << "  " << base::printable(trend.id) << "\n";
}

std::string night_line(const Night& night) {
  std::string text = concat(night.file, "  ", capitals(night.verdict));
  if (!night.recorded_at.empty()) text += concat("  ", night.recorded_at);
  if (!night.commit.empty()) text += concat("  ", night.commit);
  return text;
}

}  // namespace

std::string picture_of(const std::vector<std::optional<double>>& used) {
  std::string picture;
  for (const auto& one : used) picture += block_of(one);
  return picture;
}

NightTrend trend_of(std::vector<Night> nights) {
  require_one_command(nights);
  NightTrend trend;
  trend.tensors = trends_of(nights);
  for (std::size_t i = 0; i + 1 < nights.size() && trend.why.empty(); ++i) {
    trend.why = less_checked(nights[i], nights.back());
  }
  trend.nights = std::move(nights);
  return trend;
}

std::string NightTrend::headline() const {
  std::string text = concat(base::plural(nights.size(), "night"), ", the worst ",
                            std::min(tensors.size(), kTrendRows), " of ",
                            base::plural(tensors.size(), "tensor"), " by error over allowed");
  if (!why.empty()) text += concat("; ", why);
  if (!tensors.empty()) {
    text += concat("; the worst used ", base::short_number(tensors.front().worst), " (",
                   tensors.front().id, ")");
  }
  return text;
}

std::vector<ChangedCircumstance> NightTrend::changed_in(std::size_t night) const {
  std::vector<ChangedCircumstance> changed;
  if (night == 0) return changed;
  for (const auto& [what, value] : nights[night].circumstances) {
    for (const auto& [name, was] : nights[night - 1].circumstances) {
      if (name == what && was != value) changed.push_back({what, was, value});
    }
  }
  return changed;
}

void write_trend(const NightTrend& trend, const TextStyle& style, std::ostream& out) {
  const std::size_t shown = style.all ? trend.tensors.size() : kTrendRows;
  out << bold("TREND", "36", style) << "  " << base::printable(trend.headline()) << "\n";
  for (std::size_t i = 0; i < trend.tensors.size() && i < shown; ++i) {
    write_row(trend.tensors[i], out);
  }
  for (std::size_t i = 0; i < trend.nights.size(); ++i) {
    for (const ChangedCircumstance& one : trend.changed_in(i)) {
      out << "           " << base::printable(concat(one.what, ": ", one.was, " → ", one.is))
          << "\n";
    }
    out << "  night " << i + 1 << "  " << base::printable(night_line(trend.nights[i])) << "\n";
  }
}

}  // namespace ttrace::report
