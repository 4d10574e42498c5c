// What layout_problems says of a manifest with one tensor.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/refusal.h"
#include "layout/layout_problems.h"
#include "layout/plan.h"
#include "support/memory_trace.h"

namespace ttrace::test {

inline trace::TensorEntry placed(tensor::Shape shape,
                                 std::map<std::string, trace::Placement> placements) {
  trace::TensorEntry entry = make_entry("w", std::move(shape));
  entry.placements = std::move(placements);
  return entry;
}

inline std::vector<std::string> problems_of(const trace::Mesh& mesh,
                                            const trace::TensorEntry& entry,
                                            const std::vector<trace::TensorEntry>& others = {}) {
  trace::Manifest manifest;
  manifest.meshes = {{"", mesh}, {"other", mesh}};
  manifest.tensors = {entry};
  manifest.tensors.insert(manifest.tensors.end(), others.begin(), others.end());
  return layout::layout_problems(manifest);
}

// The tensor must have one problem, told at `pointer` below its entry and with all
// of `parts`.
inline void check_problem(const trace::Mesh& mesh, const trace::TensorEntry& entry,
                          const std::string& pointer, std::initializer_list<std::string_view> parts,
                          const std::vector<trace::TensorEntry>& others = {}) {
  const std::vector<std::string> problems = problems_of(mesh, entry, others);
  REQUIRE(problems.size() == 1);
  CAPTURE(problems[0], pointer);
  CHECK(problems[0].find("/tensors/0/" + pointer + ": ") == 0);
  CHECK(contains(problems[0], to_string(entry.key)));
  for (const std::string_view part : parts) {
    CAPTURE(part);
    CHECK(contains(problems[0], part));
  }
}

}  // namespace ttrace::test
