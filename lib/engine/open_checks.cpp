#include "engine/open_checks.h"

#include "base/error.h"
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
  std::vector<std::uint64_t> unreadable;
  for (const std::uint64_t rank : layout::ranks_of(source.manifest())) {
    auto problem = source.rank_problem(rank);
    if (!problem) continue;
    unreadable.push_back(rank);
    lost.problems.push_back(*std::move(problem));
  }
  if (!unreadable.empty()) {
    lost.words = base::concat(layout::rank_words(unreadable), " cannot be read");
  } else if (const auto& open = source.manifest().run.unfinished; !open.empty()) {
    lost.words = base::concat(layout::rank_words(open), " did not close ",
                              open.size() == 1 ? "its file" : "their files");
  }
  return lost;
}

}  // namespace ttrace::engine
