#include "localize/causes/cause.h"

#include <algorithm>

#include "localize/causes/missing_reduction.h"
#include "localize/causes/scaled.h"

namespace ttrace::localize {

std::vector<Cause> find_causes(const Case& the_case) {
  std::vector<Cause> causes;
  for (const auto& finder : {find_missing_reduction, find_scaled}) {
    std::vector<Cause> found = finder(the_case);
    std::move(found.begin(), found.end(), std::back_inserter(causes));
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.unexplained < b.unexplained; });
  return causes;
}

}  // namespace ttrace::localize
