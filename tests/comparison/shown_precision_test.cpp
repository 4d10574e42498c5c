#include "comparison/shown_precision.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::shown_precision_test {
namespace {

using tensor::DType;

trace::Manifest manifest_of(const std::vector<DType>& stored, const std::string& precision = "") {
  trace::Manifest manifest;
  manifest.run.precision = precision;
  for (const DType dtype : stored) {
    manifest.tensors.push_back(test::make_entry("a", {2}));
    manifest.tensors.back().dtype = dtype;
  }
  return manifest;
}

TEST_CASE("a run shows the coarsest type that it stores, integers aside") {
  CHECK_FALSE(coarsest_shown(manifest_of({})));
  CHECK_FALSE(coarsest_shown(manifest_of({DType::kInt64, DType::kBool})));
  CHECK(coarsest_shown(manifest_of({DType::kFloat64, DType::kFloat32, DType::kInt8})) ==
        DType::kFloat32);
  CHECK(coarsest_shown(manifest_of({DType::kBFloat16, DType::kFloat32})) == DType::kBFloat16);
}

TEST_CASE("a run shows the type that its precision names") {
  const auto named = [](const std::string& precision) {
    return coarsest_shown(manifest_of({DType::kFloat32}, precision));
  };
  CHECK(named("bf16") == DType::kBFloat16);
  CHECK(named("torch.bfloat16") == DType::kBFloat16);
  CHECK(named("FP16") == DType::kFloat16);
  CHECK(named("float16") == DType::kFloat16);
  CHECK(named("float8_e4m3fn") == DType::kFloat8E4M3);
  CHECK(named("fp32") == DType::kFloat32);
  CHECK(named("tf32") == DType::kTensorFloat32);
  CHECK(named("fp32, TF32") == DType::kTensorFloat32);
  CHECK(named(" fp32 ,\tbf16, ") == DType::kBFloat16);
  CHECK(named("") == DType::kFloat32);
  CHECK(coarsest_shown(manifest_of({DType::kFloat64}, "fp32")) == DType::kFloat32);
}

TEST_CASE("nothing is read from words that are no names of types") {
  for (const char* prose :
       {"the usual one", "not fp8", "no bf16", "fp32 instead of bf16", "FP16 mixed", "fp8 hybrid",
        "fp32 (bf16 was worse)", "bf16?", "half of it", "tf32off", "int8", "bool", ",", ",,"}) {
    INFO(prose);
    CHECK(coarsest_shown(manifest_of({DType::kFloat32}, prose)) == DType::kFloat32);
    CHECK_FALSE(names_fp8(prose));
  }
  CHECK(coarsest_shown(manifest_of({DType::kFloat32}, "mixed, bf16")) == DType::kBFloat16);
}

TEST_CASE("the precision names fp8, or does not") {
  CHECK(names_fp8("fp8"));
  CHECK(names_fp8("bf16, FP8"));
  CHECK(names_fp8("float8_e5m2"));
  CHECK_FALSE(names_fp8("bf16"));
  CHECK_FALSE(names_fp8(""));
}

TEST_CASE("a trusted run computes in the coarsest type that anything of it says") {
  trace::Manifest manifest = manifest_of({DType::kFloat32, DType::kFloat32}, "fp32");
  CHECK(coarsest_computed(manifest) == DType::kFloat32);
  manifest.run.products.convolution = DType::kTensorFloat32;
  CHECK(coarsest_computed(manifest) == DType::kTensorFloat32);
  manifest.tensors[1].computed_in = DType::kBFloat16;
  CHECK(coarsest_computed(manifest) == DType::kBFloat16);
}

// One pair, stored as `stored` on both sides, of a candidate that says it computed in `claimed`.
Pair pair_of(DType stored, std::optional<DType> claimed) {
  static std::vector<std::unique_ptr<trace::TensorEntry>> entries;
  entries.push_back(std::make_unique<trace::TensorEntry>(test::make_entry("a", {2})));
  entries.back()->dtype = stored;
  Pair pair;
  pair.key = entries.back()->key;
  pair.reference = layout::view_of(*entries.back());
  entries.push_back(std::make_unique<trace::TensorEntry>(*entries.back()));
  entries.back()->computed_in = claimed;
  pair.candidate = layout::view_of(*entries.back());
  return pair;
}

TEST_CASE("what a candidate says that it computed in counts up to what its run shows") {
  const trace::Manifest single = manifest_of({DType::kFloat32});
  std::vector<Pair> pairs{pair_of(DType::kFloat32, DType::kBFloat16),
                          pair_of(DType::kFloat64, DType::kBFloat16),
                          pair_of(DType::kFloat64, DType::kFloat32)};
  const std::vector<std::string> warnings = limit_computed_in(single, "run", pairs);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] ==
        "run: computed_in of 2 tensors (a · output · step 0: bfloat16) is coarser than anything "
        "that the run shows, so it counts as float32; name the type in run.precision "
        "(\"bf16\", \"fp32, tf32\") if the run computes in it");
  CHECK_FALSE(pairs[0].candidate->computed_in);
  CHECK_FALSE(layout::stored_in(*pairs[0].candidate).front()->computed_in);
  CHECK(pairs[1].candidate->computed_in == DType::kFloat32);
  CHECK(pairs[2].candidate->computed_in == DType::kFloat32);
}

TEST_CASE("what the run shows is believed") {
  for (const trace::Manifest& manifest :
       {manifest_of({DType::kFloat32, DType::kBFloat16}), manifest_of({DType::kFloat32}, "bf16")}) {
    std::vector<Pair> pairs{pair_of(DType::kFloat32, DType::kBFloat16)};
    CHECK(limit_computed_in(manifest, "run", pairs).empty());
    CHECK(pairs[0].candidate->computed_in == DType::kBFloat16);
  }
}

TEST_CASE("what both runs say is not limited, since it widens nothing") {
  std::vector<Pair> pairs{pair_of(DType::kFloat32, DType::kBFloat16)};
  pairs[0].reference = pairs[0].candidate;
  CHECK(limit_computed_in(manifest_of({DType::kFloat32}), "run", pairs).empty());
  CHECK(pairs[0].candidate->computed_in == DType::kBFloat16);
}

TensorComparison result_of(DType stored, std::optional<DType> claimed) {
  TensorComparison result;
  static_cast<Pair&>(result) = pair_of(stored, claimed);
  result.comparison.emplace();
  return result;
}

TEST_CASE("a tolerance is widened by what only the candidate says to be coarser") {
  CHECK(is_widened(result_of(DType::kFloat32, DType::kBFloat16)));
  CHECK_FALSE(is_widened(result_of(DType::kFloat32, std::nullopt)));
  CHECK_FALSE(is_widened(result_of(DType::kBFloat16, DType::kFloat32)));

  TensorComparison both = result_of(DType::kFloat32, DType::kBFloat16);
  both.reference = both.candidate;
  CHECK_FALSE(is_widened(both));
  TensorComparison exact = result_of(DType::kFloat32, DType::kBFloat16);
  exact.exact = true;
  CHECK_FALSE(is_widened(exact));
  TensorComparison unmeasured = result_of(DType::kFloat32, DType::kBFloat16);
  unmeasured.comparison.reset();
  CHECK_FALSE(is_widened(unmeasured));
}

}  // namespace
}  // namespace ttrace::comparison::shown_precision_test
