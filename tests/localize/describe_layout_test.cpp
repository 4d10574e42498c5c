#include "localize/describe_layout.h"

#include <cmath>

#include "localize/explain.h"
#include "measure/cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::describe_layout_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

using Ranks = std::vector<std::uint64_t>;

// A candidate of eight ones over tp 4, cut or copied, held against a reference of ones.
class Scene {
 public:
  explicit Scene(trace::Placement placement)
      : candidate_(make_mesh({{"tp", 4}})), entry_(make_entry("a", {8})) {
    reference_.put(entry_, std::vector<double>(8, 1.0));
    entry_.placements["tp"] = std::move(placement);
    candidate_.put(entry_, std::vector<double>(8, 1.0));
  }
  void hold(std::uint64_t rank, const std::vector<double>& values) {
    candidate_.put_shard(entry_, rank, values);
  }
  comparison::TensorComparison result() const {
    comparison::TensorComparison made;
    made.outcome = judge::Outcome::kDiverged;
    made.comparison.emplace();
    made.comparison->measurement = measure::measure(
        measure::cpu_backend(), {&reference_, &reference_.manifest().tensors[0]}, ref(), {});
    if (made.comparison->measurement.replicas_differ) {
      made.outcome = judge::Outcome::kReplicaConflict;
    }
    return made;
  }
  std::string where() const { return describe_where(ref(), result()); }
  Ranks ranks() const { return ranks_with_error(result()); }

 private:
  measure::TensorRef ref() const { return {&candidate_, &candidate_.manifest().tensors[0]}; }

  MemoryTrace reference_;
  MemoryTrace candidate_;
  trace::TensorEntry entry_;
};

std::string merged(tensor::Shape shape, std::map<std::string, trace::Placement> placements) {
  const MemoryTrace trace(make_mesh({{"pp", 1}, {"dp", 2}, {"tp", 3}}));
  trace::TensorEntry entry = make_entry("a", std::move(shape));
  entry.placements = std::move(placements);
  return describe_merging(trace, entry);
}

TEST_CASE("a layout in words names every axis that has more than one coordinate") {
  CHECK(merged({4}, {}) == "6 × [4] -> [4], replicas over dp, replicas over tp");
  CHECK(merged({6, 2}, {{"tp", trace::Shard{0, std::nullopt}}, {"dp", trace::Only{1}}}) ==
        "3 × [2, 2] -> [6, 2], only on dp 1, dimension 0 cut over tp");
  CHECK(merged({4}, {{"dp", trace::Partial{trace::Reduction::kMean}}, {"tp", trace::Only{0}}}) ==
        "2 × [4] -> [4], partial mean over dp, only on tp 0");
  CHECK(merged({7}, {{"dp", trace::Only{0}}, {"tp", trace::Shard{0, {{4, 1, 2}}}}}) ==
        "3 × [4] down to [1] -> [7], only on dp 0, dimension 0 cut over tp");
}

TEST_CASE("a shard that holds all of the error stands out") {
  Scene scene(trace::Shard{0, std::nullopt});
  scene.hold(2, {1, 3});
  CHECK(
      scene.where() ==
      "100 % of the squared error on rank 2 ([4:6]); 1 of 4 shards differ, 1 of 8 elements differ");
  CHECK(scene.ranks() == Ranks{2});
}

TEST_CASE("ranks with less than their share of the error are not blamed") {
  Scene scene(trace::Shard{0, std::nullopt});
  scene.hold(0, {1, 1.001});
  scene.hold(2, {1, 3});
  CHECK(scene.ranks() == Ranks{2});
}

TEST_CASE("a smaller error than its neighbour's is an error too, unless rounding makes as much") {
  Scene scene(trace::Shard{0, std::nullopt});
  scene.hold(0, {1, 1.5});
  scene.hold(2, {1, 3});
  comparison::TensorComparison result = scene.result();
  CHECK(ranks_with_error(result) == Ranks{0, 2});
  result.comparison->tolerance.floor_norm = 0.4;  // of eight elements, 0.2 of two: they have 0.5
  CHECK(ranks_with_error(result) == Ranks{0, 2});
  result.comparison->tolerance.floor_norm = 0.6;
  CHECK(ranks_with_error(result) == Ranks{2});
}

TEST_CASE("an error that is everywhere stands out nowhere") {
  Scene scene(trace::Shard{0, std::nullopt});
  for (std::uint64_t rank = 0; rank < 4; ++rank) scene.hold(rank, {2, 2});
  CHECK(scene.where() ==
        "25 % of the squared error on rank 0 ([0:2]), 25 % on rank 1 ([2:4]), 25 % on rank 2 "
        "([4:6]), 25 % on rank 3 ([6:8]); 4 of 4 shards differ, 8 of 8 elements differ");
  CHECK(scene.ranks() == Ranks{0, 1, 2, 3});
}

TEST_CASE("of two shards each one's share is told") {
  MemoryTrace reference;
  MemoryTrace candidate(make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = make_entry("a", {4});
  reference.put(entry, {1, 1, 1, 1});
  entry.placements["tp"] = trace::Shard{0, std::nullopt};
  candidate.put(entry, {1, 1, 1, 1});
  candidate.put_shard(entry, 0, {1, 1.5});
  candidate.put_shard(entry, 1, {2, 2});
  comparison::TensorComparison result;
  result.outcome = judge::Outcome::kDiverged;
  const measure::TensorRef ref{&candidate, &candidate.manifest().tensors[0]};
  result.comparison.emplace();
  result.comparison->measurement = measure::measure(
      measure::cpu_backend(), {&reference, &reference.manifest().tensors[0]}, ref, {});
  CHECK(describe_where(ref, result) ==
        "88.9 % of the squared error on rank 1 ([2:4]), 11.1 % on rank 0 ([0:2]); 2 of 2 shards "
        "differ, 3 of 4 elements differ");
}

TEST_CASE("of many shards that differ alike the largest share is told") {
  MemoryTrace reference;
  MemoryTrace candidate(make_mesh({{"tp", 8}}));
  trace::TensorEntry entry = make_entry("a", {8});
  reference.put(entry, std::vector<double>(8, 1.0));
  entry.placements["tp"] = trace::Shard{0, std::nullopt};
  candidate.put(entry, std::vector<double>(8, 2.0));
  comparison::TensorComparison result;
  const measure::TensorRef ref{&candidate, &candidate.manifest().tensors[0]};
  result.comparison.emplace();
  result.comparison->measurement = measure::measure(
      measure::cpu_backend(), {&reference, &reference.manifest().tensors[0]}, ref, {});
  CHECK(
      describe_where(ref, result) ==
      "spread evenly: no shard has more than 12.5 % of the squared error; 8 of 8 shards differ, 8 "
      "of 8 elements differ");
}

TEST_CASE("non-finite values are counted on both sides, with the first place") {
  Scene scene(trace::Shard{0, std::nullopt});
  scene.hold(3, {1, std::nan("")});
  CHECK(scene.where() ==
        "1 NaN or Inf in the candidate, 0 in the reference, 1 of them not the same, first at [7]; "
        "1 of 2 elements of 1 of 4 shards, rank 3");
  CHECK(scene.ranks() == Ranks{3});
}

TEST_CASE("copies that disagree are told by their coordinates, and all are to be looked at") {
  Scene scene(trace::Replicate{});
  scene.hold(3, std::vector<double>(8, 5.0));
  CHECK(scene.where() == "tp 0, 1 and 2 and tp 3 hold different values, and should be replicas");
  CHECK(scene.ranks() == Ranks{0, 1, 2, 3});
}

}  // namespace
}  // namespace ttrace::localize::describe_layout_test
