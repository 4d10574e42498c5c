#include "synth/dataset.h"

#include <vector>

#include "property/random.h"
#include "support/catch.h"

namespace ttrace::synth::dataset_test {
namespace {

TEST_CASE("chunks are cut down to the dataset, and made where a filter needs them") {
  using tensor::DType;
  const auto chunk = [](const trace::Storage& wanted, const tensor::Shape& shape) {
    return storage_for(wanted, shape, DType::kFloat32).chunk;
  };
  CHECK(chunk({}, {4, 4}).empty());
  CHECK(chunk({{2, 100}}, {4, 6}) == tensor::Shape{2, 6});
  CHECK(chunk({{2, 100}}, {50}) == tensor::Shape{50});  // of a flat range
  CHECK(chunk({{2, 10}}, {50}) == tensor::Shape{20});
  CHECK(chunk({{}, 4}, {4, 6}) == tensor::Shape{4, 6});
  CHECK(chunk({{}, 4}, {4096, 4096}) == tensor::Shape{64, 4096});
  CHECK(chunk({{}, 4}, {1, 1 << 20}) == tensor::Shape{1, 1 << 18});
  for (const tensor::Shape& shape : {tensor::Shape{}, tensor::Shape{0, 3}}) {
    const trace::Storage storage = storage_for({{}, 4, true}, shape, DType::kFloat32);
    CHECK(storage == trace::Storage{});
  }
}

TEST_CASE("pieces cover the dataset once and cut no chunk") {
  test::for_seeds(2000, [](test::Random& random) {
    tensor::Shape shape;
    trace::Storage storage;
    for (std::uint64_t d = random.between(1, 4); d > 0; --d) {
      shape.push_back(random.between(1, 9));
      storage.chunk.push_back(random.between(1, shape.back()));
    }
    if (random.chance(0.3)) storage.chunk.clear();
    const std::uint64_t limit = random.between(1, 200);
    std::vector<int> times(tensor::volume(tensor::whole(shape)), 0);
    bool whole_chunks = true;
    for_each_write_box(shape, storage, limit, [&](const tensor::Box& piece) {
      tensor::for_each_sub_box(
          piece, 1, [&](const tensor::Box& one) { ++times[tensor::position(shape, one.origin)]; });
      std::uint64_t chunk = 1;
      for (std::size_t d = 0; d < storage.chunk.size(); ++d) {
        const std::uint64_t stop = piece.origin[d] + piece.extent[d];
        whole_chunks = whole_chunks && piece.origin[d] % storage.chunk[d] == 0 &&
                       (stop == shape[d] || stop % storage.chunk[d] == 0);
        chunk *= storage.chunk[d];
      }
      CHECK(tensor::volume(piece) <= std::max(limit, chunk));
    });
    CHECK(times == std::vector<int>(times.size(), 1));
    CHECK(whole_chunks);
  });
}

}  // namespace

}  // namespace ttrace::synth::dataset_test
