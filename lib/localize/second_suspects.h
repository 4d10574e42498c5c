// What a frontier hides: a second, independent bug downstream of the first. Source:
// lib/localize/README.md
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "judge/outcome.h"
#include "localize/dataflow.h"

namespace ttrace::localize {

// How many times the error of a tensor may be that of what it was directly computed from, both in
// units of what is allowed, before it is suspected of a bug of its own. An error that is carried
// grows as noise grows, and noise is what `allowed` measures: six real single bugs, 213 to 225
// downstream tensors each, reach 6.5.
inline constexpr double kMostCarried = 30;

// ‖C - R‖ / allowed of every node, finite; nothing where the comparison with the reference does not
// tell: tensors that are not compared, integers that differ, replays, replica conflicts, values
// that are not finite on one side.
using UsedShares = std::vector<std::optional<double>>;

struct SecondSuspect {
  std::size_t node = 0;
  double used = 0;
  double used_before = 1;              // the largest of its direct dependencies, at least 1
  std::optional<std::size_t> largest;  // which; nothing where none has an error
};

// Diverged nodes that are not `on_frontier`, whose used share is more than kMostCarried times that
// of everything they directly depend on. A dependency without a used share may explain anything, so
// what depends on it is no suspect; nor is what depends on nothing. A gradient that comes back
// through a module is held against that module's inputs and outputs, too. The loss is a mean, whose
// error says little of what it was made of: a gradient that is known to follow from it alone is
// held against what the loss was computed from, too, if that is the gradient's own value, and is no
// suspect else. In the order of the data flow.
std::vector<SecondSuspect> second_suspects(const std::vector<Node>& nodes, const Dataflow& flow,
                                           const std::vector<judge::Outcome>& outcomes,
                                           const UsedShares& used,
                                           const std::vector<bool>& on_frontier);

}  // namespace ttrace::localize
