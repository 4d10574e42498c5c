// A tensor dealt out to random ranks and merged is the tensor.
#include "base/error.h"
#include "engine/merge_trace.h"
#include "property/dealt_tensor.h"
#include "support/memory_sink.h"

namespace ttrace::engine::split_merge_property_test {
namespace {

using base::concat;
using test::DealtTensor;
using test::Doubles;
using test::MemorySink;
using test::MemoryTrace;
using test::Random;

Doubles merged_values(const MemorySink& sink, const trace::TensorEntry& entry) {
  const std::vector<std::byte>& bits = sink.bits(dataset_path(entry.key));
  Doubles values(bits.size() / sizeof(double));
  std::copy(bits.begin(), bits.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

std::string merging_problem(const MemoryTrace& trace, const DealtTensor& dealt) {
  const trace::TensorEntry& entry = dealt.tensor.entry;
  MemorySink sink;
  const MergeResult result = merge_trace(trace, {}, sink);
  for (const std::string& reason : result.left_out) return reason;
  for (const std::string& warning : result.warnings) return warning;
  const auto& merged = sink.trace().manifest().tensors;
  // The index is layout: the whole tensor has no use for it.
  if (merged.size() != 1) return concat(merged.size(), " tensors merged");
  if (merged[0].shape != entry.shape || !merged[0].placements.empty()) return "another entry";
  const std::uint64_t written = sink.written(dataset_path(entry.key));
  if (written != dealt.expected.size()) return concat(written, " elements written");
  if (dealt.partial) {
    return test::close(merged_values(sink, entry), dealt.expected) ? "" : "other values";
  }
  const bool same = sink.bits(dataset_path(entry.key)) == test::encode(entry.dtype, dealt.expected);
  return same ? "" : "other bits";
}

TEST_CASE("a tensor dealt to random ranks and merged is the tensor again") {
  test::for_seeds(4000, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    MemoryTrace trace(mesh);
    const auto dtype = random.chance(0.2) ? tensor::DType::kInt64 : tensor::DType::kFloat64;
    const DealtTensor dealt = test::deal_into(
        trace, random, test::random_tensor(random, mesh, test::random_shape(random), "w", dtype));
    std::string problem;
    try {
      problem = merging_problem(trace, dealt);
    } catch (const base::Error& error) {
      problem = error.what();
    }
    test::check_case(problem, mesh, dealt.tensor);
  });
}

}  // namespace
}  // namespace ttrace::engine::split_merge_property_test
