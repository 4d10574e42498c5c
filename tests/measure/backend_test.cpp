#include "measure/backend.h"

#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <string>

#include "comparison/accumulation_error.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/measure.h"
#include "measure/measure_update.h"
#include "measure/naive_backend.h"
#include "measure/noise.h"
#include "measure/same_stats.h"
#include "property/random.h"
#include "support/memory_trace.h"

namespace ttrace::measure::backend_test {
namespace {

using tensor::DType;
using test::check_same;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using test::NaiveBackend;
using Doubles = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
const tensor::Shape kShape{250, 300};  // read in two boxes; has tiles that end anywhere

Doubles random_values(std::uint32_t seed) {
  test::Random random(seed);
  return random.values(kShape[0] * kShape[1]);
}

Doubles near(const Doubles& values, std::uint32_t seed) {
  test::Random random(seed);
  Doubles moved = values;
  for (double& value : moved) value += 1e-3 * random.symmetric();
  return moved;
}

// A tensor in a trace of its own.
struct Made {
  explicit Made(const Doubles& values, DType dtype = DType::kFloat32,
                const std::map<std::string, trace::Placement>& placements = {},
                tensor::Shape shape = kShape)
      : source(make_mesh({{"tp", 3}, {"dp", 2}})),
        entry(make_entry("w", std::move(shape), trace::Kind::kOutput, dtype)) {
    entry.placements = placements;
    source.put(entry, values);
  }
  TensorRef ref() const { return {&source, &entry}; }

  MemoryTrace source;
  trace::TensorEntry entry;
};

void check_same(const Measurement& a, const Measurement& b) {
  check_same(a.total, b.total);
  REQUIRE(a.blocks.size() == b.blocks.size());
  for (std::size_t i = 0; i < a.blocks.size(); ++i)
    check_same(a.blocks[i].stats, b.blocks[i].stats);
  REQUIRE(a.cells.size() == b.cells.size());
  for (std::size_t i = 0; i < a.cells.size(); ++i) {
    CHECK(a.cells[i].d2 == b.cells[i].d2);
    CHECK(a.cells[i].a2 == b.cells[i].a2);
    CHECK(a.cells[i].along == b.cells[i].along);
  }
  CHECK(a.replicas_differ == b.replicas_differ);
  CHECK(a.replicas->distance_norm == b.replicas->distance_norm);
  CHECK(a.replicas->classes == b.replicas->classes);
}

TEST_CASE("pairs are measured by the backend that is given") {
  Doubles r = random_values(1);
  Doubles c = near(r, 2);
  r[70] = c[70] = kNan;
  c[20000] = kInf;
  c[70000] += 3;
  const Made sharded(c, DType::kFloat32, {{"tp", trace::Shard{1, std::nullopt}}});
  const Grid grid(kShape, {4, 2});
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Made reference(r, dtype);
    for (const Grid* cells : {static_cast<const Grid*>(nullptr), &grid}) {
      const NaiveBackend naive;
      check_same(measure(cpu_backend(), reference.ref(), sharded.ref(), cells),
                 measure(naive, reference.ref(), sharded.ref(), cells));
      CHECK(naive.counts.pairs == 3);  // one per shard
    }
  }
}

TEST_CASE("integers and rows that are left out go through the backend") {
  Doubles r = random_values(3);
  for (double& value : r) value = std::round(100 * value);
  Doubles c = r;
  c[7] += 2;
  c[65000] -= 5;
  LeftOutRows rows(kShape[0]);
  rows.add(0);
  for (const DType dtype : {DType::kInt64, DType::kFloat64}) {
    const NaiveBackend naive;
    const LeftOutRows* left_out = dtype == DType::kInt64 ? nullptr : &rows;
    const Made reference(r, dtype);
    const Made candidate(c, dtype);
    const Measurement measured =
        measure(naive, reference.ref(), candidate.ref(), nullptr, {left_out, nullptr});
    check_same(measured, measure(cpu_backend(), reference.ref(), candidate.ref(), nullptr,
                                 {left_out, nullptr}));
    CHECK(measured.total.unequal == (left_out == nullptr ? 2 : 1));
    CHECK(naive.counts.pairs == 2);
  }
}

TEST_CASE("the backend measures how far replicas are apart") {
  const Doubles r = random_values(4);
  const Made reference(r);
  Made replicated(r);
  replicated.source.put_shard(replicated.entry, 1, near(r, 5));
  replicated.source.put_shard(replicated.entry, 4, near(r, 6));
  const NaiveBackend naive;
  const Measurement measured = measure(naive, reference.ref(), replicated.ref(), nullptr);
  CHECK(measured.replicas_differ);
  check_same(measured, measure(cpu_backend(), reference.ref(), replicated.ref(), nullptr));
  CHECK(naive.counts.replicas == 2);  // one per read, with both replicas
}

TEST_CASE("noise is measured by the backend that is given") {
  const Doubles r = random_values(7);
  const Made reference(r);
  const Made first(near(r, 8));
  const Made second(near(r, 9), DType::kFloat64);
  const Grid grid(kShape, {2, 4});
  const NaiveBackend naive;
  const MeasuredNoise a =
      measure_noise(cpu_backend(), reference.ref(), {first.ref(), second.ref()}, grid);
  const MeasuredNoise b = measure_noise(naive, reference.ref(), {first.ref(), second.ref()}, grid);
  CHECK(a.reference_norm == b.reference_norm);
  CHECK(a.norms == b.norms);
  CHECK(a.largest == b.largest);
  CHECK(a.cells == b.cells);
  CHECK(a.coherence == b.coherence);
  CHECK(naive.counts.noise == 2);
}

TEST_CASE("updates are replayed by the backend that is given") {
  const Doubles before = random_values(13);
  Doubles squares = random_values(14);
  for (double& value : squares) value *= value;
  const Made parameter(before);
  const Made after(near(before, 15), DType::kFloat32, {{"tp", trace::Shard{0, std::nullopt}}});
  const Made gradient(random_values(16));
  const Made exp_avg(random_values(17));
  const Made exp_avg_sq(squares);
  UpdateTensors tensors{
      after.ref(), parameter.ref(), gradient.ref(), {}, exp_avg.ref(), exp_avg_sq.ref(), {}};
  UpdateStep step;
  step.hyperparameters.algorithm = Algorithm::kAdamW;
  step.hyperparameters.lr = 1e-3;
  step.hyperparameters.weight_decay = 0.1;
  step.hyperparameters.beta1 = 0.9;
  step.hyperparameters.beta2 = 0.99;
  step.hyperparameters.eps = 1e-8;
  step.hyperparameters.updates = 3;
  step.rounding.working = *unit_roundoff(DType::kFloat32);
  step.rounding.smallest = smallest_rounding(DType::kFloat32);
  step.rounding.largest = largest_finite(DType::kFloat32);
  const NaiveBackend naive;
  const UpdateMeasurement a =
      measure_update_section(cpu_backend(), tensors, step, tensor::whole(after.entry.shape));
  const UpdateMeasurement b =
      measure_update_section(naive, tensors, step, tensor::whole(after.entry.shape));
  check_same(a.total, b.total);
  CHECK(b.total.unequal > 0);
  CHECK(a.unmoved == b.unmoved);
  CHECK(a.unjudged == b.unjudged);
  CHECK(a.sum_bound2 == b.sum_bound2);
  REQUIRE(b.worst);
  CHECK(a.worst->ratio == b.worst->ratio);
  CHECK(a.worst->at == b.worst->at);
  CHECK(a.worst->bound == b.worst->bound);
  CHECK(a.worst->place->rank == b.worst->place->rank);
  CHECK(naive.counts.updates == 3);  // one per shard
}

TEST_CASE("rows are added up by the backend that is given") {
  const Made gradient(random_values(18));
  const Made input(random_values(19));
  const NaiveBackend naive;
  const TensorRef x = input.ref();
  const auto a = comparison::sum_rows(cpu_backend(), gradient.ref(), &x, DType::kBFloat16);
  const auto b = comparison::sum_rows(naive, gradient.ref(), &x, DType::kBFloat16);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].exact == b[i].exact);
    CHECK(a[i].stepwise == b[i].stepwise);
  }
  CHECK(naive.counts.rows == 2);
}

TEST_CASE("many small tensors go into one batch") {
  std::deque<Made> references;
  std::deque<Made> candidates;
  for (std::uint32_t i = 0; i < 5; ++i) {
    const Doubles values = test::Random(30 + i).values(10 + i);
    references.emplace_back(values, DType::kFloat32, std::map<std::string, trace::Placement>{},
                            tensor::Shape{10 + i});
    candidates.emplace_back(near(values, i), DType::kFloat32,
                            std::map<std::string, trace::Placement>{}, tensor::Shape{10 + i});
  }
  const NaiveBackend naive;
  const std::unique_ptr<Batch> batch = naive.new_batch();
  std::deque<TensorRef> tensors;
  std::deque<SectionMeasuring> measuring;
  for (std::size_t i = 0; i < references.size(); ++i) {
    const TensorRef& reference = tensors.emplace_back(references[i].ref());
    const TensorRef& candidate = tensors.emplace_back(candidates[i].ref());
    measuring.emplace_back(naive, reference, candidate, nullptr);
    measuring.back().add_to(*batch, tensor::whole(references[i].entry.shape));
  }
  batch->finish();
  CHECK(naive.counts.pairs == 5);
  CHECK(naive.counts.finishes == 1);
  for (std::size_t i = 0; i < references.size(); ++i) {
    std::vector<MeasuredSection> sections;
    sections.push_back(measuring[i].take());
    check_same(merge_sections(std::move(sections)),
               measure(cpu_backend(), references[i].ref(), candidates[i].ref(), nullptr));
  }
}

TEST_CASE("memory bounds the threads, and one always runs") {
  ExecutionContext execution;
  execution.threads = 8;
  CHECK(execution.thread_count() == 8);
  execution.memory_bytes = std::uint64_t{33} << 20;
  CHECK(execution.thread_count() == 2);
  execution.memory_bytes = 1;
  CHECK(execution.thread_count() == 1);
}

}  // namespace
}  // namespace ttrace::measure::backend_test
