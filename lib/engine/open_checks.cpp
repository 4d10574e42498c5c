#include "engine/open_checks.h"

#include <algorithm>

#include "base/error.h"
#include "layout/absent_parts.h"
#include "layout/mesh_map.h"
#include "layout/plan.h"
#include "layout/unite_words.h"

namespace ttrace::engine {

void require_sound_layouts(const trace::Source& source) {
  const std::vector<std::string> problems = layout::layout_problems(source.manifest());
  if (problems.empty()) return;
  throw base::input_error(source.path(), ": the manifest contradicts itself: ", problems[0],
                          problems.size() == 1 ? ""
                                               : base::concat("; and ", problems.size() - 1,
                                                              " more, listed by `ttrace lint`"));
}

LostRanks lost_ranks_of(const trace::Source& source) {
  LostRanks lost;
  for (const std::uint64_t rank : layout::ranks_of(source.manifest())) {
    auto problem = source.rank_problem(rank);
    if (!problem) continue;
    lost.unreadable.push_back(rank);
    lost.problems.push_back(*std::move(problem));
  }
  if (!lost.unreadable.empty()) {
    lost.words = base::concat(layout::rank_words(lost.unreadable), " cannot be read");
  } else if (const auto& open = source.manifest().run.unfinished; !open.empty()) {
    lost.words = base::concat(layout::rank_words(open), " did not close ",
                              open.size() == 1 ? "its file" : "their files");
  }
  return lost;
}

Absences absences_of(const trace::Source& source, const LostRanks& lost) {
  const std::uint64_t ranks = layout::ranks_of(source.manifest()).size();
  Absences absences;
  for (layout::AbsentPart& part : layout::absent_parts(source.manifest())) {
    std::erase_if(part.ranks, [&lost](std::uint64_t rank) {
      return std::binary_search(lost.unreadable.begin(), lost.unreadable.end(), rank);
    });
    if (!part.ranks.empty()) absences.emplace(part.key, layout::absent_words(part, ranks));
  }
  return absences;
}

}  // namespace ttrace::engine
