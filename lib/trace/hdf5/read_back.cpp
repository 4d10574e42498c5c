#include "trace/hdf5/read_back.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/parallel.h"

namespace ttrace::trace::hdf5 {
namespace {

using tensor::Box;

// A dataset is read band by band: a band is contiguous and fits in a core's cache.
constexpr std::uint64_t kBandElements = std::uint64_t{1} << 16;

// Cuts `region` into bands, and visits those that `box` has elements of, in row-major order. They
// depend on the region alone: whoever writes a box, and whoever reads it, cuts it alike.
template <typename Visit>
void for_each_band(const Box& region, const Box& box, const Visit& visit) {
  if (!tensor::intersect(region, box)) return;
  if (tensor::volume(region) <= kBandElements) return visit(region);
  std::size_t d = 0;
  while (region.extent[d] == 1) ++d;
  const std::uint64_t inner = tensor::volume(region) / region.extent[d];
  const std::uint64_t step = std::max<std::uint64_t>(1, kBandElements / inner);
  const std::uint64_t before = box.origin[d] - std::min(box.origin[d], region.origin[d]);
  const std::uint64_t end = box.origin[d] + box.extent[d] - region.origin[d];
  for (std::uint64_t at = before / step * step; at < std::min(end, region.extent[d]); at += step) {
    Box band = region;
    band.origin[d] += at;
    band.extent[d] = std::min(step, region.extent[d] - at);
    for_each_band(band, box, visit);
  }
}

// The sum over all boxes of a dataset is the dataset's checksum: the position stands in it, so
// that the order of the boxes does not matter.
std::uint64_t checksum_of_box(const tensor::Shape& shape, const Box& common,
                              std::span<const std::byte> bytes) {
  return base::xxh64(bytes, tensor::position(shape, common.origin));
}

std::uint64_t first_of(const tensor::Shape& shape, const Box& box) {
  return tensor::position(shape, box.origin);
}

std::uint64_t last_of(const tensor::Shape& shape, const Box& box) {
  tensor::Shape corner = box.origin;
  for (std::size_t d = 0; d < corner.size(); ++d) corner[d] += box.extent[d] - 1;
  return tensor::position(shape, corner);
}

// The boxes that may have elements of a band, for bands in ascending order.
class BoxesOfBand {
 public:
  BoxesOfBand(const tensor::Shape& shape, const std::vector<Box>& boxes) : shape_(shape) {
    for (const Box& box : boxes) waiting_.emplace_back(first_of(shape, box), &box);
    std::sort(waiting_.begin(), waiting_.end());
  }

  const std::vector<const Box*>& of(const Box& band) {
    std::erase_if(active_,
                  [&](const Box* box) { return last_of(shape_, *box) < first_of(shape_, band); });
    for (const std::uint64_t last = last_of(shape_, band);
         next_ < waiting_.size() && waiting_[next_].first <= last; ++next_) {
      active_.push_back(waiting_[next_].second);
    }
    return active_;
  }

 private:
  const tensor::Shape& shape_;
  std::vector<std::pair<std::uint64_t, const Box*>> waiting_;  // by their first element
  std::size_t next_ = 0;
  std::vector<const Box*> active_;
};

}  // namespace

void WrittenChecksums::begin(const std::string& dataset, const DatasetFacts& facts) {
  const std::lock_guard lock(mutex_);
  datasets_[dataset].facts = facts;
}

DatasetFacts WrittenChecksums::facts_of(const std::string& dataset) const {
  const std::lock_guard lock(mutex_);
  return datasets_.at(dataset).facts;
}

void WrittenChecksums::add(const std::string& dataset, const Box& box,
                           std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const DatasetFacts facts = facts_of(dataset);
  std::uint64_t sum = 0;
  std::size_t done = 0;
  for_each_band(tensor::whole(facts.shape), box, [&](const Box& band) {
    const Box common = *tensor::intersect(band, box);
    const std::size_t size = tensor::volume(common) * tensor::element_bytes(facts.dtype);
    sum +=
        checksum_of_box(facts.shape, common, bytes.subspan(std::exchange(done, done + size), size));
  });
  const std::lock_guard lock(mutex_);
  Written& written = datasets_.at(dataset);
  written.boxes.push_back(box);
  written.sum += sum;
}

void WrittenChecksums::require_in(const File& file) const {
  std::vector<const std::pair<const std::string, Written>*> all;
  for (const auto& entry : datasets_) all.push_back(&entry);
  base::parallel_for(all.size(), 0, [&](std::size_t i) {
    const auto& [dataset, written] = *all[i];
    if (written.boxes.empty()) return;
    const std::unique_ptr<Dataset> stored = file.open_dataset(dataset);
    if (stored->facts().shape == written.facts.shape &&
        stored->facts().dtype == written.facts.dtype && sum_in(*stored, written) == written.sum) {
      return;
    }
    throw base::input_error(file.path(), ": ", dataset, ": its elements are not what was written");
  });
}

std::uint64_t WrittenChecksums::sum_in(const Dataset& stored, const Written& written) {
  const tensor::Shape& shape = written.facts.shape;
  const std::size_t element_bytes = tensor::element_bytes(written.facts.dtype);
  const Box whole = tensor::whole(shape);
  BoxesOfBand boxes(shape, written.boxes);
  std::vector<std::byte> elements;
  std::vector<std::byte> gathered;
  std::uint64_t sum = 0;
  for_each_band(whole, whole, [&](const Box& band) {
    bool is_read = false;
    for (const Box* box : boxes.of(band)) {
      const auto common = tensor::intersect(band, *box);
      if (!common) continue;
      if (!is_read) {
        elements.resize(tensor::volume(band) * element_bytes);
        stored.read(band, elements);
        is_read = true;
      }
      if (*common == band) {
        sum += checksum_of_box(shape, band, elements);
        continue;
      }
      gathered.resize(tensor::volume(*common) * element_bytes);
      tensor::copy_common(band, elements, *common, gathered, element_bytes);
      sum += checksum_of_box(shape, *common, gathered);
    }
  });
  return sum;
}

}  // namespace ttrace::trace::hdf5
