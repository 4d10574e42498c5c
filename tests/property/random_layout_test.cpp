// That the random layouts are as various as the properties over them need: a generator that never
// makes a case proves nothing of it.
#include "property/random_layout.h"

#include <map>

namespace ttrace::test::random_layout_test {
namespace {

std::string kind_of(const trace::Placement& placement) {
  if (const auto* shard = std::get_if<trace::Shard>(&placement)) {
    return shard->sizes ? "sizes" : "shard";
  }
  if (const auto* segments = std::get_if<trace::Segments>(&placement)) {
    return segments->sizes ? "segments sizes" : "segments";
  }
  struct Names {
    const char* operator()(const trace::Replicate&) const { return "replicate"; }
    const char* operator()(const trace::Zigzag&) const { return "zigzag"; }
    const char* operator()(const trace::Segments&) const { return "segments"; }
    const char* operator()(const trace::Strided&) const { return "strided"; }
    const char* operator()(const trace::Shard&) const { return "shard"; }
    const char* operator()(const trace::Partial&) const { return "partial"; }
    const char* operator()(const trace::Only&) const { return "only"; }
    const char* operator()(const trace::Flat&) const { return "flat"; }
    const char* operator()(const trace::Boxes&) const { return "boxes"; }
    const char* operator()(const trace::Rows&) const { return "rows"; }
  };
  return std::visit(Names{}, placement);
}

void count_case(const trace::Mesh& mesh, const RandomTensor& tensor,
                std::map<std::string, int>& seen) {
  std::map<std::uint64_t, int> cuts;
  bool earlier_cut = false;
  for (const trace::MeshAxis& axis : mesh.axes) {
    const auto placed = tensor.entry.placements.find(axis.name);
    if (placed == tensor.entry.placements.end() || axis.size == 1) continue;
    const std::string kind = kind_of(placed->second);
    ++seen[kind];
    if (earlier_cut) ++seen[kind + " after a cut"];
    const auto dim = trace::cut_dimension(placed->second);
    if (dim && ++cuts[*dim] == 2) ++seen["two axes cut a dimension"];
    if (const auto* segments = std::get_if<trace::Segments>(&placed->second)) {
      if (segments->repeat > 1) ++seen["repeat"];
    }
    earlier_cut = earlier_cut || dim || kind == "boxes" || kind == "flat";
  }
  if (!tensor.entry.held_at.empty()) ++seen["held_at"];
  if (size_of(mesh) > 32) ++seen["many ranks"];
  if (!mesh.ranks.empty()) ++seen["table of ranks"];
  if (tensor.entry.shape.empty()) ++seen["no dimensions"];
  if (tensor.elements() == 0) ++seen["no elements"];
  for (const std::int64_t number : tensor.numbers) {
    if (number < 0) {
      ++seen["padding"];
      break;
    }
  }
  for (const std::uint64_t extent : tensor.entry.shape) {
    if (extent == 1) ++seen["extent 1"];
  }
  for (const NaiveHolder& holder : tensor.deal(mesh).holders) {
    if (!holder.dataset.elements.empty()) continue;
    ++seen[tensor.index ? "empty rank by rows" : "empty rank"];
    break;
  }
}

TEST_CASE("random layouts use the whole vocabulary") {
  std::map<std::string, int> seen;
  for_seeds(2000, [&](Random& random) {
    const trace::Mesh mesh = random_mesh(random);
    count_case(mesh, random_tensor(random, mesh, random_shape(random)), seen);
  });
  for (const char* what : {"replicate",
                           "shard",
                           "sizes",
                           "zigzag",
                           "segments",
                           "segments sizes",
                           "repeat",
                           "strided",
                           "flat",
                           "boxes",
                           "rows",
                           "partial",
                           "only",
                           "shard after a cut",
                           "sizes after a cut",
                           "zigzag after a cut",
                           "segments after a cut",
                           "strided after a cut",
                           "boxes after a cut",
                           "flat after a cut",
                           "rows after a cut",
                           "two axes cut a dimension",
                           "held_at",
                           "many ranks",
                           "table of ranks",
                           "no dimensions",
                           "no elements",
                           "padding",
                           "extent 1",
                           "empty rank",
                           "empty rank by rows"}) {
    CAPTURE(what, seen[what]);
    CHECK(seen[what] >= 10);
  }
}

}  // namespace
}  // namespace ttrace::test::random_layout_test
