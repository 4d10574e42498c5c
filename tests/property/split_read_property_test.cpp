// A tensor dealt out to random ranks element by element, without the library's plans, and read back
// through them.
#include "base/error.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/logical_tensor.h"
#include "measure/measure.h"
#include "property/dealt_tensor.h"

namespace ttrace::measure::split_read_property_test {
namespace {

using base::concat;
using test::DealtTensor;
using test::Doubles;
using test::MemoryTrace;
using test::Random;

std::string reading_problem(Random& random, const MemoryTrace& trace, const DealtTensor& dealt) {
  const trace::TensorEntry& entry = dealt.tensor.entry;
  LogicalTensor logical(trace, entry);
  for (int i = 0; i < 6; ++i) {
    const tensor::Box whole = tensor::whole(entry.shape);
    const tensor::Box box = i == 0 ? whole : random.box_in(whole);
    Doubles out(tensor::volume(box), std::nan(""));
    logical.read(box, out);
    if (!test::close(out, test::values_in(box, entry.shape, dealt.expected))) {
      return concat("other values in ", tensor::to_string(box));
    }
  }
  return "";
}

TEST_CASE("a tensor dealt to random ranks reads back as itself") {
  test::for_seeds(3000, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    MemoryTrace trace(mesh);
    test::RandomTensor tensor = test::random_tensor(random, mesh, test::random_shape(random));
    tensor.entry.scale = random.chance(0.5) ? 1 : 0.25;
    const DealtTensor dealt = test::deal_into(trace, random, std::move(tensor));
    std::string problem;
    try {
      problem = reading_problem(random, trace, dealt);
    } catch (const base::Error& error) {
      problem = error.what();
    }
    test::check_case(problem, mesh, dealt.tensor);
  });
}

std::string measuring_problem(const MemoryTrace& trace, const DealtTensor& dealt) {
  MemoryTrace single;
  const trace::TensorEntry entry = test::make_entry("w", dealt.tensor.entry.shape,
                                                    trace::Kind::kOutput, tensor::DType::kFloat64);
  single.put(entry, dealt.expected);
  const Measurement measured =
      measure(cpu_backend(), {&single, &entry}, {&trace, &dealt.tensor.entry}, {});
  if (measured.total.elements != dealt.expected.size()) {
    return concat(measured.total.elements, " elements seen");
  }
  std::uint64_t seen = 0;
  for (const BlockStats& block : measured.blocks) seen += block.stats.elements;
  if (seen != dealt.expected.size()) return concat(seen, " elements in blocks");
  if (measured.replicas_differ) return "replicas differ";
  const double difference = difference_norm(measured.total);
  if (difference > 1e-13 * reference_norm(measured.total)) return concat("off by ", difference);
  return "";
}

TEST_CASE("a tensor dealt to random ranks measures as equal to the whole") {
  test::for_seeds(2000, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    MemoryTrace trace(mesh);
    const DealtTensor dealt = test::deal_into(
        trace, random, test::random_tensor(random, mesh, test::random_shape(random)));
    std::string problem;
    try {
      problem = measuring_problem(trace, dealt);
    } catch (const base::Error& error) {
      problem = error.what();
    }
    test::check_case(problem, mesh, dealt.tensor);
  });
}

// The dataset of `holder` as it was dealt, with a NaN in a random place that is not padding: no
// reduction hides that. False if it holds nothing.
bool damage(MemoryTrace& trace, Random& random, const DealtTensor& dealt,
            const test::NaiveHolder& holder) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < holder.dataset.elements.size(); ++i) {
    if (holder.dataset.elements[i] >= 0) places.push_back(i);
  }
  if (places.empty()) return false;
  const trace::TensorKey& key = dealt.tensor.entry.key;
  const auto dataset = trace.open(holder.rank, dataset_path(key));
  Doubles values(holder.dataset.elements.size());
  dataset->read(tensor::whole(holder.dataset.shape), std::as_writable_bytes(std::span(values)));
  values[places[random.between(0, places.size() - 1)]] = std::nan("");
  trace.put_bits(key, holder.rank, tensor::DType::kFloat64, holder.dataset.shape,
                 test::encode(tensor::DType::kFloat64, values));
  return true;
}

TEST_CASE("one damaged element on one random rank is found") {
  test::for_seeds(1000, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    MemoryTrace trace(mesh);
    const DealtTensor dealt = test::deal_into(
        trace, random, test::random_tensor(random, mesh, test::random_shape(random)));
    const auto& holders = dealt.deal.holders;
    const test::NaiveHolder& holder = holders[random.between(0, holders.size() - 1)];
    const MemoryTrace sound = trace;
    if (!damage(trace, random, dealt, holder)) return;
    const trace::TensorEntry& entry = dealt.tensor.entry;
    const Measurement after = measure(cpu_backend(), {&sound, &entry}, {&trace, &entry}, {});
    const bool found = after.total.nonfinite_different == 1 || after.replicas_differ;
    test::check_case(found ? "" : concat("damage of rank ", holder.rank, " not found"), mesh,
                     dealt.tensor);
  });
}

}  // namespace
}  // namespace ttrace::measure::split_read_property_test
