#include "localize/describe_difference.h"

#include "engine/compare_traces.h"
#include "localize/explain.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::describe_difference_test {
namespace {

using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

std::string words(tensor::Shape shape, const std::vector<std::size_t>& wrong) {
  const auto entry = make_entry("a", std::move(shape));
  std::vector<double> values(*tensor::element_count(entry.shape), 1.0);
  MemoryTrace reference;
  MemoryTrace candidate;
  reference.put(entry, values);
  for (const std::size_t i : wrong) values[i] += 1;
  candidate.put(entry, values);
  return rows_with_error({&reference, &reference.manifest().tensors[0]},
                         {&candidate, &candidate.manifest().tensors[0]});
}

TEST_CASE("rows and columns that hold the error are named") {
  CHECK(words({8, 4}, {12, 13, 14, 15}) == "100 % of the squared error in row 3 of 8");
  CHECK(words({8, 4}, {2, 6, 10, 14, 18}) == "100 % of the squared error in column 2 of 4");
  CHECK(words({8, 8}, {16, 24}) ==
        "100 % of the squared error in rows 2 to 3 of 8; 100 % of the squared error in column 0 of "
        "8");
}

TEST_CASE("of more or fewer dimensions the indices are named with theirs") {
  CHECK(words({16}, {3, 4, 9}) ==
        "100 % of the squared error in indices 3 to 4, 9 of 16 along dimension 0");
  CHECK(words({2, 8, 2}, {4, 5, 20}) ==
        "100 % of the squared error in index 2 of 8 along dimension 1");
}

TEST_CASE("many places are counted") {
  CHECK(words({64}, {1, 5, 9, 13, 20}) ==
        "100 % of the squared error in indices 1, 5, 9 and 2 more places of 64 along dimension 0");
}

TEST_CASE("an error that is everywhere, nowhere, or among few indices stands out nowhere") {
  CHECK(words({4}, {0, 1, 2, 3}).empty());
  CHECK(words({8}, {}).empty());
  CHECK(words({3, 2}, {1}).empty());
  CHECK(words({}, {0}).empty());
  CHECK(words({0, 8}, {}).empty());
}

TEST_CASE("most of the error is enough") {
  const auto entry = make_entry("a", {8, 2});
  std::vector<double> values(16, 1.0);
  MemoryTrace reference;
  MemoryTrace candidate;
  reference.put(entry, values);
  for (double& value : values) value += 0.01;
  values[4] += 1;
  candidate.put(entry, values);
  CHECK(rows_with_error({&reference, &reference.manifest().tensors[0]},
                        {&candidate, &candidate.manifest().tensors[0]}) ==
        "99.9 % of the squared error in row 2 of 8");
}

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
}  // namespace ttrace::localize::describe_difference_test
