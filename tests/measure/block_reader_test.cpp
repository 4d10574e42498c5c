#include "measure/block_reader.h"

#include <cmath>
#include <limits>

#include "base/refusal.h"
#include "measure/cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::block_reader_test {
namespace {

using tensor::DType;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using trace::Partial;
using trace::Reduction;
using Doubles = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A trace over one axis "tp" whose ranks hold `shards` of a tensor of one dimension.
struct OneAxis {
  OneAxis(trace::Placement placement, std::vector<Doubles> shards, double scale = 1,
          DType dtype = DType::kFloat64)
      : source(make_mesh({{"tp", shards.size()}})),
        entry(make_entry("w", {shards[0].size()}, trace::Kind::kOutput, dtype)) {
    entry.placements = {{"tp", placement}};
    entry.scale = scale;
    source.edit().tensors.push_back(entry);
    for (std::uint64_t rank = 0; rank < shards.size(); ++rank) {
      source.put_shard(entry, rank, shards[rank]);
    }
    plan = layout::plan_layout(entry, source.manifest().meshes.at(""));
  }

  BlockReader reader(Replicas replicas = Replicas::all(cpu_backend())) const {
    return {source, entry, plan.blocks.at(0), plan.combination, replicas};
  }
  Doubles values() const {
    Doubles out(entry.shape[0]);
    BlockReader made = reader();
    made.read(tensor::whole(entry.shape), out);
    return out;
  }

  MemoryTrace source;
  trace::TensorEntry entry;
  layout::Plan plan;
};

TEST_CASE("partial sums are added up") {
  CHECK(OneAxis(Partial{Reduction::kSum}, {{1, 2}, {10, 20}, {100, 200}}).values() ==
        Doubles{111, 222});
  // In binary64, whatever the stored type is.
  CHECK(OneAxis(Partial{Reduction::kSum}, {{16777216}, {1}}, 1, DType::kFloat32).values() ==
        Doubles{16777217});
}

TEST_CASE("partial means are the mean") {
  CHECK(OneAxis(Partial{Reduction::kMean}, {{1, 2}, {3, 6}}).values() == Doubles{2, 4});
  CHECK(OneAxis(Partial{Reduction::kMean}, {{1}, {3}, {0}, {8}}).values() == Doubles{3});
}

TEST_CASE("partial maxima are the largest and a NaN stays") {
  CHECK(OneAxis(Partial{Reduction::kMax}, {{1, -5}, {3, -6}, {2, -7}}).values() == Doubles{3, -5});
  for (const std::size_t nan_at : {0U, 1U, 2U}) {
    std::vector<Doubles> shards{{1, 1}, {3, 3}, {2, 2}};
    shards[nan_at][0] = kNan;
    CAPTURE(nan_at);
    const Doubles values = OneAxis(Partial{Reduction::kMax}, shards).values();
    CHECK(std::isnan(values[0]));
    CHECK(values[1] == 3);
  }
}

TEST_CASE("the scale applies to each stored value") {
  CHECK(OneAxis(trace::Replicate{}, {{1, 2}}, 0.25).values() == Doubles{0.25, 0.5});
  CHECK(OneAxis(Partial{Reduction::kSum}, {{1}, {2}}, 10).values() == Doubles{30});
  CHECK(OneAxis(Partial{Reduction::kMean}, {{1}, {2}}, 10).values() == Doubles{15});
  // Before the reduction: a negative scale turns the order round.
  CHECK(OneAxis(Partial{Reduction::kMax}, {{1}, {2}}, -1).values() == Doubles{-1});
}

TEST_CASE("a box of a block is read in coordinates of the ranks' arrays") {
  MemoryTrace source(make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = make_entry("w", {4, 3});
  entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
  source.put(entry, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32});
  const layout::Plan plan = layout::plan_layout(entry, source.manifest().meshes.at(""));
  BlockReader reader(source, entry, plan.blocks[1], plan.combination, Replicas::all(cpu_backend()));
  CHECK(reader.block().held.parts[0].global == tensor::Box{{2, 0}, {2, 3}});
  Doubles out(4);
  reader.read({{0, 1}, {2, 2}}, out);
  CHECK(out == Doubles{21, 22, 31, 32});
  CHECK(reader.bytes_read() == 16);
}

TEST_CASE("integers are read exactly") {
  const double large = 0x1p53;
  OneAxis made(trace::Replicate{}, {{large, -3}}, 1, DType::kInt64);
  std::vector<std::int64_t> out(2);
  BlockReader reader = made.reader();
  reader.read_integers(tensor::whole({2}), out);
  CHECK(out == std::vector<std::int64_t>{std::int64_t{1} << 53, -3});
}

TEST_CASE("stored bits are given as they are") {
  OneAxis made(trace::Replicate{}, {{1.5, -0.0}}, 0.5);
  BlockReader reader = made.reader();
  const auto bits = reader.read_bits(tensor::whole({2}));
  CHECK(std::vector<std::byte>(bits.begin(), bits.end()) ==
        test::encode(DType::kFloat64, {1.5, -0.0}));
}

TEST_CASE("replicas are held against the first where that is asked") {
  const OneAxis made(trace::Replicate{}, {{1, 2}, {1, 5}});
  Doubles out(2);
  BlockReader first = made.reader(Replicas::kFirstOnly);
  first.read(tensor::whole({2}), out);
  CHECK(first.replica_checks().at(0).replicas() == 1);
  CHECK(first.bytes_read() == 16);
  BlockReader all = made.reader(Replicas::all(cpu_backend()));
  all.read(tensor::whole({2}), out);
  CHECK(out == Doubles{1, 2});
  CHECK_FALSE(all.replica_checks().at(0).all_equal());
  CHECK(all.replica_checks().at(0).squared_distances() == Doubles{0, 9});
  CHECK(all.bytes_read() == 32);
}

TEST_CASE("the first replica is enough where only it is read") {
  OneAxis made(trace::Replicate{}, {{1}, {2}});
  made.source.lose_rank(1);
  CHECK_NOTHROW(made.reader(Replicas::kFirstOnly));
  test::check_refused([&] { made.reader(Replicas::all(cpu_backend())); }, {"rank lost"});
}

TEST_CASE("replicas of each term are checked on their own") {
  MemoryTrace source(make_mesh({{"tp", 2}, {"dp", 2}}));
  trace::TensorEntry entry = make_entry("w", {1}, trace::Kind::kOutput, DType::kFloat64);
  entry.placements = {{"tp", Partial{Reduction::kSum}}};
  const double stored[] = {1, 1, 10, 14};
  for (std::uint64_t rank = 0; rank < 4; ++rank) source.put_shard(entry, rank, {stored[rank]});
  const layout::Plan plan = layout::plan_layout(entry, source.manifest().meshes.at(""));
  BlockReader reader(source, entry, plan.blocks[0], plan.combination, Replicas::all(cpu_backend()));
  Doubles out(1);
  reader.read(tensor::whole({1}), out);
  CHECK(out == Doubles{11});
  REQUIRE(reader.replica_checks().size() == 2);
  CHECK(reader.replica_checks()[0].all_equal());
  CHECK(reader.replica_checks()[1].squared_distances() == Doubles{0, 16});
  CHECK(reader.replica_checks()[1].classes() == std::vector<std::vector<std::uint64_t>>{{2}, {3}});
}

using Classes = std::vector<std::vector<std::uint64_t>>;

std::vector<std::byte> bits(int value) { return {static_cast<std::byte>(value), std::byte{0}}; }

TEST_CASE("replicas that agree are one class") {
  ReplicaCheck check(std::vector<std::uint64_t>{4, 5, 6});
  check.add_equal(1);
  check.add_equal(2);
  check.finish_box();
  CHECK(check.all_equal());
  CHECK(check.replicas() == 3);
  CHECK(check.classes() == Classes{{4, 5, 6}});
  CHECK(check.squared_distances() == std::vector<double>{0, 0, 0});
}

TEST_CASE("nothing read yet is agreement") {
  const ReplicaCheck check(std::vector<std::uint64_t>{1, 2});
  CHECK(check.all_equal());
  CHECK(check.classes() == Classes{{1, 2}});
}

TEST_CASE("replicas that differ from the first may agree with each other") {
  ReplicaCheck check(std::vector<std::uint64_t>{0, 1, 2, 3, 4});
  check.add_different(1, 4, bits(1));
  check.add_equal(2);
  check.add_different(3, 4, bits(1));
  check.add_different(4, 9, bits(2));
  check.finish_box();
  CHECK_FALSE(check.all_equal());
  CHECK(check.classes() == Classes{{0, 2}, {1, 3}, {4}});
  CHECK(check.squared_distances() == std::vector<double>{0, 4, 0, 4, 9});
}

TEST_CASE("classes only split from box to box and distances add up") {
  ReplicaCheck check(std::vector<std::uint64_t>{0, 1, 2, 3});
  check.add_different(1, 1, bits(1));
  check.add_different(2, 1, bits(1));
  check.add_equal(3);
  check.finish_box();
  CHECK(check.classes() == Classes{{0, 3}, {1, 2}});
  check.add_equal(1);
  check.add_different(2, 2, bits(5));  // leaves 1, with which it agreed before
  check.add_equal(3);
  check.finish_box();
  CHECK(check.classes() == Classes{{0, 3}, {1}, {2}});
  check.add_equal(1);
  check.add_equal(2);
  check.add_different(3, 7, bits(5));
  check.finish_box();
  CHECK(check.classes() == Classes{{0}, {1}, {2}, {3}});
  CHECK(check.squared_distances() == std::vector<double>{0, 1, 3, 7});
}

TEST_CASE("replicas that agree in one box and not in another are different") {
  ReplicaCheck check(std::vector<std::uint64_t>{0, 1, 2});
  check.add_different(1, 1, bits(1));
  check.add_equal(2);
  check.finish_box();
  check.add_equal(1);
  check.add_different(2, 1, bits(1));  // the same bits as rank 1 had, in another box
  check.finish_box();
  CHECK(check.classes() == Classes{{0}, {1}, {2}});
}

TEST_CASE("other bits of the same numbers are no difference") {
  ReplicaCheck check(std::vector<std::uint64_t>{0, 1});
  check.add_different(1, 0, bits(1));
  check.finish_box();
  CHECK(check.all_equal());
  CHECK(check.classes() == Classes{{0, 1}});
}

TEST_CASE("an infinite distance stays infinite") {
  ReplicaCheck check(std::vector<std::uint64_t>{0, 1});
  check.add_different(1, std::numeric_limits<double>::infinity(), bits(1));
  check.finish_box();
  check.add_different(1, 1, bits(1));
  check.finish_box();
  CHECK(check.squared_distances()[1] == std::numeric_limits<double>::infinity());
}

TEST_CASE("checks of two parts of one block are the check of both") {
  ReplicaCheck first(std::vector<std::uint64_t>{0, 1, 2, 3});
  first.add_different(1, 4, bits(1));
  first.add_equal(2);
  first.add_different(3, 4, bits(1));
  first.finish_box();
  ReplicaCheck second(std::vector<std::uint64_t>{0, 1, 2, 3});
  second.add_equal(1);
  second.add_different(2, 1, bits(1));
  second.add_equal(3);
  second.finish_box();
  ReplicaCheck both = first;
  both.merge(second);
  CHECK(both.classes() == Classes{{0}, {1, 3}, {2}});
  CHECK(both.squared_distances() == std::vector<double>{0, 4, 1, 4});
  both.merge(ReplicaCheck(std::vector<std::uint64_t>{0, 1, 2, 3}));
  CHECK(both.classes() == Classes{{0}, {1, 3}, {2}});
}

}  // namespace
}  // namespace ttrace::measure::block_reader_test
