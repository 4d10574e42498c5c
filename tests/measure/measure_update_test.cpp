#include "measure/measure_update.h"

#include <vector>

#include "measure/cpu/cpu_backend.h"
#include "property/random.h"
#include "support/memory_trace.h"

namespace ttrace::measure::measure_update_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

TEST_CASE("sections of an update add up to the whole", "[replay]") {
  const tensor::Shape shape{90, 50};
  const std::uint64_t elements = shape[0] * shape[1];
  MemoryTrace source(make_mesh({{"tp", 2}}));
  const auto put = [&](const char* name, std::vector<double> values, bool sharded = false) {
    trace::TensorEntry entry = make_entry(name, shape, trace::Kind::kOutput);
    if (sharded) entry.placements = {{"tp", trace::Shard{1, std::nullopt}}};
    source.put(entry, values);
    return entry;
  };
  std::vector<double> parameter = test::Random(1).values(elements);
  std::vector<double> gradient = test::Random(2).values(elements);
  std::vector<double> after(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    parameter[i] = static_cast<float>(parameter[i]);
    gradient[i] = static_cast<float>(gradient[i]);
    after[i] = static_cast<float>(parameter[i] - 0.5 * gradient[i]);
  }
  after[100] = parameter[100];  // in the first section, and not moved
  after[4000] += 10;            // in the second one, and the worst
  const trace::TensorEntry updated = put("after", after, true);
  const trace::TensorEntry before = put("before", parameter);
  const trace::TensorEntry grad = put("grad", gradient);
  const UpdateTensors tensors{
      {&source, &updated}, {&source, &before}, {&source, &grad}, {}, {}, {}, {}};
  UpdateStep step;
  step.hyperparameters.algorithm = Algorithm::kSgd;
  step.hyperparameters.lr = 0.5;
  step.rounding.working = *unit_roundoff(tensor::DType::kFloat32);
  step.rounding.smallest = smallest_rounding(tensor::DType::kFloat32);
  step.rounding.largest = largest_finite(tensor::DType::kFloat32);

  const UpdateMeasurement whole =
      measure_update_section(cpu_backend(), tensors, step, tensor::whole(shape));
  CHECK(whole.total.unequal == 2);
  std::vector<UpdateMeasurement> sections;
  for (const auto& [first, rows] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 30}, {30, 1}, {31, 0}, {31, 59}}) {
    sections.push_back(
        measure_update_section(cpu_backend(), tensors, step, {{first, 0}, {rows, shape[1]}}));
  }
  CHECK(sections[0].unmoved == 1);
  CHECK(sections[0].total.unequal == 1);
  const UpdateMeasurement merged = merge_sections(std::move(sections));
  CHECK(merged.total.elements == elements);
  CHECK(merged.total.unequal == whole.total.unequal);
  CHECK(merged.total.sum_d2 == Approx(whole.total.sum_d2));
  CHECK(merged.unmoved == whole.unmoved);
  CHECK(merged.sum_bound2 == Approx(whole.sum_bound2));
  CHECK(merged.bytes_read == whole.bytes_read);
  REQUIRE(merged.worst);
  CHECK(merged.worst->at == whole.worst->at);
  CHECK(merged.worst->ratio == whole.worst->ratio);
  CHECK(merged.worst->place->rank == 0);
  CHECK(merged.total.largest->at == whole.total.largest->at);
  REQUIRE(merged.largest_place);
  CHECK(merged.largest_place->rank == whole.largest_place->rank);
  REQUIRE(merged.blocks.size() == 2);
  CHECK(merged.blocks[0].stats.elements == elements / 2);
  CHECK(merged.blocks[0].owner->boxes == whole.blocks[0].owner->boxes);
}

}  // namespace
}  // namespace ttrace::measure::measure_update_test
