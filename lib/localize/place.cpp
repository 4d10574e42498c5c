#include "localize/place.h"

#include <algorithm>
#include <array>

#include "localize/phase.h"

namespace ttrace::localize {
namespace {

using trace::Kind;

constexpr std::string_view kLoss = "loss";

}  // namespace

Place place_of(const trace::TensorKey& key, bool has_raw_gradient, const std::string& axis) {
  const std::string module = module_of(key);
  switch (phase_of(key)) {
    case Phase::kSynchronisation:
      if (has_raw_gradient) return {PlaceKind::kSynchronisation, axis};
      break;
    case Phase::kGradNorm:
    case Phase::kOptimizer:
      return {PlaceKind::kOptimizer, ""};
    case Phase::kForward:
      if (key.kind == Kind::kInput)
        return {PlaceKind::kBetween, std::string(trace::owner_of(module))};
      break;
    case Phase::kBackward:
      if (key.kind == Kind::kGradOutput && module != trace::kWholeModel && module != kLoss) {
        return {PlaceKind::kBetween, std::string(trace::owner_of(module))};
      }
      break;
    default:
      break;
  }
  return {PlaceKind::kModule, module};
}

Place place_of(const comparison::CompareReport& report,
               const comparison::ComparedFinding& finding) {
  const bool has_raw_gradient =
      std::any_of(finding.depends_on.begin(), finding.depends_on.end(),
                  [&](std::size_t i) { return report.results[i].key.kind == Kind::kParamGrad; });
  return place_of(report.results[finding.result].key, has_raw_gradient, finding.axis());
}

std::string_view name_of(PlaceKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"module", "between", "synchronisation",
                                                   "optimizer"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace ttrace::localize
