#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/functions.h"
#include "base/text.h"
#include "localize/causes/cause.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

// The residual that a factor leaves counts as rounding up to this many times the noise, or this
// many ε without noise runs.
constexpr double kMostNoise = 2;
// A residual below this share of the difference is accepted whatever it is.
constexpr double kSmallPart = 0.1;
// How far, relative to it, a factor may be from the size of an axis; or twice what is uncertain of
// the factor, where that is more.
constexpr double kMostOffSize = 1e-3;

struct Fraction {
  double numerator = 1;
  double denominator = 1;

  double value() const { return numerator / denominator; }
};

// The simplest fraction within `reach` of `factor` > 0, and the distance to the nearest other one
// that is as simple.
std::optional<Fraction> fraction_near(double factor, double reach) {
  std::vector<Fraction> all;
  constexpr int kMostSmall = 16;
  for (int p = 1; p <= kMostSmall; ++p) {
    for (int q = 1; q <= kMostSmall; ++q) {
      all.push_back({static_cast<double>(p), static_cast<double>(q)});
    }
  }
  // n, 1/n and n/(n ± 1) nearest to the factor.
  const auto near = [&all](double n, double p, double q) {
    if (n >= 1 && n <= 0x1p32 && p >= 1 && q >= 1) all.push_back({p, q});
  };
  const double n = std::round(std::max(factor, 1 / factor));
  near(n, factor > 1 ? n : 1, factor > 1 ? 1 : n);
  const double part = std::round(1 / std::abs(factor - 1));  // n of 1 ± 1/n
  if (std::isfinite(part)) {
    near(part, factor > 1 ? part + 1 : part - 1, part);
  }
  std::optional<Fraction> best;
  for (const Fraction& one : all) {
    if (std::abs(one.value() - factor) > reach) continue;
    if (!best || one.numerator + one.denominator < best->numerator + best->denominator) best = one;
  }
  return best;
}

// How far apart fractions as simple as this one lie around it.
double spacing_around(const Fraction& fraction) {
  const double largest = std::max(fraction.numerator, fraction.denominator);
  const double smallest = std::min(fraction.numerator, fraction.denominator);
  if (smallest == 1) return fraction.numerator > 1 ? 1 : 1 / (largest * (largest + 1));
  return 1 / (largest * largest);
}

// The power of ten of the first digit; 0 for zero and infinity.
int decimal_place(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  return static_cast<int>(std::floor(base::decimal_logarithm(std::abs(value))));
}

std::string decimal(double factor, double uncertainty) {
  constexpr int kMostDigits = 7;
  int digits = kMostDigits;
  if (uncertainty > 0) digits = 1 + decimal_place(factor) - decimal_place(uncertainty);
  std::array<char, 64> buffer{};
  for (digits = std::clamp(digits, 2, kMostDigits); digits <= 17; ++digits) {
    std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, factor);
    if (factor == 1 || std::string(buffer.data()) != "1") break;
  }
  return buffer.data();
}

// How far the fitted factor may be off by what is left over: by its share along R.
double uncertainty_of(const Case& the_case, const measure::TileStats& stats, double residual) {
  const double elements = static_cast<double>(std::min<std::uint64_t>(stats.finite, 4096));
  const double along = std::max(the_case.coherence.value_or(0), 1 / std::sqrt(elements));
  return residual * std::min(along, 1.0) / measure::reference_norm(stats);
}

bool is_rounding(double residual, double scale, const Case& the_case,
                 const measure::TileStats& stats) {
  const double epsilon = the_case.tolerance.epsilon * measure::reference_norm(stats);
  const double unit = std::max(the_case.noise_norm.value_or(0), epsilon);
  return residual <= kMostNoise * unit * std::max(1.0, std::abs(scale));
}

// Whether it is the gradient of a loss: one number, which the script multiplies the loss by.
bool is_factor(const Case& the_case) {
  return the_case.result != nullptr && the_case.result->key.kind == trace::Kind::kGradOutput &&
         the_case.result->shape.empty();
}

// The axis of whose size the factor is, or the inverse: what was added up over it. Empty if none
// is.
struct ScaledAxis {
  std::string name;
  std::string reduced_over;  // "its param_grad is a partial sum over dp"
};

ScaledAxis axis_of_factor(double factor, double uncertainty, const Case& the_case) {
  ScaledAxis axis;
  const trace::Manifest& manifest = the_case.candidate.source->manifest();
  for (const trace::TensorEntry* part : layout::stored_in(*the_case.candidate.view)) {
    for (const trace::MeshAxis& one : manifest.meshes.at(part->mesh).axes) {
      const auto reduced = the_case.reduced_over.find(one.name);
      if (one.size < 2 || reduced == the_case.reduced_over.end()) continue;
      const auto size = static_cast<double>(one.size);
      const double off = std::min(std::abs(factor - size), std::abs(factor - 1 / size) * size);
      if (off > std::max(2 * uncertainty, kMostOffSize) * size) continue;
      if (!axis.name.empty() && axis.name != one.name) return {};  // two axes that say the same
      axis = {one.name, reduced->second};
    }
  }
  return axis;
}

}  // namespace

std::string describe_factor(double factor, double uncertainty) {
  std::string text = decimal(factor, uncertainty);
  constexpr double kReach = 2;
  constexpr double kRoundedFactor = 1e-7;
  constexpr double kMostByChance = 0.25;
  const double size = std::abs(factor);
  // A factor may have been rounded to f32 before it was used.
  const double reach = std::max(kReach * uncertainty, kRoundedFactor * size);
  if (!(size > 0)) return text;
  const auto fraction = fraction_near(size, reach);
  if (!fraction || fraction->denominator == 1) return text;
  if (2 * reach > kMostByChance * spacing_around(*fraction)) return text;
  const std::string words =
      base::concat(factor < 0 ? "-" : "", static_cast<std::uint64_t>(fraction->numerator), "/",
                   static_cast<std::uint64_t>(fraction->denominator));
  return base::concat(text, " = ", words);
}

std::string shortest_factor(double factor, double uncertainty) {
  const std::string text = describe_factor(factor, uncertainty);
  const std::size_t fraction = text.find(" = ");
  if (fraction != std::string::npos) return text.substr(fraction + 3);
  constexpr std::size_t kMostDigits = 6;  // nobody would write more
  if (text.size() <= kMostDigits) return text;
  std::string three = base::short_number(factor);
  // Near one, three digits would hide the error: show two digits of the distance to one.
  return three == "1" ? decimal(factor, std::abs(factor - 1) / 10) : three;
}

std::vector<Cause> find_scaled(const Case& the_case) {
  const measure::TileStats& stats = the_case.measurement->total;
  // One element is always a multiple of another. What a loss is multiplied by is nothing else.
  if (stats.finite < (is_factor(the_case) ? 1 : 2) || stats.nonfinite_different > 0 ||
      the_case.measurement->replicas_differ) {
    return {};
  }
  const auto fit = measure::fit_scale(stats);
  const double allowed = the_case.tolerance.allowed_norm();
  if (!fit) return {};
  if (!(fit->residual_norm <= allowed * std::max(1.0, std::abs(fit->scale)))) {
    reject(the_case, "scaled", fit->residual_norm);
    return {};
  }
  // A residual within the tolerance says nothing if the whole error nearly is.
  const double along = std::abs(fit->scale - 1) * measure::reference_norm(stats);
  const bool small = fit->residual_norm <= kSmallPart * measure::difference_norm(stats);
  const bool rounding = is_rounding(fit->residual_norm, fit->scale, the_case, stats);
  if (!small && !(rounding && along >= fit->residual_norm)) {
    reject(the_case, "scaled", fit->residual_norm);
    return {};
  }
  if (!is_factor(the_case) && is_by_chance(the_case, fit->residual_norm, {1, 1})) {
    reject(the_case, "scaled", fit->residual_norm);
    return {};
  }
  const double uncertainty = uncertainty_of(the_case, stats, fit->residual_norm);
  const ScaledAxis axis = axis_of_factor(fit->scale, uncertainty, the_case);
  const bool larger = fit->scale > 1;
  answer::CauseValues values{{"factor", fit->scale},
                             {"times", shortest_factor(fit->scale, uncertainty)}};
  base::Message evidence{
      larger ? "{multiple} times {reference}[, the size of axis {axis}: {reduced_over}] (what is "
               "left: {left} of the allowed)"
             : "{multiple} times {reference}[, the inverse of the size of axis {axis}: "
               "{reduced_over}] (what is left: {left} of the allowed)",
      {{"multiple", describe_factor(fit->scale, uncertainty)},
       {"left", share_of_allowed(the_case, fit->residual_norm)}}};
  if (!axis.name.empty()) {
    values.emplace_back("of_axis",
                        base::render({larger ? "the size of {axis}" : "one over the size of {axis}",
                                      {{"axis", axis.name}}}));
    evidence.values.emplace_back("axis", axis.name);
    evidence.values.emplace_back("reduced_over", axis.reduced_over);
  }
  const double left = fit->residual_norm / measure::reference_norm(stats);
  return {cause_of(the_case, "scaled", axis.name, evidence, left, std::move(values))};
}

}  // namespace ttrace::localize
