#include "measure/noise.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "measure/sections.h"

namespace ttrace::measure {
namespace {

class RootMeanSquare {
 public:
  // c = |⟨B - A, A⟩| / (‖B - A‖·‖A‖) of the sums.
  void add(const CellSums& sums) {
    const double squares = sums.d2 * sums.a2;
    if (!(squares > 0) || !std::isfinite(squares) || !std::isfinite(sums.along)) return;
    sum_ += std::min(1.0, sums.along * sums.along / squares);
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  double value() const { return empty() ? 0 : std::sqrt(sum_ / count_); }

 private:
  double sum_ = 0;
  double count_ = 0;
};

std::vector<double> coherence_of(const std::vector<NoiseSums>& runs, const Grid& grid) {
  RootMeanSquare whole;
  for (const NoiseSums& run : runs) {
    CellSums total;
    for (const CellSums& cell : run.cells) total.add(cell);
    whole.add(total);
  }
  if (whole.empty()) return {};
  std::vector<double> coherence{whole.value()};
  for (std::size_t d = 0; d < grid.parts().size(); ++d) {
    RootMeanSquare parts;
    if (grid.parts()[d] > 1) {
      for (const NoiseSums& run : runs) {
        for (const CellSums& part : sums_of_parts(grid, run.cells, d)) parts.add(part);
      }
    }
    coherence.push_back(parts.value());
  }
  return coherence;
}

}  // namespace

NoiseSection measure_noise_section(const Backend& backend, const TensorRef& reference,
                                   const std::vector<TensorRef>& runs, const Grid& grid,
                                   const tensor::Box& section) {
  BoxReader base(reference.open(Replicas::kFirstOnly));
  std::vector<BoxReader> readers;
  NoiseSection noise;
  for (const TensorRef& run : runs) {
    readers.emplace_back(run.open(Replicas::kFirstOnly));
    noise.runs.push_back({std::vector<CellSums>(grid.cells())});
  }
  const std::unique_ptr<Batch> batch = backend.new_batch();
  tensor::for_each_sub_box(section, kReadElements, [&](const tensor::Box& box) {
    NoiseRequest request{base.read(box), {}, box, &grid, noise.runs.data()};
    for (BoxReader& reader : readers) request.runs.push_back(reader.read(box));
    batch->add(request);
  });
  batch->finish();
  noise.bytes_read = base.tensor().bytes_read();
  for (const BoxReader& reader : readers) noise.bytes_read += reader.tensor().bytes_read();
  return noise;
}

MeasuredNoise merge_sections(const std::vector<NoiseSection>& sections, const Grid& grid) {
  std::vector<NoiseSums> runs = sections.front().runs;
  MeasuredNoise noise;
  noise.bytes_read = sections.front().bytes_read;
  for (std::size_t s = 1; s < sections.size(); ++s) {
    noise.bytes_read += sections[s].bytes_read;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const NoiseSums& later = sections[s].runs[run];
      runs[run].largest = std::max(runs[run].largest, later.largest);
      for (std::size_t cell = 0; cell < later.cells.size(); ++cell) {
        runs[run].cells[cell].add(later.cells[cell]);
      }
    }
  }
  noise.cells.resize(runs.empty() ? 0 : runs.front().cells.size(), 0);
  for (const NoiseSums& run : runs) {
    CellSums total;
    for (std::size_t cell = 0; cell < noise.cells.size(); ++cell) {
      const CellSums& here = run.cells[cell];
      total.d2 += here.d2;
      total.a2 += here.a2;
      noise.cells[cell] = std::max(noise.cells[cell], std::sqrt(here.d2));
    }
    noise.norms.push_back(std::sqrt(total.d2));
    noise.largest.push_back(run.largest);
    // Takes the largest norm: that of the run with the most finite pairs.
    noise.reference_norm = std::max(noise.reference_norm, std::sqrt(total.a2));
  }
  noise.coherence = coherence_of(runs, grid);
  return noise;
}

MeasuredNoise measure_noise(const Backend& backend, const TensorRef& reference,
                            const std::vector<TensorRef>& runs, const Grid& grid) {
  std::vector<NoiseSection> sections;
  for (const tensor::Box& section : sections_of(grid.shape())) {
    sections.push_back(measure_noise_section(backend, reference, runs, grid, section));
  }
  return merge_sections(sections, grid);
}

}  // namespace ttrace::measure
