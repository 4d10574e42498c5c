#include "engine/open_checks.h"

#include "base/error.h"
#include "layout/mesh_map.h"
#include "layout/plan.h"

namespace ttrace::engine {

void require_sound_layouts(const trace::Source& source) {
  const std::vector<std::string> problems = layout::layout_problems(source.manifest());
  if (problems.empty()) return;
  throw base::input_error(source.path(), ": the manifest contradicts itself: ", problems[0],
                          problems.size() == 1 ? ""
                                               : base::concat("; and ", problems.size() - 1,
                                                              " more, listed by `ttrace lint`"));
}

std::vector<std::string> unreadable_ranks(const trace::Source& source) {
  std::vector<std::string> problems;
  for (const std::uint64_t rank : layout::ranks_of(source.manifest())) {
    if (auto problem = source.rank_problem(rank)) problems.push_back(*std::move(problem));
  }
  return problems;
}

}  // namespace ttrace::engine
