#include "report/nights/trend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/functions.h"
#include "base/strict_json.h"
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

std::uint64_t bytes_of(const Night& night) {
  std::uint64_t bytes = sizeof(Night) + night.headline.size();
  for (const auto& [what, value] : night.circumstances) {
    bytes += sizeof(what) + sizeof(value) + what.size() + value.size();
  }
  return bytes;
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

void TrendReader::add_tensor(const NightTensor& tensor) {
  if (!tensor.used) return;
  constexpr std::uint64_t kRow = 256;  // in the list, and by id
  const auto [row, is_new] = rows_.try_emplace(tensor.id, trend_.tensors.size());
  if (is_new) {
    trend_.tensors.push_back({tensor.id, {}, -1});
    bytes_ += kRow + 2 * tensor.id.size();
  }
  TensorTrend& trend = trend_.tensors[row->second];
  trend.used.resize(trend_.nights.size());
  const double used =
      std::isnan(*tensor.used) ? std::numeric_limits<double>::infinity() : *tensor.used;
  trend.used.emplace_back(used);
  trend.worst = std::max(trend.worst, used);
  bytes_ += sizeof(trend.used.front());
}

void TrendReader::add(Night night) {
  if (trend_.why.empty()) trend_.why = less_checked(night, last_);
  keep(std::move(night));
}

void TrendReader::keep(Night night) {
  if (!trend_.nights.empty() && night.command != trend_.nights.front().command) {
    throw base::input_error(night.file, ": is a report of `ttrace ", night.command, "`, and ",
                            trend_.nights.front().file, " one of `ttrace ",
                            trend_.nights.front().command, "`; give reports of one command");
  }
  for (const NightTensor& tensor : night.tensors) add_tensor(tensor);
  night.tensors = {};
  night.findings = {};
  night.index_of = {};
  bytes_ += bytes_of(night);
  // The answer in JSON is as large again.
  if (bytes_ > base::json_memory() / 3) {
    throw base::input_error(
        night.file, ": with the nights before it there is more to keep than --memory allows (",
        base::human_bytes(base::json_memory()), "); give fewer nights or more memory");
  }
  trend_.nights.push_back(std::move(night));
}

NightTrend TrendReader::done() && {
  keep(std::move(last_));
  rows_ = {};
  std::erase_if(trend_.tensors, [](const TensorTrend& trend) { return trend.worst < 0; });
  for (TensorTrend& trend : trend_.tensors) trend.used.resize(trend_.nights.size());
  std::stable_sort(trend_.tensors.begin(), trend_.tensors.end(),
                   [](const TensorTrend& a, const TensorTrend& b) { return a.worst > b.worst; });
  return std::move(trend_);
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
