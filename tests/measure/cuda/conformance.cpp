#include "measure/cuda/conformance.h"

#include <limits>
#include <memory>

#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/conformance_data.h"

namespace ttrace::test {

using measure::Backend;
using measure::Batch;
using measure::CellSums;
using measure::Grid;
using measure::TileStats;

namespace {

constexpr std::array<std::size_t, 13> kSizes{0,   1,    2,    31,   32,   33,    100,
                                             999, 4095, 4096, 4097, 9000, 100000};
constexpr std::size_t kLarge = 9000;  // from here on not every combination

template <typename Request>
void run(const Backend& backend, const Request& request) {
  const std::unique_ptr<Batch> batch = backend.new_batch();
  batch->add(request);
  batch->finish();
}

// A pair over a box, without cells if there is no grid.
struct PairSums {
  TileStats stats;
  std::vector<CellSums> cells;
};

PairSums pair_sums(const Backend& backend, const InputBox& r, const InputBox& c,
                   const tensor::Box& box, const Grid* grid) {
  PairSums sums;
  if (grid != nullptr) sums.cells.resize(grid->cells());
  run(backend, measure::PairRequest{r, c, box, grid, sums.cells.data(), &sums.stats});
  return sums;
}

void compare_pair(Conformance& all, const std::string& name, const Backend& backend,
                  const InputBox& r, const InputBox& c, const tensor::Box& box,
                  const Grid* grid = nullptr) {
  Case one(all, name);
  const PairSums expected = pair_sums(measure::cpu_backend(), r, c, box, grid);
  const PairSums actual = pair_sums(backend, r, c, box, grid);
  one.same(expected.stats, actual.stats);
  one.same(expected.cells, actual.cells);
}

}  // namespace

Conformance check_pairs(const Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  for (const DType dtype : kFloatTypes) {
    for (const std::size_t count : kSizes) {
      for (const Pattern pattern : kPatterns) {
        if (count > kLarge && pattern == Pattern::kNothing) continue;
        for (const std::size_t shift : {0U, 1U, 3U}) {
          if (count >= kLarge && shift != 1) continue;
          const std::string name = concat("pair of ", tensor::dtype_short_name(dtype), ", ", count,
                                          " elements, ", pattern_name(pattern), ", shift ", shift);
          const Values r(draw, dtype, count, pattern, shift);
          const Values c(draw, dtype, count, pattern, shift);
          const tensor::Box box = tensor::whole({count});
          compare_pair(all, name, backend, r.as(box), c.as(box), box);
          compare_pair(all, name + ", near", backend, r.as(box), r.changed(draw, 50).as(box), box);
          if (shift == 0) compare_pair(all, name + ", equal", backend, r.as(box), r.as(box), box);
        }
      }
    }
  }
  return all;
}

Conformance check_mixed_pairs(const Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  constexpr std::array kScales{1.0, 0.3, 1024.0};
  for (const DType r_type : kFloatTypes) {
    for (const DType c_type : tensor::kAllDTypes) {
      const std::size_t count = draw.between(1, 6000);
      const double r_scale = kScales[draw.between(0, 2)];
      const double c_scale = kScales[draw.between(0, 2)];
      const Pattern pattern = kPatterns[draw.between(0, 2)];
      const Values r(draw, r_type, count, pattern, 1, r_scale);
      const Values c(draw, c_type, count, pattern, 3, c_scale);
      const tensor::Box box = tensor::whole({count});
      compare_pair(all,
                   concat(tensor::dtype_short_name(r_type), " · ", r_scale, " against ",
                          tensor::dtype_short_name(c_type), " · ", c_scale, ", ", count,
                          " elements, ", pattern_name(pattern)),
                   backend, r.as(box), c.as(box), box);
    }
  }
  return all;
}

namespace {

// A box in a frame, both in coordinates of a tensor, which has a grid.
struct Frame {
  tensor::Shape shape;
  tensor::Box frame;
  tensor::Box box;
};

Frame draw_frame(Draw& draw) {
  Frame drawn;
  const std::size_t dims = draw.between(0, 4);
  const std::uint64_t most = dims <= 1 ? 9000 : dims == 2 ? 90 : dims == 3 ? 25 : 9;
  for (std::size_t d = 0; d < dims; ++d) {
    const std::uint64_t extent = draw.between(1, most);
    const std::uint64_t frame = draw.between(1, extent);
    const std::uint64_t at = draw.between(0, extent - frame);
    const std::uint64_t box = draw.between(draw.between(0, 9) == 0 ? 0 : 1, frame);
    drawn.shape.push_back(extent);
    drawn.frame.origin.push_back(at);
    drawn.frame.extent.push_back(frame);
    drawn.box.origin.push_back(at + draw.between(0, frame - box));
    drawn.box.extent.push_back(box);
  }
  return drawn;
}

}  // namespace

Conformance check_boxes(const Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  for (int i = 0; i < 120; ++i) {
    const Frame in = draw_frame(draw);
    const DType dtype = kFloatTypes[draw.between(0, 5)];
    const Pattern pattern = kPatterns[draw.between(0, 3)];
    const Values r(draw, dtype, tensor::volume(in.frame), pattern, draw.between(0, 3));
    // The candidate has just the box.
    const Values c(draw, draw.between(0, 3) > 0 ? dtype : DType::kFloat64, tensor::volume(in.box),
                   pattern);
    const Grid grid = Grid::over(in.shape, draw.between(1, 32));
    const std::string name =
        concat("box ", tensor::to_string(in.box), " of ", tensor::to_string(in.frame), ", ",
               tensor::dtype_short_name(dtype), ", ", pattern_name(pattern));
    compare_pair(all, name, backend, r.as(in.frame), c.as(in.box), in.box);
    compare_pair(all, concat(name, ", ", grid.cells(), " cells"), backend, r.as(in.frame),
                 c.as(in.box), in.box, &grid);
  }
  return all;
}

Conformance check_integers(const Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  constexpr std::array kTypes{DType::kInt64, DType::kUInt64};
  for (const std::size_t count : kSizes) {
    for (const DType r_type : kTypes) {
      for (const DType c_type : kTypes) {
        if (count > kLarge && r_type != c_type) continue;
        const tensor::Box box = tensor::whole({count});
        const std::string name = concat(tensor::dtype_short_name(r_type), " against ",
                                        tensor::dtype_short_name(c_type), ", ", count);
        const Values r(draw, r_type, count, Pattern::kAnyBits, 1);
        const Values c(draw, c_type, count, Pattern::kAnyBits, 0);
        compare_pair(all, name, backend, r.as(box), c.as(box), box);
        // Differences in the lowest bits, which numbers do not show.
        const Values near = r.changed(draw, 1000);
        const StoredValues as_other{near.stored().bits, c_type, 1};
        compare_pair(all, name + ", near", backend, r.as(box), {box, as_other}, box);
        compare_pair(all, name + ", equal bits", backend, r.as(box),
                     {box, {r.stored().bits, c_type, 1}}, box);
      }
    }
  }
  return all;
}

Conformance check_noise(const Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  for (int i = 0; i < 60; ++i) {
    const Frame in = draw_frame(draw);
    const DType dtype = kFloatTypes[draw.between(0, 5)];
    const Pattern pattern = i % 3 == 0 ? Pattern::kSprinkled : Pattern::kOrdinary;
    const Grid grid = Grid::over(in.shape, draw.between(1, 16));
    const Values reference(draw, dtype, tensor::volume(in.frame), pattern);
    std::vector<Values> runs;
    for (std::uint64_t run = draw.between(0, 4); run > 0; --run) {
      const DType of_run = draw.between(0, 4) == 0 ? DType::kFloat64 : dtype;
      runs.emplace_back(draw, of_run, tensor::volume(in.box), pattern, run);
    }
    Case one(all, concat("noise of ", runs.size(), " runs, ", tensor::dtype_short_name(dtype),
                         ", box ", tensor::to_string(in.box), ", ", grid.cells(), " cells"));
    const auto sums = [&](const Backend& by) {
      std::vector<measure::NoiseSums> of_runs(runs.size(),
                                              {std::vector<CellSums>(grid.cells()), 0});
      measure::NoiseRequest request{reference.as(in.frame), {}, in.box, &grid, of_runs.data()};
      for (const Values& run : runs) request.runs.push_back(run.as(in.box));
      run(by, request);
      run(by, request);  // added to what is there
      return of_runs;
    };
    const auto expected = sums(measure::cpu_backend());
    const auto actual = sums(backend);
    for (std::size_t run = 0; run < runs.size(); ++run) {
      one.same(expected[run].cells, actual[run].cells);
      one.same("largest of a run", expected[run].largest, actual[run].largest);
    }
  }
  return all;
}

Conformance check_rows(const Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  static constexpr std::array kEpsilons{1e-5, 1e-6, 1e-12, 0x1p-7};
  for (int i = 0; i < 90; ++i) {
    const DType precision = kFloatTypes[draw.between(0, 5)];
    const std::uint64_t rows = draw.between(0, 70);
    const std::uint64_t length = draw.between(1, 100);
    const DType dtype = kFloatTypes[draw.between(0, 5)];
    const Pattern pattern = kPatterns[i % 10 == 0 ? 1 : i % 10 == 1 ? 2 : 0];
    const bool has_input = i % 3 > 0;
    const tensor::Box box = tensor::whole({rows, length});
    const Values g(draw, dtype, rows * length, pattern, 1, i % 4 == 0 ? 0.7 : 1);
    const Values x(draw, dtype, rows * length, pattern);
    Case one(all,
             concat(rows, " rows of ", length, ", ", tensor::dtype_short_name(dtype), " summed in ",
                    tensor::dtype_short_name(precision), has_input ? ", with input" : ""));
    const auto sums = [&](const Backend& by) {
      std::vector<measure::ColumnSums> of_rows(
          has_input ? 1 + 2 * kEpsilons.size() : 1,
          {std::vector<double>(length, 0), std::vector<double>(length, 0)});
      measure::RowsRequest request{g.as(box), std::nullopt, length,
                                   precision, kEpsilons,    of_rows.data()};
      if (has_input) request.input = x.as(box);
      const std::unique_ptr<Batch> batch = by.new_batch();
      batch->add(request);
      batch->add(request);
      batch->finish();
      return of_rows;
    };
    const auto expected = sums(measure::cpu_backend());
    const auto actual = sums(backend);
    for (std::size_t which = 0; which < expected.size(); ++which) {
      for (std::uint64_t j = 0; j < length; ++j) {
        one.same("exact", expected[which].exact[j], actual[which].exact[j]);
        one.same("stepwise", expected[which].stepwise[j], actual[which].stepwise[j]);
      }
    }
  }
  return all;
}

Conformance check_replicas(const Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  for (const DType dtype : tensor::kAllDTypes) {
    for (const std::size_t count : kSizes) {
      if (count > kLarge) continue;
      for (const Pattern pattern : kPatterns) {
        const double scale = draw.between(0, 3) == 0 ? 0.1 : 1;
        const Values first(draw, dtype, count, pattern, draw.between(0, 3), scale);
        const std::vector<Values> others{first.changed(draw, 100), first.changed(draw, 2), first};
        Case one(all, concat("replicas of ", tensor::dtype_short_name(dtype), ", ", count,
                             " elements, ", pattern_name(pattern)));
        const auto distances = [&](const Backend& by) {
          std::vector<double> squared(others.size(), -1);
          measure::ReplicasRequest request{first.stored(), {}, squared.data()};
          for (const Values& other : others) request.others.push_back(other.stored().bits);
          run(by, request);
          return squared;
        };
        const std::vector<double> expected = distances(measure::cpu_backend());
        const std::vector<double> actual = distances(backend);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          one.same("squared distance", expected[i], actual[i]);
        }
      }
    }
  }
  return all;
}

// Requests of all types in one batch, some for the same result.
Conformance check_many_requests(const Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  std::vector<Values> values;
  std::vector<std::size_t> into;
  constexpr std::size_t kResults = 40;
  for (int i = 0; i < 400; ++i) {
    const DType dtype = kFloatTypes[draw.between(0, 5)];
    const std::size_t count = draw.between(0, 20) == 0 ? 5000 : draw.between(0, 300);
    values.emplace_back(draw, dtype, count, Pattern::kSprinkled);
    values.push_back(values.back().changed(draw, 10));
    into.push_back(draw.between(0, kResults - 1));
  }
  const auto results = [&](const Backend& by) {
    std::vector<TileStats> stats(kResults);
    const std::unique_ptr<Batch> batch = by.new_batch();
    for (std::size_t i = 0; i < into.size(); ++i) {
      // Read before add() returns: the copies do not outlive it.
      const Values r = values[2 * i];
      const Values c = values[2 * i + 1];
      const std::size_t count = r.stored().bits.size() / tensor::element_bytes(r.stored().dtype);
      const tensor::Box box = tensor::whole({count});
      measure::PairRequest request{r.as(box), c.as(box), box};
      request.stats = &stats[into[i]];
      batch->add(request);
    }
    batch->finish();
    return stats;
  };
  const std::vector<TileStats> expected = results(measure::cpu_backend());
  const std::vector<TileStats> actual = results(backend);
  for (std::size_t i = 0; i < kResults; ++i) {
    Case(all, concat("result ", i, " of many requests")).same(expected[i], actual[i]);
  }
  return all;
}

}  // namespace ttrace::test
