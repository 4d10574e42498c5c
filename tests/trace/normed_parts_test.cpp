#include "trace/normed_parts.h"

#include "support/catch.h"

namespace ttrace::trace::normed_parts_test {
namespace {

OptimizerGroup group(std::uint64_t step, const std::string& norm,
                     const std::vector<std::string>& params, double limit) {
  OptimizerGroup made;
  made.step = step;
  made.clipped_by = norm;
  made.params = params;
  if (limit > 0) made.numbers["clip_norm"] = limit;
  return made;
}

// Two groups of the actor, one of the critic, and a parameter that is not clipped.
Manifest parts() {
  Manifest manifest;
  manifest.optimizer = {group(0, "actor", {"actor.weight"}, 0.5),
                        group(0, "actor", {"actor.bias"}, 0.5),
                        group(0, "critic", {"critic.weight"}, 2), group(0, "", {"scale"}, 0),
                        group(1, "", {"actor.weight", "critic.weight"}, 3)};
  return manifest;
}

TEST_CASE("a gradient norm is of the part that has its name, or of all gradients") {
  const NormedParts known(parts());
  CHECK(known.part_of(0, "actor") == "actor");
  CHECK(known.part_of(0, "grad_norm") == "");
  // Whose norm this is nobody says: the actor was not clipped in that step.
  CHECK(known.part_of(1, "actor") == std::nullopt);
  CHECK(known.counts(0, "actor", "actor.bias"));
  CHECK_FALSE(known.counts(0, "actor", "critic.weight"));
  CHECK_FALSE(known.counts(0, "actor", "scale"));
  CHECK(known.counts(0, "", "scale"));
  CHECK(known.counts(1, "", "critic.weight"));
}

TEST_CASE("each part has its limit") {
  const NormedParts known(parts());
  CHECK(known.part_with(0, "critic.weight") == "critic");
  CHECK(known.part_with(0, "scale").empty());
  CHECK(known.part_with(1, "critic.weight").empty());
  CHECK(known.limit(0, "actor") == 0.5);
  CHECK(known.limit(0, "critic") == 2.0);
  CHECK(known.limit(0, "") == std::nullopt);
  CHECK(known.limit(1, "") == 3.0);
}

}  // namespace
}  // namespace ttrace::trace::normed_parts_test
