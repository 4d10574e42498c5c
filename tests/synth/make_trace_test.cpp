#include "synth/make_trace.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "property/random_layout.h"
#include "support/catch.h"
#include "synth/fault.h"
#include "synth/made_trace.h"

namespace ttrace::synth::make_trace_test {
namespace {

using test::made;
using test::Random;
using test::values_of;

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

Request request_of(Recipe recipe) { return {std::move(recipe), {}, {}, {}, 1}; }

constexpr std::array kFloats{tensor::DType::kFloat64,    tensor::DType::kFloat32,
                             tensor::DType::kFloat16,    tensor::DType::kBFloat16,
                             tensor::DType::kFloat8E4M3, tensor::DType::kFloat8E5M2};

bool has_padding(const test::RandomTensor& tensor) {
  for (const auto& [axis, placement] : tensor.entry.placements) {
    const auto* rows = std::get_if<trace::Rows>(&placement);
    if (rows != nullptr) return tensor.numbers.size() != tensor.entry.shape[rows->dim];
  }
  return false;
}

// Twice the error of one rounding; FP8 counts errors in the epsilons of bf16.
double rounding_of(tensor::DType dtype) {
  if (dtype == tensor::DType::kFloat8E4M3) return 0x1p-3;
  if (dtype == tensor::DType::kFloat8E5M2) return 0x1p-2;
  return tensor::epsilon(dtype);
}

TEST_CASE("a tensor cut by any layout and put together is the whole one, to the bit") {
  test::for_seeds(1500, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    const tensor::DType dtype = kFloats[random.between(0, kFloats.size() - 1)];
    const test::RandomTensor tensor =
        test::random_tensor(random, mesh, test::random_shape(random), "w", dtype);
    if (has_padding(tensor)) return;  // which is not made
    Recipe recipe{"", random.bits(), {{"", mesh}}, {test::group_of(tensor.entry)}};
    if (tensor.index) recipe.groups.push_back(test::group_of(*tensor.index));
    Request request = request_of(recipe);
    if (random.chance(0.5)) request.noise = {random.unit() * 8, true, random.bits()};
    Request whole = request;
    whole.recipe = on_one_rank(recipe);
    bool equal = true;
    std::vector<double> together = values_of(made(request), "w", &equal);
    const std::vector<double> expected = values_of(made(whole), "w");
    // A mean is a sum times 1/n, which rounds where n is no power of 2.
    for (std::size_t i = 0; i < together.size(); ++i) {
      if (std::abs(together[i] - expected[i]) <= 1e-15 * std::abs(expected[i])) {
        together[i] = expected[i];
      }
    }
    test::check_case(
        !equal ? "copies differ" : (same_bits(together, expected) ? "" : "other values"), mesh,
        tensor);
  });
}

Recipe two_ranks(tensor::DType dtype, trace::Placement placement) {
  trace::TensorEntry entry = test::make_entry("w", {6, 50}, trace::Kind::kOutput, dtype);
  entry.placements.emplace("tp", std::move(placement));
  return {"", 1, {{"", test::make_mesh({{"tp", 2}})}}, {test::group_of(entry)}};
}

TEST_CASE("the seed and the key make the values, the threads do not") {
  Request request = request_of(two_ranks(tensor::DType::kFloat32, trace::Shard{1, {}}));
  request.recipe.groups[0].entry.shape = {700, 901};  // several pieces
  const std::vector<double> first = values_of(made(request), "w");
  request.threads = 3;
  CHECK(same_bits(values_of(made(request), "w"), first));
  request.recipe.seed = 2;
  CHECK(!same_bits(values_of(made(request), "w"), first));
  request.recipe.seed = 1;
  request.recipe.groups[0].entry.key.step = 1;
  CHECK(!same_bits(values_of(made(request), "w"), first));
}

TEST_CASE("noise moves values by at most half a rounding more than its size, and many of them") {
  for (const tensor::DType dtype : kFloats) {
    Request request = request_of(two_ranks(dtype, trace::Shard{1, {}}));
    const std::vector<double> clean = values_of(made(request), "w");
    request.noise = {3, true, 5};
    const std::vector<double> moved = values_of(made(request), "w");
    std::size_t different = 0;
    for (std::size_t i = 0; i < clean.size(); ++i) {
      const double allowed = 3 * tensor::epsilon(dtype) + rounding_of(dtype);
      different += clean[i] != moved[i] ? 1 : 0;
      if (std::abs(clean[i]) > 0x1p-5) {
        CHECK(std::abs(moved[i] - clean[i]) <= allowed * std::abs(clean[i]) * 1.01);
      }
    }
    CHECK(different > clean.size() / 20);
    request.noise = {3, true, 6};
    CHECK(!same_bits(values_of(made(request), "w"), moved));
  }
}

std::vector<double> with_fault(const Recipe& recipe, const std::string& fault) {
  Request request = request_of(recipe);
  request.faults.push_back(parse_fault(fault));
  bool equal = true;
  std::vector<double> values = values_of(made(request), "w", &equal);
  CHECK(equal);
  return values;
}

TEST_CASE("every fault is what it says") {
  const Recipe shards = two_ranks(tensor::DType::kFloat32, trace::Shard{1, {}});
  const std::vector<double> clean = values_of(made(request_of(shards)), "w");
  const auto differs_at = [&](const std::vector<double>& values) {
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!(values[i] == clean[i])) at.push_back(i);
    }
    return at;
  };
  const std::vector<double> scaled = with_fault(shards, "scaled=0.5@output/w");
  for (std::size_t i = 0; i < clean.size(); ++i) CHECK(scaled[i] == clean[i] / 2);
  const std::vector<double> swapped = with_fault(shards, "shards_swapped@w");
  for (std::size_t i = 0; i < clean.size(); ++i) {
    CHECK(swapped[i] == clean[i % 50 < 25 ? i + 25 : i - 25]);
  }
  const std::vector<double> zeroed = with_fault(shards, "row_zeroed=1@w");
  CHECK(differs_at(zeroed).size() == 50);
  CHECK(differs_at(zeroed).front() == 50);
  CHECK(differs_at(with_fault(shards, "row_zeroed@w")).front() == 150);
  CHECK(differs_at(with_fault(shards, "stale@w")).size() == 300);
  const std::vector<double> nan = with_fault(shards, "nan@w");
  CHECK(differs_at(nan) == std::vector<std::size_t>{3 * 50 + 25});
  CHECK(std::isnan(nan[175]));
  CHECK(differs_at(with_fault(shards, "rounded_to_bf16@w")).size() > 250);
  for (const auto& reduction : {trace::Reduction::kSum, trace::Reduction::kMean}) {
    const Recipe sum = two_ranks(tensor::DType::kFloat32, trace::Partial{reduction});
    CHECK(same_bits(values_of(made(request_of(sum)), "w"), clean));
    CHECK(differs_at(with_fault(sum, "part_dropped@w")).size() > 290);
  }
}

TEST_CASE("stale values are those of the step before, where there is one") {
  Recipe recipe = two_ranks(tensor::DType::kFloat32, trace::Replicate{});
  const std::vector<double> before = values_of(made(request_of(recipe)), "w");
  recipe.groups[0].entry.key.step = 1;
  CHECK(same_bits(with_fault(recipe, "stale@w"), before));
}

TEST_CASE("a missing key is in no file and in no manifest, a missing rank has no file") {
  Recipe recipe = two_ranks(tensor::DType::kFloat32, trace::Shard{0, {}});
  recipe.groups.push_back(recipe.groups[0]);
  recipe.groups[1].entry.key.name = "v";
  Request request = request_of(recipe);
  request.faults = {parse_fault("key_missing@w"), parse_fault("rank_missing=1")};
  std::vector<std::uint64_t> opened;
  test::MemoryTrace trace;
  const Made result = make_trace(request, [&](std::uint64_t rank) {
    opened.push_back(rank);
    return std::make_unique<test::RankSink>(trace, rank);
  });
  CHECK(opened == std::vector<std::uint64_t>{0});
  CHECK(result.tensors == 1);
  CHECK(result.bytes == 600);
  CHECK(manifest_of(request).tensors.size() == 1);
}

TEST_CASE("stages deal tensors out in order") {
  Group group = test::group_of(test::make_entry("layers.{i}", {2}));
  group.count = 5;
  group.stages = "pp";
  group.stage_count = 2;
  const Recipe recipe{"", 1, {{"", test::make_mesh({{"pp", 2}})}}, {group}};
  std::vector<std::uint64_t> stages;
  for (const trace::TensorEntry& entry : manifest_of(request_of(recipe)).tensors) {
    stages.push_back(entry.held_at.at("pp").at(0));
  }
  CHECK(stages == std::vector<std::uint64_t>{0, 0, 0, 1, 1});
  const test::MemoryTrace trace = made(request_of(recipe));
  CHECK_NOTHROW(values_of(trace, "layers.4"));
  CHECK_THROWS(trace.open(0, "/step_000000/output/layers.4"));
}

}  // namespace
}  // namespace ttrace::synth::make_trace_test
