#include "support/catch.h"
#include "support/memory_trace.h"
#include "trace/manifest.h"

namespace ttrace::trace::was_asked_for_test {
namespace {

Manifest told(std::vector<Kind> kinds, std::optional<std::vector<std::string>> modules = {}) {
  Manifest manifest;
  manifest.run.recorded = Recorded{std::move(kinds), std::move(modules), {0, 2}};
  return manifest;
}

bool asked(const Manifest& manifest, const std::string& name, Kind kind, std::uint64_t step = 0) {
  return was_asked_for(manifest, test::make_key(name, kind, step)).value();
}

TEST_CASE("a manifest that does not say what was recorded tells nothing") {
  CHECK(was_asked_for({}, test::make_key("a")) == std::nullopt);
}

TEST_CASE("kinds and steps that were not recorded are known") {
  const Manifest manifest = told({Kind::kOutput, Kind::kMainGrad});
  CHECK(asked(manifest, "a", Kind::kOutput));
  CHECK(asked(manifest, "a", Kind::kMainGrad, 2));
  CHECK_FALSE(asked(manifest, "a", Kind::kInput));
  CHECK_FALSE(asked(manifest, "a", Kind::kOutput, 1));
  CHECK(asked(manifest, "rows", Kind::kIndex));
}

TEST_CASE("a tensor belongs to the module that it is named after, or that owns the parameter") {
  const Manifest manifest =
      told({kAllKinds.begin(), kAllKinds.end()}, std::vector<std::string>{"layers.0*", "head"});
  CHECK(asked(manifest, "layers.0", Kind::kOutput));
  CHECK(asked(manifest, "layers.0.fc[mask]", Kind::kInput));
  CHECK_FALSE(asked(manifest, "layers.1.fc", Kind::kGradOutput));
  CHECK(asked(manifest, "head.weight", Kind::kParam));
  CHECK(asked(manifest, "head.weight", Kind::kMainGrad));
  CHECK(asked(manifest, "head.weight.exp_avg", Kind::kOptimizerState));
  CHECK_FALSE(asked(manifest, "embed.weight", Kind::kParamAfterStep));
  CHECK_FALSE(asked(manifest, "embed.weight.exp_avg", Kind::kOptimizerState));
  CHECK_FALSE(asked(manifest, "weight", Kind::kParam));  // of the model itself
  CHECK(asked(manifest, "loss", Kind::kLoss));
  CHECK(asked(manifest, "grad_norm", Kind::kGradNorm));
}

}  // namespace
}  // namespace ttrace::trace::was_asked_for_test
