#include <algorithm>
#include <limits>

#include "base/display_limits.h"
#include "localize/causes/replicas_along_axis.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {

std::vector<Cause> find_replica_conflict(const Case& the_case) {
  if (!the_case.conflict) return {};
  const std::vector<CopyOfAxis> copies = copies_that_differ(the_case);
  const double allowed = the_case.exact ? 0 : the_case.tolerance.allowed_norm();
  const auto& record = the_case.result;
  // A tensor that a replay judges is compared with its replayed value, not with the reference's.
  const bool replayed = record != nullptr && record->comparison && record->comparison->replay;
  std::string text;
  double least = std::numeric_limits<double>::infinity();
  std::uint64_t named = 0;
  for (const CopyOfAxis& copy : copies) {
    if (named == base::kShown.names) break;
    const auto distance = distance_from(the_case, the_case.reference, copy.tensor);
    if (!distance) return {};
    least = std::min(least, *distance);
    ++named;
    if (named > 1) text += ", ";
    text +=
        !replayed && *distance <= allowed
            ? rendered_for(the_case, {"{copy} is within the tolerance of {reference}",
                                      {{"copy", copy.words()}}})
            : rendered_for(the_case, {"{copy} is {distance} of its norm from {reference}",
                                      {{"copy", copy.words()},
                                       {"distance", relative_to_reference(the_case, *distance)}}});
  }
  if (named == 0) return {};
  base::Message evidence{"{copies_told}[ and {copies_more} more]", {{"copies_told", text}}};
  if (copies.size() > named) evidence.values.emplace_back("copies_more", copies.size() - named);
  return {cause_of(the_case, "replica_conflict", copies.front().axis, evidence,
                   relative_to_reference(the_case, least),
                   {{"copies", std::uint64_t{copies.size()}}})};
}

}  // namespace ttrace::localize
