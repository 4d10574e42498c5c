#include "report/finding_spot.h"

#include "base/text.h"
#include "layout/mesh.h"
#include "localize/phase.h"
#include "report/place_words.h"
#include "report/screen.h"

namespace ttrace::report {

std::string describe_spot(const answer::Finding& finding, const trace::TensorKey& shown,
                          const localize::Place& place, bool several) {
  std::string text(describe_phase(localize::phase_of(shown)));
  if (place.kind == localize::PlaceKind::kBetween) {
    append_clause(text, describe_place(place, finding.called_at));
  } else if (place.kind == localize::PlaceKind::kModule && !several) {
    append_clause(text, trace::module_of(shown));
    if (!finding.class_name.empty()) text += base::concat(" (", finding.class_name, ")");
    if (!finding.called_at.empty()) text += base::concat(", called in ", finding.called_at);
  }
  return text;
}

std::string describe_ranks_of(const std::vector<std::uint64_t>& ranks, std::uint64_t of_run) {
  if (ranks.empty() || of_run < 2) return "";
  return ranks.size() == of_run ? "every rank" : layout::describe_ranks(ranks);
}

}  // namespace ttrace::report
