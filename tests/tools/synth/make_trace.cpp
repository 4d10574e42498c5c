#include "tools/synth/make_trace.h"

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "layout/mesh.h"
#include "layout/plan.h"

namespace ttrace::synth {
namespace {

constexpr std::uint64_t kElementsPerWrite = std::uint64_t{1} << 18;

// What one rank has of a tensor.
struct Piece {
  const trace::TensorEntry* entry = nullptr;
  std::shared_ptr<const layout::Plan> plan;
  const layout::Block* block = nullptr;
  std::uint64_t term = 0;
};
using Pieces = std::map<std::uint64_t, std::vector<Piece>>;  // by rank

bool laid_out_alike(const trace::TensorEntry& a, const trace::TensorEntry& b) {
  return a.shape == b.shape && a.mesh == b.mesh && a.held_at == b.held_at &&
         a.placements == b.placements;
}

Pieces pieces_of(const trace::Manifest& manifest) {
  Pieces pieces;
  for (const std::uint64_t rank : layout::ranks_of(manifest)) pieces[rank];
  std::shared_ptr<const layout::Plan> plan;
  const trace::TensorEntry* before = nullptr;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (before == nullptr || !laid_out_alike(*before, entry)) {
      plan = std::make_shared<const layout::Plan>(
          layout::plan_layout(entry, manifest.meshes.at(entry.mesh)));
    }
    before = &entry;
    for (const layout::Block& block : plan->blocks) {
      for (std::uint64_t term = 0; term < block.terms.size(); ++term) {
        for (const std::uint64_t rank : block.terms[term].ranks) {
          pieces[rank].push_back({&entry, plan, &block, term});
        }
      }
    }
  }
  return pieces;
}

Term term_of(const Piece& piece) {
  const layout::Combination& how = piece.plan->combination;
  const std::uint64_t count = piece.block->terms.size();
  // A mean of T terms, of which S are summed, has the factor S / T.
  const auto summed = std::llround(static_cast<double>(count) * how.factor);
  return {piece.term, count, how.maximum ? 1 : static_cast<std::uint64_t>(summed)};
}

std::vector<layout::PlacedBox> write_boxes(const layout::LocalLayout& held) {
  std::vector<layout::PlacedBox> boxes;
  for (const layout::PlacedBox& part : held.parts) {
    tensor::for_each_sub_box(part.local, kElementsPerWrite, [&](const tensor::Box& box) {
      const tensor::Box inside = tensor::relative_to(box, part.local.origin);
      boxes.push_back({tensor::shifted(inside, part.global.origin), box});
    });
  }
  return boxes;
}

void write(const Request& request, const Piece& piece, trace::Sink& sink) {
  const trace::TensorEntry& entry = *piece.entry;
  const layout::LocalLayout& held = piece.block->held;
  const std::string path = dataset_path(entry.key);
  const std::vector<layout::PlacedBox> boxes = write_boxes(held);
  trace::Storage storage;
  storage.sparse = request.sparse;
  if (request.deflate && !held.range && !held.shape.empty()) {
    storage.deflate = request.deflate;
    storage.chunk = boxes.front().local.extent;  // so that no chunk is written in two
  }
  sink.create(path, entry.dtype, held.dataset_shape(), storage);
  if (request.sparse) return;
  const Values values(request.manifest, entry, request.settings);
  const Term term = term_of(piece);
  const std::size_t element = tensor::element_bytes(entry.dtype);
  const tensor::Box array = tensor::whole(held.shape);
  std::vector<std::byte> flat(held.range ? tensor::volume(array) * element : 0);
  base::parallel_for(boxes.size(), 0, [&](std::size_t i) {
    std::vector<std::byte> bytes(tensor::volume(boxes[i].local) * element);
    values.store(boxes[i].global, term, bytes);
    if (!held.range) return sink.write(path, boxes[i].local, bytes);
    tensor::copy_common(boxes[i].local, bytes, array, flat, element);
  });
  if (!held.range) return;
  sink.write(path, tensor::whole(held.dataset_shape()),
             std::span(flat).subspan(held.range->start * element, held.range->length * element));
}

}  // namespace

void make_trace(const Request& request,
                const std::function<std::unique_ptr<trace::Sink>(std::uint64_t rank)>& open) {
  for (const auto& [rank, pieces] : pieces_of(request.manifest)) {
    const std::unique_ptr<trace::Sink> sink = open(rank);
    trace::Manifest part;
    part.run = request.manifest.run;
    part.meshes = request.manifest.meshes;
    part.optimizer = request.manifest.optimizer;
    for (const Piece& piece : pieces) {
      write(request, piece, *sink);
      part.tensors.push_back(*piece.entry);
    }
    sink->finish(part);
  }
}

}  // namespace ttrace::synth
