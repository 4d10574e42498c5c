#include "measure/measure.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "measure/box_stats.h"
#include "measure/sections.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {
namespace {

bool is_exact(const layout::View& view) { return !tensor::is_floating(view.dtype); }

TileStats total_of(const Measurement& measurement) {
  TileStats total;
  for (const BlockStats& block : measurement.blocks) total.merge(block.stats);
  return total;
}

// Distances of the replicas over all blocks: the n-th replica of every block belongs to the n-th
// coordinate of the replicate axes, so their squares add up.
class ReplicaTotals {
 public:
  void add(const CheckPath& path, const ReplicaCheck& check) {
    if (check.all_equal()) return;
    differ_ = true;
    const std::vector<double>& squared = check.squared_distances();
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
    measurement.replicas.classes = classes_;
    measurement.replicas.path = path_;
    measurement.replicas.distance_norm =
        std::sqrt(*std::max_element(squares_.begin(), squares_.end()));
  }

 private:
  bool differ_ = false;
  double furthest_ = -1;
  std::vector<double> squares_;
  std::vector<std::vector<std::uint64_t>> classes_;
  CheckPath path_;
};

}  // namespace

std::unique_ptr<TensorReader> TensorRef::open(Replicas replicas) const {
  return opener ? opener(replicas) : make_reader(*source, *view, replicas);
}

MeasuredSection measure_section(const TensorRef& reference, const TensorRef& candidate,
                                const Grid* grid, const tensor::Box& section,
                                const LeftOutRows* left_out) {
  const auto reference_tensor = reference.open(Replicas::kFirstOnly);
  const auto candidate_tensor = candidate.open(Replicas::kAll);
  const bool exact = is_exact(*reference.view) && is_exact(*candidate.view);

  MeasuredSection measured;
  Measurement& result = measured.sums;
  const std::vector<Region> regions = candidate_tensor->regions();
  for (const Region& region : regions) {
    result.blocks.push_back({region.boxes, region.ranks, {}, region.part});
  }
  if (grid != nullptr) result.cells.resize(grid->cells());

  ExactBand exact_band(reference.view->dtype, candidate.view->dtype);
  BoxValues band_values;
  BoxValues piece_values;
  std::vector<double> reference_numbers;
  const auto take_out_rows = [&](const tensor::Box& piece) {
    reference_numbers.resize(tensor::volume(piece));
    tensor::copy_common(band_values.box(), std::as_bytes(band_values.numbers()), piece,
                        std::as_writable_bytes(std::span(reference_numbers)), sizeof(double));
    left_out->apply(reference.view->shape, piece, reference_numbers, piece_values.changed());
  };
  const auto add_piece = [&](const tensor::Box& piece, TileStats& into) {
    piece_values.read(*candidate_tensor, piece);
    if (left_out != nullptr) take_out_rows(piece);
    if (grid == nullptr) return add_box(band_values, piece_values, piece, into);
    grid->for_each_part(piece, [&](std::size_t cell, const tensor::Box& part) {
      TileStats stats;
      // To look for the largest of every cell anew is to decode most tiles a second time.
      stats.largest = std::exchange(into.largest, std::nullopt);
      add_box(band_values, piece_values, part, stats);
      result.cells[cell].add(stats);
      into.largest = std::exchange(stats.largest, std::nullopt);
      into.merge(stats);
    });
  };
  for_each_band(reference.view->shape, section, regions, kBandElements,
                [&](const tensor::Box& band, const std::vector<Piece>& pieces) {
                  if (exact) {
                    exact_band.read(*reference_tensor, band);
                  } else {
                    band_values.read(*reference_tensor, band);
                  }
                  for (const Piece& piece : pieces) {
                    TileStats& into = result.blocks[piece.region].stats;
                    if (exact) {
                      exact_band.add(*candidate_tensor, piece.box, into);
                    } else {
                      add_piece(piece.box, into);
                    }
                  }
                });
  candidate_tensor->for_each_check([&](const CheckPath& path, const ReplicaCheck& check) {
    if (check.replicas() > 1) result.has_replicas = true;
    const auto [known, fresh] = measured.checks.emplace(path, check);
    if (!fresh) known->second.merge(check);
  });
  if (const auto largest = total_of(result).largest) {
    result.largest_place = candidate_tensor->locate(largest->at);
  }
  result.bytes_read = reference_tensor->bytes_read() + candidate_tensor->bytes_read();
  return measured;
}

Measurement put_together(std::vector<MeasuredSection> sections) {
  Measurement whole;
  std::map<CheckPath, ReplicaCheck> checks;
  // The section that has the largest difference of all has it as its own largest.
  std::map<tensor::Shape, std::optional<Place>> places;
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
      const auto [known, fresh] = checks.emplace(path, check);
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

Measurement measure(const TensorRef& reference, const TensorRef& candidate, const Grid* grid,
                    const LeftOutRows* left_out) {
  std::vector<MeasuredSection> measured;
  for (const tensor::Box& section : sections_of(reference.view->shape)) {
    measured.push_back(measure_section(reference, candidate, grid, section, left_out));
  }
  return put_together(std::move(measured));
}

}  // namespace ttrace::measure
