#include "engine/doctor/examine.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/doctor/check.h"
#include "engine/doctor/manifest_checks.h"
#include "engine/doctor/value_checks.h"

namespace ttrace::engine {
namespace {

using namespace doctor;

enum class Looks { kAtFiles, kAtManifests, kAtValues };

struct NamedCheck {
  const char* name;
  Check check;
  Looks looks = Looks::kAtManifests;
};

constexpr NamedCheck kChecks[]{
    {"sides", check_sides},
    {"layouts", check_layouts},
    {"ranks", check_ranks, Looks::kAtFiles},
    {"stale files", check_stale_files, Looks::kAtFiles},
    {"steps", check_steps},
    {"micro-batches", check_microbatches},
    {"names", check_names},
    {"weights", check_weights, Looks::kAtValues},
    {"data", check_data, Looks::kAtValues},
    {"dropout", check_dropout, Looks::kAtValues},
    {"optimizer", check_optimizer, Looks::kAtValues},
    {"precision", check_precision},
    {"kinds", check_kinds},
    {"labels", check_labels},
    {"plans", check_plans},
    {"noise runs", check_noise},
};

void add(const NamedCheck& one, const Runs& runs, std::vector<Diagnosis>& all) {
  try {
    if (std::optional<Found> found = one.check(runs)) {
      all.push_back({one.name, found->health, std::move(found->text)});
    }
  } catch (const base::InputError& error) {
    all.push_back({one.name, Health::kWrong, error.what()});
  }
}

}  // namespace

std::vector<Diagnosis> examine(const trace::Source& reference, const trace::Source& candidate,
                               const std::vector<const trace::Source*>& noise,
                               const DoctorOptions& options) {
  Runs runs{reference, candidate, noise, options, std::nullopt, ""};
  compare_start(runs);
  std::vector<Diagnosis> all;
  for (const NamedCheck& one : kChecks) add(one, runs, all);
  return all;
}

std::vector<Diagnosis> obstacles(const trace::Source& reference, const trace::Source& candidate,
                                 std::vector<std::string> strays, bool of_files_alone) {
  const DoctorOptions options{{}, std::move(strays)};
  const std::vector<const trace::Source*> no_noise;
  const Runs runs{reference, candidate, no_noise, options, std::nullopt, ""};
  std::vector<Diagnosis> all;
  for (const NamedCheck& one : kChecks) {
    const bool asked =
        one.looks == Looks::kAtFiles || (one.looks == Looks::kAtManifests && !of_files_alone);
    if (asked) add(one, runs, all);
  }
  std::erase_if(all, [](const Diagnosis& one) { return one.health != Health::kWrong; });
  return all;
}

}  // namespace ttrace::engine
