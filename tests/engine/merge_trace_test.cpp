#include "engine/merge_trace.h"

#include <cmath>

#include "base/error.h"
#include "engine/compare_traces.h"
#include "engine/lint_trace.h"
#include "support/catch.h"
#include "support/memory_sink.h"

namespace ttrace::engine::merge_trace_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::MemorySink;
using test::MemoryTrace;

trace::TensorEntry placed(const std::string& name, tensor::Shape shape,
                          std::map<std::string, trace::Placement> placements,
                          trace::Kind kind = trace::Kind::kOutput) {
  trace::TensorEntry entry = make_entry(name, std::move(shape), kind);
  entry.placements = std::move(placements);
  return entry;
}

const std::vector<double> kSix{1, 2, 3, 4, 5, 6};
const trace::Mesh kTwo = make_mesh({{"tp", 2}});

const trace::TensorEntry& merged_entry(const MemorySink& sink) {
  REQUIRE(sink.trace().manifest().tensors.size() == 1);
  return sink.trace().manifest().tensors[0];
}

TEST_CASE("shards become one dataset, every element written once") {
  MemoryTrace source(kTwo, "run");
  source.put(placed("a", {2, 3}, {{"tp", trace::Shard{1, {{1, 2}}}}}), kSix);
  MemorySink sink;
  const MergeResult result = merge_trace(source, {}, sink);
  CHECK(sink.finished());
  CHECK(result.tensors == 1);
  CHECK(result.bytes == 24);
  CHECK(result.warnings.empty());
  const trace::TensorEntry& entry = merged_entry(sink);
  CHECK(entry.placements.empty());
  CHECK(entry.dtype == tensor::DType::kFloat32);
  const std::string path = dataset_path(entry.key);
  CHECK(sink.written(path) == 6);
  CHECK(sink.bits(path) == test::encode(tensor::DType::kFloat32, kSix));
}

TEST_CASE("partial sums become float64, with the former precision in computed_in") {
  MemoryTrace source(kTwo, "run");
  trace::TensorEntry entry = placed("a", {6}, {{"tp", trace::Partial{}}});
  entry.scale = 0.5;
  entry.held_at["tp"] = {0, 1};
  source.put(entry, kSix);
  source.put_shard(entry, 1, {0x1p-24, 1, 1, 1, 1, 1});
  MemorySink sink;
  CHECK(merge_trace(source, {}, sink).bytes == 48);
  const trace::TensorEntry& merged = merged_entry(sink);
  CHECK(merged.dtype == tensor::DType::kFloat64);
  CHECK(merged.scale == 1);
  CHECK(merged.computed_in == std::optional(tensor::DType::kFloat32));
  CHECK(merged.held_at.empty());
  // 1 + 2^-24 is no float32.
  CHECK(sink.bits(dataset_path(merged.key)) ==
        test::encode(tensor::DType::kFloat64, {0.5 + 0x1p-25, 1.5, 2, 2.5, 3, 3.5}));
}

TEST_CASE("a sum was computed in what its terms were computed in") {
  MemoryTrace source(kTwo, "run");
  trace::TensorEntry entry = placed("a", {6}, {{"tp", trace::Partial{}}});
  entry.computed_in = tensor::DType::kBFloat16;
  source.put(entry, kSix);
  MemorySink sink;
  merge_trace(source, {}, sink);
  CHECK(merged_entry(sink).computed_in == std::optional(tensor::DType::kBFloat16));
}

TEST_CASE("stored bits, scale and precision of what is not reduced are kept") {
  MemoryTrace source(kTwo, "run");
  trace::TensorEntry entry = placed("a", {3}, {});
  entry.dtype = tensor::DType::kBFloat16;
  entry.scale = 0.25;
  entry.computed_in = tensor::DType::kFloat32;
  entry.order = 7;
  source.edit().tensors = {entry};
  const std::vector<std::byte> bits{std::byte{0x80}, std::byte{0x3f}, std::byte{0xc1},
                                    std::byte{0x7f}, std::byte{0x01}, std::byte{0x00}};
  source.put_bits(entry.key, 0, entry.dtype, {3}, bits);
  source.put_bits(entry.key, 1, entry.dtype, {3}, bits);
  MemorySink sink;
  merge_trace(source, {}, sink);
  const trace::TensorEntry& merged = merged_entry(sink);
  CHECK(merged.dtype == tensor::DType::kBFloat16);
  CHECK(merged.scale == 0.25);
  CHECK(merged.computed_in == entry.computed_in);
  CHECK(merged.order == entry.order);
  CHECK(sink.bits(dataset_path(merged.key)) == bits);
}

TEST_CASE("of replicas that differ the first is written, and that is told") {
  MemoryTrace source(kTwo, "run");
  const trace::TensorEntry entry = placed("a", {6}, {});
  source.put(entry, kSix);
  source.put_shard(entry, 1, {1, 2, 3, 4, 5, 7});
  MemorySink sink;
  const MergeResult result = merge_trace(source, {}, sink);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0].find("run: a · output · step 0: copies that should be equal differ") ==
        0);
  CHECK(sink.bits(dataset_path(entry.key)) == test::encode(tensor::DType::kFloat32, kSix));
}

TEST_CASE("a tensor with a shard that cannot be read is left out, the others are merged") {
  MemoryTrace source(kTwo, "run");
  source.put(placed("a", {6}, {{"tp", trace::Shard{0, std::nullopt}}}), kSix);
  source.put(placed("b", {6}, {{"tp", trace::Only{0}}}), kSix);
  source.lose_rank(1);
  MemorySink sink;
  const MergeResult result = merge_trace(source, {}, sink);
  CHECK(result.tensors == 1);
  CHECK(result.left_out == std::vector<std::string>{"memory: rank lost"});
  CHECK(merged_entry(sink).key.name == "b");
}

TEST_CASE("only what is selected is merged, and a selection of nothing is refused") {
  MemoryTrace source(kTwo, "run");
  source.put(placed("a", {6}, {}), kSix);
  source.put(placed("b", {6}, {}), kSix);
  MemorySink sink;
  merge_trace(source, {{"b"}, {}, {}, {}}, sink);
  CHECK(merged_entry(sink).key.name == "b");
  MemorySink none;
  CHECK_THROWS_AS(merge_trace(source, {{"c"}, {}, {}, {}}, none), base::Error);
  CHECK_FALSE(none.finished());
}

TEST_CASE("the rest of the manifest is kept, and the mesh is that of one rank") {
  MemoryTrace source(kTwo, "run");
  source.edit().meshes["other"] = kTwo;
  source.edit().run.model = "tiny";
  source.edit().modules.resize(1);
  source.edit().modules[0].name = "a";
  source.edit().optimizer.resize(1);
  trace::TensorEntry entry = placed("a", {6}, {});
  entry.mesh = "other";
  source.put(entry, kSix);
  MemorySink sink;
  merge_trace(source, {}, sink);
  const trace::Manifest& manifest = sink.trace().manifest();
  CHECK(manifest.run.model == "tiny");
  CHECK(manifest.modules.size() == 1);
  CHECK(manifest.optimizer.size() == 1);
  CHECK(manifest.meshes.size() == 1);
  CHECK(manifest.meshes.at("").axes.empty());
  CHECK(merged_entry(sink).mesh.empty());
}

TEST_CASE("a merged trace is clean and matches its source without any error") {
  MemoryTrace source(make_mesh({{"dp", 2}, {"tp", 2}}), "run");
  std::uint64_t name = 0;
  for (const trace::Placement& dp :
       {trace::Placement{}, trace::Placement{trace::Shard{0, std::nullopt}},
        trace::Placement{trace::Partial{trace::Reduction::kMean}},
        trace::Placement{trace::Only{1}}}) {
    for (const trace::Placement& tp :
         {trace::Placement{}, trace::Placement{trace::Shard{0, {{5, 1}}}},
          trace::Placement{trace::Shard{1, std::nullopt}}, trace::Placement{trace::Partial{}}}) {
      const bool given = std::holds_alternative<trace::Shard>(dp) &&
                         std::holds_alternative<trace::Shard>(tp) &&
                         std::get<trace::Shard>(tp).sizes.has_value();
      if (given) continue;  // five and one of what dp left
      std::vector<double> values(18);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = std::sin(static_cast<double>(i + name));
      }
      source.put(placed(base::concat("t", name++), {6, 3}, {{"dp", dp}, {"tp", tp}}), values);
    }
  }
  source.put(placed("scalar", {}, {}), {3});
  source.put(placed("empty", {0, 3}, {{"tp", trace::Shard{1, std::nullopt}}}), {});
  trace::TensorEntry integers = placed("ids", {5}, {{"tp", trace::Shard{0, std::nullopt}}});
  integers.dtype = tensor::DType::kInt64;
  source.put(integers, {1, -2, 3, -4, 5});

  MemorySink sink;
  const MergeResult result = merge_trace(source, {}, sink);
  CHECK(result.tensors == source.manifest().tensors.size());
  CHECK(lint_trace(sink.trace(), {}).findings.empty());
  const auto report = compare_traces(sink.trace(), source, {}, {});
  CHECK(report.verdict == answer::Verdict::kRight);
  for (const comparison::TensorComparison& compared : report.results) {
    REQUIRE(compared.comparison.has_value());
    CHECK(compared.comparison->measurement.total.unequal == 0);
    CHECK(compared.comparison->measurement.total.sum_d2 == 0);
  }
}

}  // namespace
}  // namespace ttrace::engine::merge_trace_test
