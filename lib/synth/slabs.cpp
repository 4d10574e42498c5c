#include "synth/slabs.h"

#include <algorithm>

namespace ttrace::synth {
namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargestChunkExtent = (std::uint64_t{1} << 31) - 1;

std::uint64_t volume_of(const tensor::Shape& extents) {
  return tensor::volume(tensor::whole(extents));
}

// Halves the outer dimensions first: rows stay whole as long as they can.
tensor::Shape automatic_chunk(const tensor::Shape& shape, tensor::DType dtype) {
  tensor::Shape chunk = shape;
  for (std::uint64_t& extent : chunk) {
    while (extent > 1 && volume_of(chunk) * tensor::element_bytes(dtype) > kChunkBytes) {
      extent = (extent + 1) / 2;
    }
  }
  return chunk;
}

}  // namespace

trace::Storage storage_for(const trace::Storage& wanted, const tensor::Shape& shape,
                           tensor::DType dtype) {
  trace::Storage storage = wanted;
  storage.chunk.clear();
  const bool filtered = wanted.deflate || wanted.shuffle;
  const bool cut = !wanted.chunk.empty() || filtered;
  if (!cut || shape.empty() || volume_of(shape) == 0) {
    storage.deflate.reset();
    storage.shuffle = false;
    return storage;
  }
  if (wanted.chunk.size() == shape.size()) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      storage.chunk.push_back(std::min(wanted.chunk[d], shape[d]));
    }
  } else if (!wanted.chunk.empty()) {  // a range of a flattened shard
    storage.chunk = {std::min(volume_of(wanted.chunk), shape[0])};
  } else {
    storage.chunk = automatic_chunk(shape, dtype);
  }
  for (std::uint64_t& extent : storage.chunk) extent = std::min(extent, kLargestChunkExtent);
  return storage;
}

void for_each_piece(const tensor::Shape& shape, const trace::Storage& storage, std::uint64_t limit,
                    const std::function<void(const tensor::Box&)>& visit) {
  if (storage.chunk.empty()) return tensor::for_each_slab(tensor::whole(shape), limit, visit);
  // Several chunks at once, along the last dimensions first, as they lie one after the other.
  tensor::Shape step = storage.chunk;
  for (std::size_t d = step.size(); d-- > 0;) {
    const std::uint64_t others = volume_of(step) / step[d];
    const std::uint64_t chunks = std::max<std::uint64_t>(limit / others / storage.chunk[d], 1);
    const std::uint64_t needed = (shape[d] - 1) / storage.chunk[d] + 1;
    step[d] = storage.chunk[d] * std::min(chunks, needed);
    if (chunks < needed) break;
  }
  tensor::Shape grid;
  for (std::size_t d = 0; d < shape.size(); ++d) grid.push_back((shape[d] - 1) / step[d] + 1);
  tensor::for_each_slab(tensor::whole(grid), 1, [&](const tensor::Box& cell) {
    tensor::Box piece = cell;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      piece.origin[d] = cell.origin[d] * step[d];
      piece.extent[d] = std::min(step[d], shape[d] - piece.origin[d]);
    }
    visit(piece);
  });
}

}  // namespace ttrace::synth
