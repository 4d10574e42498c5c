#include "judge/slices.h"

#include <cmath>
#include <limits>

#include "judge/noise_rule.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::judge::slices_test {
namespace {

using measure::Grid;
using measure::Measurement;
using tensor::Box;
using test::make_key;
using trace::Kind;

constexpr std::uint64_t kRows = 256;
constexpr std::uint64_t kColumns = 1024;
constexpr double kElements = kRows * kColumns;
constexpr double kEpsilon = 0x1p-23;

const Grid kGrid({kRows, kColumns}, {16, 16});

// Noise of `size` and values of 1 at every element.
NoiseEstimate even_noise(double size = 1e-6) {
  const double norm = size * std::sqrt(kElements);
  const std::vector<double> cells(kGrid.cells(), norm / 16);
  const double largest = 4 * size;
  return estimate_of(
      {std::sqrt(kElements), {norm, norm, norm}, {largest, largest, largest}, cells, 0}, kGrid);
}

// A candidate cut over two ranks by rows, whose elements are off by `error(row, column)` each.
template <typename Error>
Measurement measured(Error error) {
  Measurement out;
  out.cells.resize(kGrid.cells());
  for (const std::uint64_t rank : {0, 1}) {
    measure::BlockStats block;
    block.owner =
        measure::RankBoxes{{Box{{rank * kRows / 2, 0}, {kRows / 2, kColumns}}}, {rank}, ""};
    for (std::uint64_t row = rank * kRows / 2; row < (rank + 1) * kRows / 2; ++row) {
      for (std::uint64_t column = 0; column < kColumns; ++column) {
        const double d = error(row, column);
        measure::TileStats one;
        one.elements = one.finite = 1;
        one.unequal = d != 0 ? 1 : 0;
        one.sum_d2 = d * d;
        one.sum_r2 = 1;
        if (d != 0) one.largest = measure::Extreme{std::abs(d), 1, 1 + d, {row, column}};
        block.stats.merge(one);
        measure::CellSums& cell = out.cells[row / (kRows / 16) * 16 + column / (kColumns / 16)];
        cell.d2 += d * d;
        cell.a2 += 1;
      }
    }
    out.total.merge(block.stats);
    out.blocks.push_back(std::move(block));
  }
  return out;
}

SliceJudgement judged(const Measurement& measurement) {
  return judge_slices(measurement, even_noise(), kEpsilon, {});
}

TEST_CASE("a healthy tensor has no part beyond its tolerance") {
  const SliceJudgement found = judged(measured([](auto, auto) { return 1e-6; }));
  CHECK(found.beyond == 0);
  CHECK(found.found.empty());
  REQUIRE(found.worst);
  // 1 of 4 noises and 2 epsilons, widened for few directions.
  const double widening = small_sample_factor(kMostFreedomOfSlice, 3);
  CHECK(found.worst->used_share() == Catch::Approx(1 / 4.24 / widening).epsilon(0.03));
}

TEST_CASE("a fault in one shard is found, and placed") {
  // All of it is in one of two shards.
  const SliceJudgement found =
      judged(measured([](std::uint64_t row, auto) { return row < kRows / 2 ? 0 : 8e-6; }));
  REQUIRE(found.beyond > 0);
  const auto shard = std::find_if(found.found.begin(), found.found.end(), [](const Slice& slice) {
    return slice.what == Slice::What::kShard;
  });
  REQUIRE(shard != found.found.end());
  const double widening = small_sample_factor(kMostFreedomOfSlice, 3);
  CHECK(shard->ranks == std::vector<std::uint64_t>{1});
  CHECK(shard->used_share() == Catch::Approx(8 / 4.24 / widening).epsilon(0.03));
}

TEST_CASE("a fault in a sixteenth along any dimension is found and placed") {
  for (const std::size_t dim : {std::size_t{0}, std::size_t{1}}) {
    const SliceJudgement found = judged(measured([dim](std::uint64_t row, std::uint64_t column) {
      const std::uint64_t part = dim == 0 ? row / (kRows / 16) : column / (kColumns / 16);
      return part == 5 ? 9e-6 : 1e-6;
    }));
    REQUIRE(found.beyond == 1);
    const Slice& slice = found.found.front();
    CHECK(slice.what == Slice::What::kBlock);
    CHECK(slice.dim == dim);
    CHECK(slice.boxes.front() ==
          (dim == 0 ? Box{{80, 0}, {16, kColumns}} : Box{{0, 320}, {kRows, 64}}));
  }
}

TEST_CASE("a single element is held against the farthest of the noise runs") {
  const auto with_one = [](double error) {
    return judged(measured([error](std::uint64_t row, std::uint64_t column) {
      return row == 7 && column == 9 ? error : 1e-6;
    }));
  };
  CHECK(with_one(30e-6).beyond == 0);
  const SliceJudgement found = with_one(40e-6);
  REQUIRE(found.beyond == 1);
  CHECK(found.found.front().what == Slice::What::kElement);
  CHECK(found.found.front().boxes.front().origin == tensor::Shape{7, 9});
}

TEST_CASE("a small value that no noise reaches is judged by the size of the others") {
  NoiseEstimate none = even_noise();
  for (double& norm : none.norms) norm = 0;
  none.cells.clear();
  none.largest.assign(none.largest.size(), 0);
  // Among ones, a value of 0.001 that cancels: it was rounded as they were.
  const auto with_one = [&none](double error) {
    Measurement measurement = measured([error](std::uint64_t row, std::uint64_t column) {
      return row == 7 && column == 9 ? error : 0;
    });
    measurement.total.largest = measure::Extreme{error, 1e-3, 1e-3 + error, {7, 9}};
    return judge_slices(measurement, none, kEpsilon, {});
  };
  CHECK(with_one(3 * kEpsilon).beyond == 0);
  CHECK(with_one(100 * kEpsilon).beyond >= 1);
}

TEST_CASE("noise that is not finite leaves no part to judge") {
  NoiseEstimate estimate = even_noise();
  estimate.norms[1] = std::numeric_limits<double>::infinity();
  const Measurement measurement = measured([](auto, auto) { return 1.0; });
  CHECK_FALSE(judge_slices(measurement, estimate, kEpsilon, {}).worst);
}

TEST_CASE("only the worst parts are kept, and all are counted") {
  const SliceJudgement found =
      judged(measured([](std::uint64_t row, auto) { return static_cast<double>(1 + row) * 1e-3; }));
  CHECK(found.beyond == 2 + 32 + 1);
  CHECK(found.found.size() == SliceJudgement::kMostKept);
  for (std::size_t i = 1; i < found.found.size(); ++i) {
    CHECK(found.found[i - 1].used_share() >= found.found[i].used_share());
  }
}

// `measured` with every value 1, so that sums over them are sums over the errors.
template <typename Error>
Measurement scaled(Error error) {
  Measurement out = measured(error);
  out.total.sum_rc = out.total.sum_r2;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    for (std::uint64_t column = 0; column < kColumns; ++column) {
      out.total.sum_rc += error(row, column);
    }
  }
  return out;
}

SliceJudgement judged_scale(const Measurement& measurement, double coherence) {
  return judge_slices(measurement, even_noise(), kEpsilon, {}, {}, {coherence, 0, 0});
}

TEST_CASE("a wrong factor is found where noise as large would not be") {
  const Measurement factor = scaled([](auto, auto) { return 2e-6; });
  CHECK(judged(factor).beyond == 0);
  // 8 · 0.03 · 1e-6 + ε = 3.6e-7
  const SliceJudgement found = judged_scale(factor, 0.03);
  REQUIRE(found.beyond == 1);
  const Slice& slice = found.found[0];
  CHECK(slice.what == Slice::What::kScale);
  CHECK(slice.difference_norm / slice.reference_norm == Catch::Approx(2e-6).epsilon(1e-3));
  CHECK(slice.tolerance.allowed_norm() / slice.reference_norm ==
        Catch::Approx(8 * 0.03 * 1e-6 + 0x1p-23).epsilon(1e-3));
  // m·2·c·N + ε = 2e-6
  CHECK(slice.passing_multiplier() ==
        Catch::Approx((2e-6 - 0x1p-23) / (2 * 0.03 * 1e-6)).epsilon(1e-3));
  // Where noise itself lies along the tensor, that is no fault.
  CHECK(judged_scale(factor, 1).beyond == 0);
}

TEST_CASE("a wrong factor of a part is found in the part") {
  Measurement factor =
      measured([](std::uint64_t row, auto) { return row < kRows / 16 ? 3e-6 : 0; });
  for (measure::BlockStats& block : factor.blocks) block.stats.sum_rc = block.stats.sum_r2;
  factor.total.sum_rc = factor.total.sum_r2;
  for (std::size_t cell = 0; cell < 16; ++cell) {
    factor.cells[cell].along = 3e-6 * factor.cells[cell].a2;
  }
  CHECK(judged(factor).beyond == 0);
  const SliceJudgement found = judge_slices(factor, even_noise(), kEpsilon, {}, {}, {1, 0.1, 0.1});
  REQUIRE(found.beyond == 1);
  CHECK(found.found[0].what == Slice::What::kScale);
  CHECK(found.found[0].boxes == std::vector<Box>{{{0, 0}, {kRows / 16, kColumns}}});
  const double widening = small_sample_factor(kMostFreedomOfSlice, 3);
  CHECK(found.found[0].tolerance.allowed_norm() / found.found[0].reference_norm ==
        Catch::Approx(4 * widening * 0.1 * 1e-6 + 0x1p-23).epsilon(0.02));
}

TEST_CASE("errors across a tensor leave its scale alone") {
  const Measurement rounding =
      scaled([](std::uint64_t row, auto) { return row % 2 == 0 ? 2e-6 : -2e-6; });
  const SliceJudgement found = judged_scale(rounding, 0.03);
  CHECK(found.beyond == 0);
  // What a candidate has of them widens what may lie along by chance: 8 · 0.03 · 2e-6 + ε.
  const Measurement both =
      scaled([](std::uint64_t row, auto) { return row % 2 == 0 ? 2.5e-6 : -1.5e-6; });
  CHECK(judged_scale(both, 0.03).beyond == 0);
}

TEST_CASE("of what is little but noise every other run lacks the noise of the reference") {
  const Measurement smaller = scaled([](auto, auto) { return -0.35; });
  const auto beyond_in = [&](double noise) {
    return judge_slices(smaller, even_noise(noise), kEpsilon, {}, {}, {0.03, 0, 0}).beyond;
  };
  // 8 · 0.03 · 0.8 + 0.8² / 2 = 0.51
  CHECK(beyond_in(0.8) == 0);
  // 8 · 0.03 · 0.1 + 0.1² / 2 = 0.03
  CHECK(beyond_in(0.1) == 1);
}

TEST_CASE("one run may show too little of the noise that the reference has in a block") {
  Measurement smaller = scaled([](std::uint64_t row, auto) { return row < kRows / 16 ? -0.6 : 0; });
  for (measure::BlockStats& block : smaller.blocks) block.stats.sum_rc = block.stats.sum_r2;
  for (std::size_t cell = 0; cell < 16; ++cell)
    smaller.cells[cell].along = -0.6 * smaller.cells[cell].a2;
  const auto scales_beyond = [&](double noise) {
    NoiseEstimate one_run = even_noise(noise);
    one_run.norms.resize(1);
    const SliceJudgement judged = judge_slices(smaller, one_run, kEpsilon, {}, {}, {0, 0.02, 0});
    return std::count_if(judged.found.begin(), judged.found.end(),
                         [](const Slice& slice) { return slice.what == Slice::What::kScale; });
  };
  // 4 · 2.46 · 0.02 · 0.65 + (2.46 · 0.65)² / 2 = 1.4; with the noise as the run shows it 0.34.
  CHECK(scales_beyond(0.65) == 0);
  // With 0.3 it is 0.33.
  CHECK(scales_beyond(0.3) == 1);
}

TEST_CASE("what a candidate has across counts as noise of the reference too") {
  // 8 · 0.03 · 0.5 + 0.5² / 2 = 0.245; with the noise of 0.15 alone it would be 0.047.
  const auto scales_beyond = [](double along) {
    const auto off = [along](std::uint64_t row, auto) {
      return along + (row % 2 == 0 ? 0.5 : -0.5);
    };
    const SliceJudgement judged =
        judge_slices(scaled(off), even_noise(0.15), kEpsilon, {}, {}, {0.03, 0, 0});
    return std::count_if(judged.found.begin(), judged.found.end(),
                         [](const Slice& slice) { return slice.what == Slice::What::kScale; });
  };
  CHECK(scales_beyond(-0.2) == 0);
  CHECK(scales_beyond(-0.3) == 1);
}

TEST_CASE("a scale that is zero, or of few elements, is not judged") {
  Measurement empty = scaled([](auto, auto) { return 0.0; });
  empty.total.sum_r2 = empty.total.sum_rc = 0;
  CHECK(judged_scale(empty, 0.03).beyond == 0);
  Measurement few = scaled([](auto, auto) { return 2e-6; });
  few.total.finite = 15;
  CHECK(judged_scale(few, 0.03).beyond == 0);
  // A sparse tensor is zero on both sides but for a few elements.
  Measurement sparse = scaled([](auto, auto) { return 2e-6; });
  CHECK(judged_scale(sparse, 0.03).beyond == 1);
  sparse.total.unequal = 15;
  CHECK(judged_scale(sparse, 0.03).beyond == 0);
}

TEST_CASE("numbers do not count in a pattern, words with numbers do") {
  CHECK(name_pattern("layers.3.mlp.fc1") == "layers.*.mlp.fc1");
  CHECK(name_pattern("layers.10.experts.7.fc2") == "layers.*.experts.*.fc2");
  CHECK(name_pattern("router[1]") == "router[1]");
  CHECK(name_pattern("0") == "*");
  CHECK(name_pattern("").empty());
  CHECK(name_pattern("a..2.") == "a..*.");
}

TEST_CASE("tensors that are alike lend each other what they know") {
  Coherence known;
  for (int layer = 0; layer < 24; ++layer) {
    known.add(make_key("layers." + std::to_string(layer) + ".fc", Kind::kOutput), {0.1}, 1000);
    known.add(make_key("layers." + std::to_string(layer) + ".norm", Kind::kOutput), {0.3}, 1000);
  }
  // 24 of its own, 8 of the kind's: (24 · 0.01 + 8 · 0.05) / 32.
  const auto found = known.of(make_key("layers.99.fc", Kind::kOutput), 0);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == Catch::Approx(std::sqrt((24 * 0.01 + 8 * 0.05) / 32)));
  // One that none is like goes by the kind.
  CHECK(known.of(make_key("head", Kind::kOutput), 0)[0] == Catch::Approx(std::sqrt(0.05)));
  CHECK(known.of(make_key("layers.0.fc", Kind::kParamGrad), 0).empty());
}

TEST_CASE("a tensor that is unlike its kind has its own coherence") {
  Coherence known;
  for (int i = 0; i < 100; ++i) known.add(make_key("b", Kind::kGradOutput), {0.1, 0.1}, 1000);
  const trace::TensorKey key = make_key("classifier", Kind::kGradOutput);
  const auto found = known.of(key, 2, {0.19, 0.3});
  CHECK(found[0] == Catch::Approx(0.1));
  CHECK(found[1] == Catch::Approx(0.3));
  CHECK(found[2] == Catch::Approx(0.1));
  CHECK(known.of(key, 0, {std::numeric_limits<double>::infinity()})[0] == Catch::Approx(0.1));
}

TEST_CASE("parts of a dimension are alike too, and those of a kind in any") {
  Coherence known;
  for (int i = 0; i < 8; ++i) known.add(make_key("a", Kind::kOutput), {0.1, 0.4, 0}, 1000);
  const auto found = known.of(make_key("a", Kind::kOutput), 2);
  CHECK(found[1] == Catch::Approx(0.4));
  CHECK(found[2] == Catch::Approx(0.4));
  CHECK(known.of(make_key("other", Kind::kOutput), 1)[1] == Catch::Approx(0.4));
}

TEST_CASE("what an optimizer keeps has no scale to judge") {
  Coherence known;
  known.add(make_key("w.exp_avg_sq", Kind::kOptimizerState), {0.1}, 1000);
  CHECK(known.of(make_key("w.exp_avg_sq", Kind::kOptimizerState), 0).empty());
}

TEST_CASE("a single tensor whose noise lies across it by chance does not decide") {
  Coherence known;
  known.add(make_key("a", Kind::kLoss), {1e-6}, 1000);
  for (int i = 0; i < 100; ++i) known.add(make_key("b", Kind::kLoss), {0.2}, 1000);
  CHECK(known.of(make_key("a", Kind::kLoss), 0)[0] > 0.15);
}

TEST_CASE(
    "tensors of few elements do not count for their kind, and what is not finite not at all") {
  Coherence known;
  known.add(make_key("norm", Kind::kGradNorm), {1}, 1);
  CHECK(known.of(make_key("norm", Kind::kGradNorm), 0).empty());
  known.add(make_key("w", Kind::kOutput), {std::numeric_limits<double>::infinity()}, 100);
  CHECK(known.of(make_key("w", Kind::kOutput), 0).empty());
}

}  // namespace
}  // namespace ttrace::judge::slices_test
