#include "measure/fault.h"

#include <cmath>
#include <numeric>

#include "measure/cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::fault_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

const tensor::Shape kShape{6, 4};

std::vector<double> counted() {
  std::vector<double> values(24);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

// Two shards along dimension 0, each on two ranks.
struct Cut {
  MemoryTrace trace{make_mesh({{"dp", 2}, {"tp", 2}})};
  trace::TensorEntry entry = make_entry("a", kShape);

  Cut() {
    entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
    trace.put(entry, counted());
  }
  TensorRef tensor() const { return {&trace, &entry}; }
};

std::vector<double> read_all(const TensorRef& tensor, const tensor::Box& box) {
  std::vector<double> values(tensor::volume(box));
  tensor.open(Replicas::kFirstOnly)->read(box, values);
  return values;
}

std::vector<double> with(const Fault& fault, std::uint64_t& changed) {
  const Cut cut;
  return read_all(with_fault(cut.tensor(), fault, changed), tensor::whole(kShape));
}

TEST_CASE("a scaled part is scaled and nothing else", "[selftest]") {
  Fault fault;
  fault.factor = 3;
  fault.scaled = tensor::Box{{1, 1}, {2, 2}};
  std::uint64_t changed = 0;
  std::vector<double> expected = counted();
  for (const std::size_t i : {5, 6, 9, 10}) expected[i] *= 3;
  CHECK(with(fault, changed) == expected);
  CHECK(changed == 4);
}

TEST_CASE("a factor that the stored type cannot show changes nothing", "[selftest]") {
  Fault fault;
  fault.factor = 1 + 1e-9;
  fault.stored_as = tensor::DType::kFloat32;
  std::uint64_t changed = 0;
  CHECK(with(fault, changed) == counted());
  CHECK(changed == 0);
  fault.stored_as.reset();
  CHECK(with(fault, changed) != counted());
  CHECK(changed == 24);
}

TEST_CASE("rows are zeroed, and values rounded", "[selftest]") {
  Fault fault;
  fault.zeroed = {tensor::Box{{2, 0}, {1, 4}}};
  std::uint64_t changed = 0;
  const std::vector<double> values = with(fault, changed);
  CHECK(changed == 4);
  CHECK(std::accumulate(values.begin(), values.end(), 0.0) == 300 - (9 + 10 + 11 + 12));

  std::vector<double> fine{1 + 0x1p-20, 2};
  Fault rounding;
  rounding.rounded_to = tensor::DType::kBFloat16;
  apply_in_place(rounding, {{0}, {2}}, fine);
  CHECK(fine == std::vector<double>{1, 2});
}

TEST_CASE("two boxes swap, by whatever boxes they are read, from files and from memory",
          "[selftest]") {
  const Cut cut;
  for (const TensorRef& tensor :
       {cut.tensor(), keep_in_memory(cut.tensor(), Replicas::all(cpu_backend()), false)}) {
    Fault fault;
    fault.moves = {{{{0, 0}, {3, 4}}, {3, 0}}, {{{3, 0}, {3, 4}}, {0, 0}}};
    fault.source = tensor;
    std::uint64_t changed = 0;
    const TensorRef faulty = with_fault(tensor, fault, changed);
    const std::vector<double> whole = read_all(faulty, tensor::whole(kShape));
    std::vector<double> expected = counted();
    std::rotate(expected.begin(), expected.begin() + 12, expected.end());
    CHECK(whole == expected);
    CHECK(read_all(faulty, {{2, 1}, {2, 2}}) ==
          std::vector<double>{expected[9], expected[10], expected[13], expected[14]});
  }
}

TEST_CASE("a measurement of a held tensor is that of the stored one", "[selftest]") {
  Cut cut;
  std::vector<double> other = counted();
  other[3] += 0.5;
  cut.trace.put_shard(cut.entry, 2, {other.begin(), other.begin() + 12});
  const MemoryTrace plain = [] {
    MemoryTrace made;
    made.put(make_entry("a", kShape), counted());
    return made;
  }();
  const trace::TensorEntry entry = plain.manifest().tensors[0];
  const TensorRef reference{&plain, &entry};
  const Measurement stored = measure(cpu_backend(), reference, cut.tensor(), nullptr);
  const TensorRef held = keep_in_memory(cut.tensor(), Replicas::all(cpu_backend()), false);
  // Measured twice: what was held is not used up.
  for (int i = 0; i < 2; ++i) {
    const Measurement again = measure(
        cpu_backend(), keep_in_memory(reference, Replicas::kFirstOnly, false), held, nullptr);
    CHECK(again.total.sum_d2 == stored.total.sum_d2);
    CHECK(again.total.sum_c2 == stored.total.sum_c2);
    CHECK(again.blocks.size() == stored.blocks.size());
    CHECK(again.replicas_differ);
    CHECK(again.replicas->distance_norm == stored.replicas->distance_norm);
    CHECK(again.replicas->classes == stored.replicas->classes);
  }
}

TEST_CASE("a fault does not touch the replica check", "[selftest]") {
  const Cut cut;
  Fault fault;
  fault.factor = 2;
  std::uint64_t changed = 0;
  const Measurement measured =
      measure(cpu_backend(), cut.tensor(), with_fault(cut.tensor(), fault, changed), nullptr);
  CHECK(measured.has_replicas);
  CHECK_FALSE(measured.replicas_differ);
  CHECK(measured.total.sum_d2 == measured.total.sum_r2);
}

TEST_CASE("integers are moved and zeroed exactly", "[selftest]") {
  MemoryTrace trace;
  const trace::TensorEntry entry = make_entry("a", {4}, trace::Kind::kInput, tensor::DType::kInt64);
  trace.put(entry, {1, 2, 3, 4});
  const TensorRef tensor = keep_in_memory({&trace, &entry}, Replicas::all(cpu_backend()), true);
  Fault fault;
  fault.moves = {{{{0}, {1}}, {3}}};
  fault.source = tensor;
  fault.zeroed = {{{2}, {1}}};
  std::uint64_t changed = 0;
  std::vector<std::int64_t> values(4);
  with_fault(tensor, fault, changed)
      .open(Replicas::all(cpu_backend()))
      ->read_integers(tensor::whole({4}), values);
  CHECK(values == std::vector<std::int64_t>{4, 2, 0, 4});
  CHECK(changed == 2);
}

}  // namespace
}  // namespace ttrace::measure::fault_test
