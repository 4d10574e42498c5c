#include "measure/measure.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "tensor/codec.h"

namespace ttrace::measure {

std::optional<std::size_t> row_dimensions(const tensor::Shape& shape, std::uint64_t rows) {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d <= shape.size(); ++d) {
    if (d > 0) {
      if (count != 0 && shape[d - 1] > rows / count) return std::nullopt;  // more rows than asked
      count *= shape[d - 1];
    }
    if (count == rows && d > 0) return d;
  }
  return std::nullopt;
}

void LeftOutRows::add(const LeftOutRows& other) {
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (other.out_[i]) out_[i] = true;
  }
}

std::uint64_t LeftOutRows::count() const {
  return static_cast<std::uint64_t>(std::count(out_.begin(), out_.end(), true));
}

void LeftOutRows::apply(const tensor::Shape& shape, const tensor::Box& box,
                        std::span<const double> reference, std::span<double> candidate) const {
  const auto dims = row_dimensions(shape, rows());
  if (!dims) return;
  const auto lead = static_cast<std::ptrdiff_t>(*dims);
  const tensor::Shape counted(shape.begin(), shape.begin() + lead);
  const tensor::Box leading{{box.origin.begin(), box.origin.begin() + lead},
                            {box.extent.begin(), box.extent.begin() + lead}};
  std::uint64_t length = 1;
  for (std::size_t d = *dims; d < shape.size(); ++d) length *= box.extent[d];
  const std::uint64_t here = tensor::volume(leading);
  for (std::uint64_t i = 0; i < here; ++i) {
    if (!out_[tensor::position(counted, tensor::coordinates(leading, i))]) continue;
    const auto from = reference.subspan(i * length, length);
    std::copy(from.begin(), from.end(),
              candidate.begin() + static_cast<std::ptrdiff_t>(i * length));
  }
}

void Roundings::apply(std::span<const double> reference, std::span<double> candidate) const {
  const auto stored = [](const StoredAs& as, double value) {
    return tensor::round_to(as.dtype, value / as.scale) * as.scale;
  };
  for (std::size_t i = 0; i < candidate.size(); ++i) {
    const double r = reference[i];
    const double c = candidate[i];
    if (r == c || !std::isfinite(r) || !std::isfinite(c)) continue;
    if (stored(candidate_, r) == c || stored(reference_, c) == r) candidate[i] = r;
  }
}

namespace {

bool is_exact(const layout::View& view) { return !tensor::is_floating(view.dtype); }

bool is_u64(const TensorRef& tensor) { return tensor.view->dtype == tensor::DType::kUInt64; }

TileStats total_of(const Measurement& measurement) {
  TileStats total;
  for (const BlockStats& block : measurement.blocks) total.merge(block.stats);
  return total;
}

// Distances of the replicas over all blocks. The n-th replica of every block has the n-th
// coordinate of the replicated axes, so the squares add up.
class ReplicaTotals {
 public:
  void add(const CheckPath& path, const ReplicaCheck& check) {
    if (check.all_equal()) return;
    differ_ = true;
    const std::vector<double> squared = check.squared_distances();
    if (squares_.size() < squared.size()) squares_.resize(squared.size(), 0);
    for (std::size_t i = 0; i < squared.size(); ++i) squares_[i] += squared[i];
    const double furthest = *std::max_element(squared.begin(), squared.end());
    if (furthest > furthest_) {
      furthest_ = furthest;
      classes_ = check.classes();
      path_ = path;
    }
  }

  void store(Measurement& measurement) const {
    measurement.replicas_differ = differ_;
    if (!differ_) return;
    const double furthest = std::sqrt(*std::max_element(squares_.begin(), squares_.end()));
    measurement.replicas = ReplicaDifference{furthest, classes_, path_};
  }

 private:
  bool differ_ = false;
  double furthest_ = -1;
  std::vector<double> squares_;
  std::vector<std::vector<std::uint64_t>> classes_;
  CheckPath path_;
};

}  // namespace

SectionMeasuring::SectionMeasuring(const Backend& backend, const TensorRef& reference,
                                   const TensorRef& candidate, const Grid* grid,
                                   const CountsAsEqual& equal)
    : backend_(backend),
      reference_(reference.open(Replicas::kFirstOnly), is_u64(reference)),
      candidate_(candidate.open(Replicas::all(backend)), is_u64(candidate)),
      shape_(reference.view->shape),
      exact_(is_exact(*reference.view) && is_exact(*candidate.view)),
      grid_(exact_ ? nullptr : grid),
      equal_(equal) {
  Measurement& sums = measured_.sums;
  for (RankBoxes& owner : candidate_.tensor().rank_boxes()) {
    sums.blocks.push_back({std::move(owner), {}});
  }
  if (grid != nullptr) sums.cells.resize(grid->cells());
}

// The cells of a grid are gathered, and values that count as equal are replaced, on the host.
void SectionMeasuring::read_numbers(BoxReader& tensor, const tensor::Box& box) const {
  if (grid_ == nullptr && !equal_.any()) {
    tensor.read_in_place(box, backend_);
  } else {
    tensor.read(box);
  }
}

void SectionMeasuring::add_integers(const tensor::Box& box, TileStats& stats, Batch& batch) {
  PairRequest request{reference_.input(), candidate_.read_integers(box), box};
  request.stats = &stats;
  batch.add(request);
}

void SectionMeasuring::add_numbers(const tensor::Box& box, TileStats& stats, Batch& batch) {
  read_numbers(candidate_, box);
  if (equal_.any()) {
    const std::span<const double> numbers = reference_.decode_input();
    reference_numbers_.resize(tensor::volume(box));
    tensor::copy_common(reference_.input().box, std::as_bytes(numbers), box,
                        std::as_writable_bytes(std::span(reference_numbers_)), sizeof(double));
    const std::span<double> replaced = candidate_.decode_input();
    if (equal_.rows != nullptr) equal_.rows->apply(shape_, box, reference_numbers_, replaced);
    if (equal_.roundings != nullptr) equal_.roundings->apply(reference_numbers_, replaced);
  }
  batch.add(PairRequest{reference_.input(), candidate_.input(), box, grid_,
                        measured_.sums.cells.data(), &stats});
}

void SectionMeasuring::add_to(Batch& batch, const tensor::Box& section) {
  for_each_read(shape_, section, candidate_.tensor().rank_boxes(), kReadElements,
                [&](const tensor::Box& box, const std::vector<OwnedBox>& parts) {
                  if (exact_) {
                    reference_.read_integers(box);
                  } else {
                    read_numbers(reference_, box);
                  }
                  for (const OwnedBox& part : parts) {
                    TileStats& stats = measured_.sums.blocks[part.owner].stats;
                    exact_ ? add_integers(part.box, stats, batch)
                           : add_numbers(part.box, stats, batch);
                  }
                });
}

MeasuredSection SectionMeasuring::take() {
  Measurement& sums = measured_.sums;
  candidate_.tensor().for_each_check([&](const CheckPath& path, const ReplicaCheck& check) {
    if (check.replicas() > 1) sums.has_replicas = true;
    const auto [known, fresh] = measured_.checks.emplace(path, check);
    if (!fresh) known->second.merge(check);
  });
  if (const auto largest = total_of(sums).largest) {
    sums.largest_place = candidate_.tensor().locate(largest->at);
  }
  sums.bytes_read = reference_.tensor().bytes_read() + candidate_.tensor().bytes_read();
  return std::move(measured_);
}

MeasuredSection measure_section(const Backend& backend, const TensorRef& reference,
                                const TensorRef& candidate, const Grid* grid,
                                const tensor::Box& section, const CountsAsEqual& equal) {
  SectionMeasuring measuring(backend, reference, candidate, grid, equal);
  const std::unique_ptr<Batch> batch = backend.new_batch();
  measuring.add_to(*batch, section);
  batch->finish();
  return measuring.take();
}

Measurement merge_sections(std::vector<MeasuredSection> sections) {
  Measurement whole;
  std::map<CheckPath, ReplicaCheck> checks;
  // The place of every section's largest difference; one of them is the largest of all.
  std::map<tensor::Shape, std::optional<ElementPlace>> places;
  for (MeasuredSection& section : sections) {
    Measurement& sums = section.sums;
    if (const auto largest = total_of(sums).largest) {
      places.emplace(largest->at, std::move(sums.largest_place));
    }
    if (whole.blocks.empty()) {
      whole.blocks = std::move(sums.blocks);
      whole.cells = std::move(sums.cells);
    } else {
      for (std::size_t b = 0; b < whole.blocks.size(); ++b) {
        whole.blocks[b].stats.merge(sums.blocks[b].stats);
      }
      for (std::size_t cell = 0; cell < whole.cells.size(); ++cell) {
        whole.cells[cell].add(sums.cells[cell]);
      }
    }
    whole.has_replicas = whole.has_replicas || sums.has_replicas;
    whole.bytes_read += sums.bytes_read;
    for (auto& [path, check] : section.checks) {
      const auto [known, fresh] = checks.try_emplace(path, std::move(check));
      if (!fresh) known->second.merge(check);
    }
  }
  whole.total = total_of(whole);
  if (whole.total.largest) whole.largest_place = places.at(whole.total.largest->at);
  ReplicaTotals replicas;
  for (const auto& [path, check] : checks) replicas.add(path, check);
  replicas.store(whole);
  return whole;
}

Measurement measure(const Backend& backend, const TensorRef& reference, const TensorRef& candidate,
                    const Grid* grid, const CountsAsEqual& equal) {
  std::vector<MeasuredSection> measured;
  for (const tensor::Box& section : sections_of(reference.view->shape)) {
    measured.push_back(measure_section(backend, reference, candidate, grid, section, equal));
  }
  return merge_sections(std::move(measured));
}

std::vector<std::vector<double>> squared_errors_by_index(const TensorRef& reference,
                                                         const TensorRef& candidate) {
  const tensor::Shape& shape = reference.view->shape;
  std::vector<std::vector<double>> errors;
  for (const std::uint64_t extent : shape) errors.emplace_back(extent, 0.0);
  const auto of_reference = reference.open(Replicas::kFirstOnly);
  const auto of_candidate = candidate.open(Replicas::kFirstOnly);
  std::vector<double> r;
  std::vector<double> c;
  tensor::for_each_sub_box(tensor::whole(shape), kReadElements, [&](const tensor::Box& box) {
    r.resize(tensor::volume(box));
    c.resize(r.size());
    of_reference->read(box, r);
    of_candidate->read(box, c);
    tensor::Shape at = box.origin;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double square = (c[i] - r[i]) * (c[i] - r[i]);
      if (square > 0 && std::isfinite(square)) {
        for (std::size_t d = 0; d < at.size(); ++d) errors[d][at[d]] += square;
      }
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < box.origin[d] + box.extent[d]) break;
        at[d] = box.origin[d];
      }
    }
  });
  return errors;
}

}  // namespace ttrace::measure
