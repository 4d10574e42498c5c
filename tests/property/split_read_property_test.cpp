// A tensor dealt out to random ranks element by element, without the library's plans, and read back
// through them.
#include <algorithm>
#include <cmath>

#include "compare/logical_tensor.h"
#include "compare/measure.h"
#include "property/random_layout.h"

namespace ttrace::compare {
namespace {

using test::Random;
using Doubles = std::vector<double>;

// Position of a coordinate among those that hold the tensor along the partial axes: its term.
std::uint64_t term_of(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                      const std::vector<std::uint64_t>& coordinates, std::uint64_t& terms) {
  terms = 1;
  std::uint64_t term = 0;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const auto placed = entry.placements.find(mesh.axes[a].name);
    if (placed == entry.placements.end()) continue;
    if (!std::holds_alternative<trace::Partial>(placed->second)) continue;
    const std::vector<std::uint64_t> held = test::held_of(entry, mesh.axes[a]);
    std::uint64_t position = 0;
    while (held[position] != coordinates[a]) ++position;
    term = term * held.size() + position;
    terms *= held.size();
  }
  return term;
}

// Row-major values of the sub-tensor at `lists` of indices.
Doubles gather(const Doubles& values, const tensor::Shape& shape, const test::IndexLists& lists) {
  std::vector<std::size_t> positions{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::size_t> next;
    for (const std::size_t position : positions) {
      for (const std::uint64_t index : lists[d]) next.push_back(position * shape[d] + index);
    }
    positions = std::move(next);
  }
  Doubles gathered;
  for (const std::size_t position : positions) gathered.push_back(values[position]);
  return gathered;
}

// Small whole numbers: their sums are exact in any order.
Doubles whole_numbers(Random& random, std::size_t count) {
  Doubles values(count);
  for (double& value : values) value = static_cast<double>(random.between(0, 2000)) - 1000;
  return values;
}

struct Dealt {
  test::MemoryTrace source;
  trace::TensorEntry entry;
  Doubles expected;  // the logical values
};

Dealt deal(Random& random) {
  const trace::Mesh mesh = test::random_mesh(random);
  const tensor::Shape shape = random.shape(3, 1, 6);
  Dealt dealt{test::MemoryTrace(mesh), test::random_entry(random, mesh, shape), {}};
  trace::TensorEntry& entry = dealt.entry;
  entry.dtype = tensor::DType::kFloat64;
  entry.scale = random.chance(0.5) ? 1 : 0.25;
  dealt.source.edit().tensors.push_back(entry);
  const std::uint64_t count = *tensor::element_count(shape);
  std::vector<Doubles> parts;  // of each term
  for (std::uint64_t i = 0; i < layout::mesh_size(mesh); ++i) {
    const auto at = layout::coordinates_at(mesh, i);
    const auto lists = test::held_indices(entry, mesh, at);
    if (!lists) continue;
    std::uint64_t terms = 0;
    const std::uint64_t term = term_of(entry, mesh, at, terms);
    while (parts.size() < terms) parts.push_back(whole_numbers(random, count));
    tensor::Shape local;
    for (const auto& list : *lists) local.push_back(list.size());
    dealt.source.put_bits(entry.key, layout::rank_at(mesh, i), entry.dtype, local,
                          test::encode(entry.dtype, gather(parts[term], shape, *lists)));
  }
  bool maximum = false;
  double divisor = 1;
  for (const auto& [axis, placement] : entry.placements) {
    const auto* partial = std::get_if<trace::Partial>(&placement);
    if (partial == nullptr) continue;
    maximum = maximum || partial->reduction == trace::Reduction::kMax;
    for (const trace::MeshAxis& known : mesh.axes) {
      if (known.name == axis && partial->reduction == trace::Reduction::kMean) {
        divisor *= static_cast<double>(test::held_of(entry, known).size());
      }
    }
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    double value = parts[0][i];
    for (std::size_t term = 1; term < parts.size(); ++term) {
      value = maximum ? std::max(value, parts[term][i]) : value + parts[term][i];
    }
    dealt.expected.push_back(value * entry.scale / divisor);
  }
  return dealt;
}

bool close(const Doubles& a, const Doubles& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-14 * std::abs(b[i]))) return false;
  }
  return a.size() == b.size();
}

TEST_CASE("a tensor dealt to random ranks reads back as itself") {
  test::for_seeds(1000, [](Random& random) {
    const Dealt dealt = deal(random);
    const tensor::Shape& shape = dealt.entry.shape;
    CAPTURE(tensor::to_string(shape));
    LogicalTensor logical(dealt.source, dealt.entry);
    for (int i = 0; i < 8; ++i) {
      const tensor::Box box = i == 0 ? tensor::whole(shape) : random.box_in(tensor::whole(shape));
      CAPTURE(tensor::to_string(box));
      if (tensor::empty(box)) continue;
      Doubles out(tensor::volume(box), std::nan(""));
      logical.read(box, out);
      Doubles expected;
      for (std::uint64_t k = 0; k < out.size(); ++k) {
        const tensor::Shape point = tensor::coordinates(box, k);
        std::uint64_t linear = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + point[d];
        expected.push_back(dealt.expected[linear]);
      }
      CHECK(close(out, expected));
    }
  });
}

TEST_CASE("a tensor dealt to random ranks measures as equal to the whole") {
  test::for_seeds(500, [](Random& random) {
    const Dealt dealt = deal(random);
    CAPTURE(tensor::to_string(dealt.entry.shape));
    test::MemoryTrace single;
    trace::TensorEntry entry =
        test::make_entry("w", dealt.entry.shape, trace::Kind::kOutput, tensor::DType::kFloat64);
    single.put(entry, dealt.expected);
    const Measurement measured = measure({&single, &entry}, {&dealt.source, &dealt.entry}, {});
    CHECK(measured.total.elements == dealt.expected.size());
    CHECK(difference_norm(measured.total) <= 1e-13 * reference_norm(measured.total));
    CHECK_FALSE(measured.replicas_differ);
    std::uint64_t seen = 0;
    for (const BlockStats& block : measured.blocks) seen += block.stats.elements;
    CHECK(seen == dealt.expected.size());
  });
}

TEST_CASE("one damaged element on one random rank is found") {
  test::for_seeds(500, [](Random& random) {
    Dealt dealt = deal(random);
    const trace::Mesh& mesh = dealt.source.manifest().meshes.at("");
    const Measurement before =
        measure({&dealt.source, &dealt.entry}, {&dealt.source, &dealt.entry}, {});
    // A random holder's shard, with a NaN in it: no reduction or average hides that.
    const BlockStats& block = before.blocks[random.between(0, before.blocks.size() - 1)];
    const std::uint64_t rank = block.ranks[random.between(0, block.ranks.size() - 1)];
    CAPTURE(rank, block.ranks.size(), layout::mesh_size(mesh));
    Doubles shard(block.stats.elements);
    shard[random.between(0, shard.size() - 1)] = std::nan("");
    const Dealt whole = dealt;
    dealt.source.put_shard(dealt.entry, rank, shard);
    const Measurement after =
        measure({&whole.source, &whole.entry}, {&dealt.source, &dealt.entry}, {});
    CHECK((after.total.nonfinite_different == 1 || after.replicas_differ));
  });
}

}  // namespace
}  // namespace ttrace::compare
