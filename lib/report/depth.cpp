#include "report/depth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/display_limits.h"
#include "base/functions.h"
#include "base/text.h"
#include "localize/phase.h"
#include "localize/place.h"
#include "report/layer.h"
#include "report/screen.h"

namespace ttrace::report {
namespace {

using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

// Kinds that a row of bars stands for, in the order of a step.
struct Band {
  std::string_view label;  // of its bars
  std::string_view words;  // in a sentence
  std::vector<Kind> kinds;
};

const std::vector<Band>& bands() {
  static const std::vector<Band> kBands{
      {"param", "parameters", {Kind::kParam}},
      {"forward", "forward", {Kind::kInput, Kind::kOutput, Kind::kIndex, Kind::kScalar}},
      {"loss", "loss", {Kind::kLoss}},
      {"backward", "gradients of activations", {Kind::kGradOutput, Kind::kGradInput}},
      {"raw grad", "raw gradients", {Kind::kParamGrad}},
      {"main_grad", "gradients", {Kind::kMainGrad}},
      {"norm", "gradient norm", {Kind::kGradNorm}},
      {"update", "updates", {Kind::kParamAfterStep}},
      {"buffer", "buffers", {Kind::kBufferAfterStep}},
  };
  return kBands;
}

bool is_of(const Band& band, Kind kind) {
  return std::find(band.kinds.begin(), band.kinds.end(), kind) != band.kinds.end();
}

// Where the tensors of a step lie in depth. Tensors without a layer's number lie before or after
// all layers.
class Depths {
 public:
  Depths(const std::vector<TensorComparison>& results, std::uint64_t step) {
    std::optional<std::size_t> first_layer;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const trace::TensorKey& key = results[i].key;
      if (key.step != step || (key.kind != Kind::kOutput && key.kind != Kind::kInput)) continue;
      if (layer_of(key.name)) {
        if (!first_layer) first_layer = i;
      } else if (!first_layer) {
        before_.emplace(trace::module_of(key), i);
      }
    }
  }

  // −1 before the layers, and after them a number beyond all.
  std::int64_t of(const trace::TensorKey& key) const {
    if (const auto layer = layer_of(key.name)) return static_cast<std::int64_t>(*layer);
    return before_.contains(trace::module_of(key)) ? -1 : kAfter;
  }

 private:
  static constexpr std::int64_t kAfter = std::int64_t{1} << 62;
  std::map<std::string, std::size_t> before_;
};

constexpr double kNotChecked = -1;

// Error over allowed; infinite where it is bad without a number.
double share_of_allowed(const TensorComparison& result) {
  const bool bad = judge::is_bad(result.outcome);
  if (result.outcome != Outcome::kMatch && !bad) return kNotChecked;
  if (!bad || !result.comparison || result.outcome == Outcome::kReplicaConflict) {
    return bad ? HUGE_VAL : 0;
  }
  const double used = comparison::used_share(*result.comparison);
  return std::max(used, 1.0000001);
}

std::string_view bar_of(double used) {
  constexpr std::array<std::string_view, 7> kBars{"▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (used < 0) return "?";
  if (used <= 1) return "▁";
  const double height =
      std::isfinite(used) ? 1.5 * base::decimal_logarithm(used) : 6;  // 10⁴ is the highest
  return kBars.at(static_cast<std::size_t>(std::clamp(height, 0.0, 6.0)));
}

// All bands, each with at most `most` bars; counts the characters.
std::string draw(const comparison::CompareReport& report, const Depths& depths, std::uint64_t step,
                 std::size_t most, std::size_t& characters) {
  std::string text;
  for (const Band& band : bands()) {
    std::map<std::int64_t, double> worst;
    for (const TensorComparison& result : report.results) {
      if (result.key.step != step || !is_of(band, result.key.kind)) continue;
      const double used = share_of_allowed(result);
      const auto [at, fresh] = worst.emplace(depths.of(result.key), used);
      if (!fresh) at->second = std::max(at->second, used);
    }
    if (worst.empty() || band.label == "norm") continue;
    // Neighbours share a bar where there are many.
    const std::size_t bars = std::min(worst.size(), most);
    std::vector<double> shown(bars, kNotChecked);
    std::size_t i = 0;
    for (const auto& [depth, used] : worst) {
      double& bar = shown[i++ * bars / worst.size()];
      bar = std::max(bar, used);
    }
    characters += (text.empty() ? 1 : 3) + band.label.size() + bars;
    text += base::concat(text.empty() ? "" : "  ", band.label, " ");
    for (const double used : shown) text += bar_of(used);
  }
  return text;
}

}  // namespace

std::string depth_picture(const comparison::CompareReport& report, std::uint64_t step) {
  constexpr std::size_t kMostCharacters = 88;  // of one line of a screen
  const Depths depths(report.results, step);
  std::string text;
  for (std::size_t bars = base::kShown.bars; bars > 0; --bars) {
    std::size_t characters = 0;
    text = draw(report, depths, step, bars, characters);
    if (characters <= kMostCharacters) break;
  }
  return text;
}

std::string describe_right_before(const comparison::CompareReport& report, std::uint64_t step,
                                  trace::Kind first) {
  std::vector<std::string> right;
  for (const Band& band : bands()) {
    if (is_of(band, first)) break;
    std::size_t match = 0;
    std::size_t other = 0;
    for (const TensorComparison& result : report.results) {
      if (result.key.step != step || !is_of(band, result.key.kind)) continue;
      match += result.outcome == Outcome::kMatch ? 1 : 0;
      other += judge::is_bad(result.outcome) || result.outcome == Outcome::kNotJudged ? 1 : 0;
    }
    if (match > 0 && other == 0) right.emplace_back(band.words);
  }
  // What is said of the raw gradients holds for those of activations.
  if (std::find(right.begin(), right.end(), "raw gradients") != right.end()) {
    std::erase(right, "gradients of activations");
  }
  if (right.empty()) return "";
  return base::concat(list_in_words(right),
                      right.size() == 1 && right[0] != "parameters" && right[0] != "raw gradients"
                          ? " is right"
                          : " are right");
}

}  // namespace ttrace::report
