#include "engine/doctor/examine.h"

#include "base/error.h"
#include "engine/doctor/check.h"
#include "engine/doctor/manifest_checks.h"
#include "engine/doctor/value_checks.h"

namespace ttrace::engine {
namespace {

using namespace doctor;

struct NamedCheck {
  const char* name;
  Check check;
};

constexpr NamedCheck kChecks[]{
    {"sides", check_sides},         {"layouts", check_layouts},
    {"ranks", check_ranks},         {"stale files", check_stale_files},
    {"steps", check_steps},         {"micro-batches", check_microbatches},
    {"weights", check_weights},     {"data", check_data},
    {"dropout", check_dropout},     {"optimizer", check_optimizer},
    {"precision", check_precision}, {"kinds", check_kinds},
    {"labels", check_labels},       {"plans", check_plans},
    {"noise runs", check_noise},
};

}  // namespace

std::vector<Diagnosis> examine(const trace::Source& reference, const trace::Source& candidate,
                               const std::vector<const trace::Source*>& noise,
                               const DoctorOptions& options) {
  Runs runs{reference, candidate, noise, options, std::nullopt, ""};
  compare_start(runs);
  std::vector<Diagnosis> all;
  for (const auto& [name, check] : kChecks) {
    try {
      if (std::optional<Found> found = check(runs)) {
        all.push_back({name, found->health, std::move(found->text)});
      }
    } catch (const base::InputError& error) {
      all.push_back({name, Health::kWrong, error.what()});
    }
  }
  return all;
}

}  // namespace ttrace::engine
