// Tiles whose values are scattered or scaled give the bits of those that were gathered and decoded.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "measure/cpu/cpu_backend.h"
#include "measure/cpu/kernel.h"
#include "measure/cpu/tiles.h"
#include "measure/same_stats.h"
#include "property/random.h"
#include "support/catch.h"
#include "tensor/codec.h"
#include "tensor/run_cursor.h"

namespace ttrace::measure::scattered_tiles_test {
namespace {

using tensor::Box;
using tensor::DType;
using test::check_same;
using test::Random;

constexpr std::array kFloats{DType::kFloat64,  DType::kFloat32,    DType::kFloat16,
                             DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2};
constexpr std::array kScales{1.0, 0.5, -0.3, 65536.0};

std::vector<std::byte> bits_of(DType dtype, std::size_t count, Random& random) {
  std::vector<double> values = random.values(count);
  std::vector<std::byte> bits(count * tensor::element_bytes(dtype));
  tensor::encode_floats(dtype, values, bits);
  return bits;
}

std::vector<double> scaled_numbers(DType dtype, std::span<const std::byte> bits, double scale) {
  std::vector<double> values(bits.size() / tensor::element_bytes(dtype));
  decode({bits, dtype, scale}, 0, values);
  return values;
}

// A tile whose pieces lie anywhere.
struct Scattered {
  std::vector<std::byte> memory;
  std::vector<std::size_t> offsets;

  Scattered(std::span<const std::byte> dense, std::size_t element_bytes, Random& random) {
    const std::size_t piece = kPlacedTogether * element_bytes;
    for (std::size_t at = 0; at < dense.size(); at += piece) {
      memory.resize(memory.size() + random.between(0, 70));
      offsets.push_back(memory.size());
      const auto here = dense.subspan(at, std::min(piece, dense.size() - at));
      memory.insert(memory.end(), here.begin(), here.end());
    }
  }
};

TEST_CASE("every kernel adds up scattered and scaled tiles as decoded ones", "[kernels]") {
  Random random(21);
  for (const DType dtype : kFloats) {
    const std::size_t width = tensor::element_bytes(dtype);
    for (const std::size_t count : {0U, 1U, 16U, 33U, 48U, 384U, 512U, 1008U, 4095U, 4096U}) {
      const std::vector<std::byte> r = bits_of(dtype, count, random);
      std::vector<std::byte> c = bits_of(dtype, count, random);
      std::copy_n(r.begin(), count / 3 * width, c.begin());  // a third is equal
      for (const double scale : kScales) {
        CAPTURE(tensor::dtype_name(dtype), count, scale);
        const Scattered of_r(r, width, random);
        const Scattered of_c(c, width, random);
        const std::vector<double> wide_r = scaled_numbers(dtype, r, 1);
        const std::vector<double> wide_c = scaled_numbers(dtype, c, scale);
        TileSums expected;
        usable_kernels().back()->sum(StoredType::kF64, wide_r.data(), wide_c.data(), count,
                                     expected);
        for (const Kernel* kernel : usable_kernels()) {
          CAPTURE(kernel->isa);
          TileSums sums;
          kernel->sum_placed(stored_as(dtype), {of_r.memory.data(), of_r.offsets.data(), 1},
                             {of_c.memory.data(), of_c.offsets.data(), scale}, count, sums);
          CHECK(sums.d2 == expected.d2);
          CHECK(sums.d == expected.d);
          CHECK(sums.r2 == expected.r2);
          CHECK(sums.c2 == expected.c2);
          CHECK(sums.rc == expected.rc);
          CHECK(sums.largest == expected.largest);
          CHECK(sums.unequal == expected.unequal);
        }
      }
    }
  }
}

struct Summed {
  TileStats stats;
  std::vector<CellSums> cells;
};

Summed summed(const Backend& backend, const InputBox& reference, const InputBox& candidate,
              const Box& box, const Grid* grid) {
  Summed sums;
  if (grid != nullptr) sums.cells.resize(grid->cells());
  const std::unique_ptr<Batch> batch = backend.new_batch();
  batch->add(PairRequest{reference, candidate, box, grid, sums.cells.data(), &sums.stats});
  batch->finish();
  return sums;
}

// A part of a larger frame, and the same numbers decoded and alone in memory.
class Side {
 public:
  Side(const Box& frame, const Box& box, DType dtype, double scale, Random& random)
      : frame_(frame), dtype_(dtype), scale_(scale) {
    bits_ = bits_of(dtype, tensor::volume(frame), random);
    if (random.chance(0.3)) {
      const std::size_t width = tensor::element_bytes(dtype);
      std::vector<std::byte> nan(width);
      tensor::encode_floats(dtype, std::array{std::numeric_limits<double>::quiet_NaN()}, nan);
      const std::size_t at = random.between(0, tensor::volume(frame) - 1) * width;
      std::copy(nan.begin(), nan.end(), bits_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    std::vector<std::byte> part(tensor::volume(box) * tensor::element_bytes(dtype));
    tensor::copy_common(frame, bits_, box, part, tensor::element_bytes(dtype));
    numbers_ = scaled_numbers(dtype, part, scale);
    part_ = {box, {std::as_bytes(std::span(numbers_)), DType::kFloat64, 1}};
  }
  InputBox stored() const { return {frame_, {bits_, dtype_, scale_}}; }
  const InputBox& decoded_part() const { return part_; }

 private:
  Box frame_;
  DType dtype_;
  double scale_;
  std::vector<std::byte> bits_;
  std::vector<double> numbers_;
  InputBox part_;
};

TEST_CASE("parts of boxes and scaled boxes are measured as decoded ones, to the bit") {
  const std::uint64_t first = test::base_seed();
  for (std::uint64_t seed = first; seed < first + 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const DType dtype = kFloats[random.between(0, kFloats.size() - 1)];
    const std::uint64_t together = random.chance(0.7) ? kPlacedTogether : 1;
    const Box frame{{3, random.between(1, 9), 0},
                    {random.between(1, 3), random.between(1, 60), together * random.between(1, 9)}};
    Box box = frame;
    if (random.chance(0.8)) {
      box.extent[2] = together * random.between(1, frame.extent[2] / together);
      box.origin[2] = random.between(0, frame.extent[2] - box.extent[2]);
      box.extent[1] = random.between(1, frame.extent[1]);
    }
    const bool same_frame = random.chance(0.5);
    const double scale = kScales[random.between(0, kScales.size() - 1)];
    const Side r(frame, box, dtype, 1, random);
    const Side c(same_frame ? frame : box, box, dtype, scale, random);
    const Grid grid({8, 80, 160}, {2, random.between(1, 5), random.between(1, 10)});
    for (const Kernel* kernel : usable_kernels()) {
      CAPTURE(kernel->isa);
      const Backend& backend = cpu_backend(kernel->isa);
      for (const Grid* cut : {static_cast<const Grid*>(nullptr), &grid}) {
        const Summed placed = summed(backend, r.stored(), c.stored(), box, cut);
        const Summed expected = summed(backend, r.decoded_part(), c.decoded_part(), box, cut);
        check_same(placed.stats, expected.stats);
        for (std::size_t cell = 0; cell < expected.cells.size(); ++cell) {
          CHECK(placed.cells[cell].d2 == expected.cells[cell].d2);
          CHECK(placed.cells[cell].a2 == expected.cells[cell].a2);
          CHECK(placed.cells[cell].along == expected.cells[cell].along);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ttrace::measure::scattered_tiles_test
