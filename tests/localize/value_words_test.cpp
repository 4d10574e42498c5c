#include "engine/compare_traces.h"
#include "localize/describe_difference.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize {
namespace {

using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

std::string values_told(const MemoryTrace& reference, const MemoryTrace& candidate) {
  const comparison::CompareReport report = engine::compare_traces(reference, candidate, {}, {});
  REQUIRE(report.findings.size() == 1);
  return report.findings[0].values;
}

MemoryTrace with_loss(double value, trace::Mesh mesh = {}) {
  MemoryTrace trace(std::move(mesh));
  trace.put(make_entry("loss", {}, Kind::kLoss), {value});
  return trace;
}

TEST_CASE("a number's finding has both values") {
  CHECK(values_told(with_loss(2.5), with_loss(2.25)) == "reference 2.5, candidate 2.25");
}

TEST_CASE("where replicas differ, every class of ranks has its value") {
  MemoryTrace candidate = with_loss(2.5, test::make_mesh({{"dp", 2}, {"tp", 2}}));
  const trace::TensorEntry entry = make_entry("loss", {}, Kind::kLoss);
  candidate.put_shard(entry, 2, {2});
  candidate.put_shard(entry, 3, {2});
  CHECK(values_told(with_loss(2.5), candidate) ==
        "reference 2.5, candidate 2.5 on ranks {0, 1}, 2 on ranks {2, 3}");
}

TEST_CASE("integers are told in full") {
  MemoryTrace reference;
  MemoryTrace candidate;
  const trace::TensorEntry entry = make_entry("count", {}, Kind::kScalar, tensor::DType::kInt64);
  reference.put(entry, {1048576});
  candidate.put(entry, {1048577});
  CHECK(values_told(reference, candidate) == "reference 1048576, candidate 1048577");
}

TEST_CASE("a tensor of more elements has none") {
  MemoryTrace reference;
  MemoryTrace candidate;
  reference.put(make_entry("a", {2}), {1, 2});
  candidate.put(make_entry("a", {2}), {1, 3});
  CHECK(values_told(reference, candidate).empty());
}

}  // namespace
}  // namespace ttrace::localize
