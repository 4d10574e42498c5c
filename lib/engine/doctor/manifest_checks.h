// The checks of `ttrace doctor` by the manifests alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/doctor/check.h"

namespace ttrace::engine::doctor {

std::optional<Found> check_sides(const Runs& runs);
std::optional<Found> check_layouts(const Runs& runs);
std::optional<Found> check_ranks(const Runs& runs);
std::optional<Found> check_stale_files(const Runs& runs);
std::optional<Found> check_steps(const Runs& runs);
std::optional<Found> check_microbatches(const Runs& runs);
// Finds fault only if no parameter (without any, no output) of one run has a name of the other's.
std::optional<Found> check_names(const Runs& runs);
std::optional<Found> check_kinds(const Runs& runs);
std::optional<Found> check_labels(const Runs& runs);
std::optional<Found> check_precision(const Runs& runs);
std::optional<Found> check_plans(const Runs& runs);
std::optional<Found> check_noise(const Runs& runs);

// The steps that both runs have, ascending.
std::vector<std::uint64_t> common_steps(const Runs& runs);

}  // namespace ttrace::engine::doctor
