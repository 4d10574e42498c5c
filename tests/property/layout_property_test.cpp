// Plans of random meshes and placements, held against lists of indices.
#include <algorithm>
#include <map>

#include "layout/plan.h"
#include "property/random_layout.h"

namespace ttrace::layout {
namespace {

using test::Random;

// Whether `lists` are exactly the indices of `box`.
bool same_indices(const tensor::Box& box, const test::IndexLists& lists) {
  for (std::size_t d = 0; d < lists.size(); ++d) {
    if (lists[d].size() != box.extent[d]) return false;
    for (std::size_t i = 0; i < lists[d].size(); ++i) {
      if (lists[d][i] != box.origin[d] + i) return false;
    }
  }
  return true;
}

bool empty(const test::IndexLists& lists) {
  for (const auto& list : lists) {
    if (list.empty()) return true;
  }
  return false;
}

struct Expected {
  std::uint64_t terms = 1;
  std::uint64_t replicas = 1;  // of each term
  double divisor = 1;
  bool maximum = false;
};

Expected expected_of(const trace::TensorEntry& entry, const trace::Mesh& mesh) {
  Expected expected;
  for (const trace::MeshAxis& axis : mesh.axes) {
    const std::uint64_t held = test::held_of(entry, axis).size();
    const auto placed = entry.placements.find(axis.name);
    const trace::Placement placement =
        placed == entry.placements.end() ? trace::Placement{} : placed->second;
    if (const auto* partial = std::get_if<trace::Partial>(&placement)) {
      expected.terms *= held;
      if (partial->reduction == trace::Reduction::kMean) {
        expected.divisor *= static_cast<double>(held);
      }
      expected.maximum = expected.maximum || partial->reduction == trace::Reduction::kMax;
    } else if (!std::holds_alternative<trace::Shard>(placement)) {
      expected.replicas *= held;
    }
  }
  return expected;
}

// How often each element is covered by the blocks.
std::vector<int> coverage(const Plan& plan, const tensor::Shape& shape) {
  const tensor::Box whole = tensor::whole(shape);
  std::vector<int> covered(tensor::volume(whole), 0);
  for (const Block& block : plan.blocks) {
    for (std::uint64_t i = 0; i < covered.size(); ++i) {
      const tensor::Shape point = tensor::coordinates(whole, i);
      bool inside = true;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        inside = inside && point[d] >= block.global.origin[d] &&
                 point[d] < block.global.origin[d] + block.global.extent[d];
      }
      covered[i] += inside ? 1 : 0;
    }
  }
  return covered;
}

void check_blocks(const Plan& plan, const trace::TensorEntry& entry, const trace::Mesh& mesh) {
  const Expected expected = expected_of(entry, mesh);
  CHECK(plan.combination.maximum == expected.maximum);
  CHECK(plan.combination.factor == Catch::Approx(1 / expected.divisor).epsilon(1e-14));
  bool counts = true;
  bool boxes = true;
  for (const Block& block : plan.blocks) {
    counts = counts && block.terms.size() == expected.terms;
    for (const Term& term : block.terms) {
      counts = counts && term.replicas.size() == expected.replicas;
      for (const Piece& piece : term.replicas) {
        boxes = boxes && held_box(entry, mesh, piece.coordinates) == block.global &&
                piece.local == tensor::whole(block.global.extent);
      }
    }
  }
  CHECK(counts);
  CHECK(boxes);
}

TEST_CASE("random layouts cover every element once with the right owners") {
  test::for_seeds(4000, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    const trace::TensorEntry entry = test::random_entry(random, mesh, random.shape(3, 0, 7));
    CAPTURE(tensor::to_string(entry.shape), mesh.axes.size());
    const Plan plan = plan_layout(entry, mesh);
    const std::vector<int> covered = coverage(plan, entry.shape);
    CHECK(std::count(covered.begin(), covered.end(), 1) ==
          static_cast<std::ptrdiff_t>(covered.size()));
    check_blocks(plan, entry, mesh);

    // Owners two ways: from the plan's pieces, and from lists of indices at every coordinate.
    std::map<std::uint64_t, tensor::Box> planned;
    std::uint64_t pieces = 0;
    for (const Block& block : plan.blocks) {
      for (const Term& term : block.terms) {
        for (const Piece& piece : term.replicas) {
          planned.emplace(piece.rank, block.global);
          ++pieces;
        }
      }
    }
    CHECK(planned.size() == pieces);  // no rank holds two parts
    std::uint64_t holders = 0;
    bool agree = true;
    for (std::uint64_t i = 0; i < mesh_size(mesh); ++i) {
      const std::vector<std::uint64_t> at = coordinates_at(mesh, i);
      const auto lists = test::held_indices(entry, mesh, at);
      const auto box = held_box(entry, mesh, at);
      agree = agree && box.has_value() == lists.has_value();
      if (!box || !lists) continue;
      agree = agree && same_indices(*box, *lists);
      const auto found = planned.find(mesh.ranks.empty() ? i : mesh.ranks[i]);
      agree = agree && (found == planned.end()) == empty(*lists);
      if (found == planned.end()) continue;
      ++holders;
      agree = agree && same_indices(found->second, *lists);
    }
    CHECK(agree);
    CHECK(holders == pieces);
  });
}

TEST_CASE("random layouts have no problems") {
  test::for_seeds(500, [](Random& random) {
    trace::Manifest manifest;
    const trace::Mesh mesh = test::random_mesh(random);
    manifest.tensors.push_back(test::random_entry(random, mesh, random.shape(3, 0, 7)));
    manifest.meshes.emplace("", mesh);
    CHECK(layout_problems(manifest).empty());
  });
}

}  // namespace
}  // namespace ttrace::layout
