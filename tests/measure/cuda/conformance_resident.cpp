#include "measure/cuda/conformance_resident.h"

#include <memory>
#include <stdexcept>

#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/conformance_data.h"

namespace ttrace::test {

using measure::Backend;
using measure::Batch;
using measure::PairRequest;
using measure::TileStats;
using measure::cuda::Api;
using measure::cuda::Status;

namespace {

void require(const Api& api, Status status) {
  if (status != Status::kOk) throw std::runtime_error(api.last_error());
}

}  // namespace

Resident::Resident(const Api& api, std::uint32_t device, std::span<const std::byte> bytes)
    : api_(api), device_(device), size_(bytes.size()) {
  void* memory = nullptr;
  require(api, api.allocate(device, bytes.size() + 1, &memory));
  memory_ = static_cast<std::byte*>(memory);
  if (bytes.empty()) return;
  void* stream = nullptr;
  require(api, api.create_stream(device, &stream));
  require(api, api.upload(device, stream, memory, bytes.data(), bytes.size()));
  require(api, api.wait(device, stream));
  api.destroy_stream(device, stream);
}

Resident::~Resident() { api_.release(device_, memory_); }

namespace {

// Which of the two sides lie on the device.
enum class Sides { kBoth, kReference, kCandidate };

class ResidentPairs {
 public:
  ResidentPairs(const Api& api, std::uint32_t device, const Backend& backend)
      : api_(api), device_(device), backend_(backend) {}

  // Both have the box `inputs`, of which `box` is compared.
  void compare(const std::string& name, const Values& r, const Values& c, const tensor::Box& inputs,
               const tensor::Box& box, Sides sides, const measure::Grid* grid = nullptr) {
    Case one(done, name);
    const Resident of_r(api_, device_, r.all_bytes());
    const Resident of_c(api_, device_, c.all_bytes());
    const InputBox resident_r = sides == Sides::kCandidate ? r.as(inputs) : at(r, of_r, inputs);
    const InputBox resident_c = sides == Sides::kReference ? c.as(inputs) : at(c, of_c, inputs);
    const Sums expected = sums(measure::cpu_backend(), r.as(inputs), c.as(inputs), box, grid);
    const Sums actual = sums(backend_, resident_r, resident_c, box, grid);
    one.same(expected.stats, actual.stats);
    one.same(expected.cells, actual.cells);
  }

  Conformance done;

 private:
  struct Sums {
    TileStats stats;
    std::vector<measure::CellSums> cells;
  };

  InputBox at(const Values& values, const Resident& resident, const tensor::Box& box) const {
    InputBox input = values.as(box);
    const std::size_t shift = values.all_bytes().size() - input.values.bits.size();
    input.values.bits = resident.bytes().subspan(shift);
    input.values.device = device_;
    return input;
  }

  static Sums sums(const Backend& by, const InputBox& r, const InputBox& c, const tensor::Box& box,
                   const measure::Grid* grid) {
    Sums sums;
    if (grid != nullptr) sums.cells.resize(grid->cells());
    const std::unique_ptr<Batch> batch = by.new_batch();
    batch->add(PairRequest{r, c, box, grid, sums.cells.data(), &sums.stats});
    batch->finish();
    return sums;
  }

  const Api& api_;
  std::uint32_t device_;
  const Backend& backend_;
};

constexpr std::array<std::size_t, 9> kResidentSizes{0, 1, 33, 999, 4095, 4096, 4097, 9000, 100'000};

void add_types(ResidentPairs& pairs, Draw& draw) {
  for (const DType dtype : kFloatTypes) {
    for (const std::size_t count : kResidentSizes) {
      for (const std::size_t shift : {0, 1, 4}) {
        if (count > 4097 && shift == 4) continue;
        const Pattern pattern = kPatterns[(count + shift) % kPatterns.size()];
        const Values r(draw, dtype, count, pattern, shift);
        const tensor::Box box = tensor::whole({count});
        pairs.compare(concat("a resident pair of ", tensor::dtype_short_name(dtype), ", ", count,
                             " elements from byte ", shift, ", ", pattern_name(pattern)),
                      r, r.changed(draw, 10), box, box, Sides::kBoth);
      }
    }
  }
}

void add_mixtures(ResidentPairs& pairs, Draw& draw) {
  const tensor::Box box = tensor::whole({5000});
  for (const DType a : tensor::kAllDTypes) {
    for (const DType b : {DType::kFloat32, DType::kBFloat16}) {
      if (!tensor::is_floating(a)) continue;
      const Values r(draw, a, 5000, Pattern::kSprinkled, 0, 0.5);
      const Values c(draw, b, 5000, Pattern::kSprinkled);
      for (const Sides sides : {Sides::kBoth, Sides::kReference, Sides::kCandidate}) {
        pairs.compare(concat("a pair of ", tensor::dtype_short_name(a), " and ",
                             tensor::dtype_short_name(b), ", sides ", static_cast<int>(sides)),
                      r, c, box, box, sides);
      }
    }
  }
  for (const DType dtype : {DType::kInt64, DType::kUInt64}) {
    const Values r(draw, dtype, 5000, Pattern::kAnyBits);
    pairs.compare(concat("a resident pair of ", tensor::dtype_short_name(dtype)), r,
                  r.changed(draw, 10), box, box, Sides::kBoth);
  }
}

// Parts of the inputs: rows one after the other, and columns, which are not.
void add_boxes(ResidentPairs& pairs, Draw& draw) {
  const tensor::Box all = tensor::whole({90, 70});
  const measure::Grid grid({90, 70}, {3, 2});
  const Values r(draw, DType::kFloat32, 90 * 70, Pattern::kSprinkled);
  const Values c = r.changed(draw, 5);
  for (const tensor::Box& box : {all, tensor::Box{{17, 0}, {50, 70}}, tensor::Box{{3, 5}, {1, 60}},
                                 tensor::Box{{17, 9}, {50, 33}}, tensor::Box{{4, 4}, {0, 9}}}) {
    pairs.compare(concat("the box ", tensor::to_string(box), " of a resident pair"), r, c, all, box,
                  Sides::kBoth);
    pairs.compare(concat("cells of the box ", tensor::to_string(box), " of a resident pair"), r, c,
                  all, box, Sides::kBoth, &grid);
  }
}

}  // namespace

Conformance check_resident(const Api& api, std::uint32_t device, const Backend& backend,
                           std::uint64_t seed) {
  Draw draw(seed);
  ResidentPairs pairs(api, device, backend);
  add_types(pairs, draw);
  add_mixtures(pairs, draw);
  add_boxes(pairs, draw);
  return pairs.done;
}

}  // namespace ttrace::test
