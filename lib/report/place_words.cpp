#include "report/place_words.h"

#include <iterator>

#include "base/message.h"

namespace ttrace::report {
namespace {

// In the order of Phase.
constexpr std::string_view kPhases[] = {"before the step, parameters",
                                        "before the step, input data",
                                        "forward",
                                        "loss",
                                        "backward",
                                        "backward, gradient synchronisation",
                                        "gradient norm",
                                        "optimizer",
                                        "state for the next step"};
static_assert(std::size(kPhases) == static_cast<std::size_t>(localize::Phase::kState) + 1);

// By kind of place; a place without a module or an axis has none of the brackets.
std::string_view template_of_place(localize::PlaceKind kind) {
  switch (kind) {
    case localize::PlaceKind::kModule:
      return "{of}";
    case localize::PlaceKind::kBetween:
      return "between the modules of {of}[ ({called_at})]";
    case localize::PlaceKind::kSynchronisation:
      return "the gradient synchronisation[ over {of}]";
    case localize::PlaceKind::kOptimizer:
      break;
  }
  return "the optimizer";
}

}  // namespace

std::string_view describe_phase(localize::Phase phase) {
  return kPhases[static_cast<std::size_t>(phase)];
}

std::string describe_place(const localize::Place& place, std::string_view called_at) {
  return base::render(
      {template_of_place(place.kind), {{"of", place.of}, {"called_at", std::string(called_at)}}});
}

}  // namespace ttrace::report
