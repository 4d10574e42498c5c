#include "comparison/checkpoint/checkpoint.h"

#include <bit>
#include <limits>

#include "base/refusal.h"
#include "comparison/checkpoint/checkpoint_lines.h"
#include "engine/compare_traces.h"
#include "engine/random_runs.h"
#include "support/catch.h"

namespace ttrace::comparison::checkpoint_test {
namespace {

using ttrace::test::make_key;
using ttrace::test::refusal_of;

// Every member is something else than what it is by default.
measure::TileStats stats() {
  measure::TileStats stats;
  stats.elements = 12;
  stats.finite = 9;
  stats.sum_d2 = std::numeric_limits<double>::infinity();
  stats.sum_d = -0.0;
  stats.sum_r2 = 0.1;
  stats.sum_c2 = std::numeric_limits<double>::denorm_min();
  stats.sum_rc = std::bit_cast<double>(std::uint64_t{0xfff8000000000123});
  stats.unequal = 3;
  stats.nonfinite_reference = 1;
  stats.nonfinite_candidate = 2;
  stats.nonfinite_equal = 4;
  stats.nonfinite_different = 5;
  stats.largest = measure::Extreme{1.5, 2, 3.5, {1, 2}};
  stats.first_nonfinite_difference = tensor::Shape{0, 1};
  return stats;
}

FinishedMeasurement measurement() {
  FinishedMeasurement finished;
  measure::Measurement& measured = finished.measurement;
  measured.total = stats();
  measured.blocks.resize(2);
  measured.blocks[0].owner =
      measure::RankBoxes{{{{0, 0}, {3, 2}}, {{0, 2}, {3, 2}}}, {0, 7}, "mb 1"};
  measured.blocks[0].stats = stats();
  measured.cells = {{1, 2}, {3, std::numeric_limits<double>::quiet_NaN()}};
  measured.has_replicas = true;
  measured.replicas_differ = true;
  measured.replicas = measure::ReplicaDifference{0.25, {{0}, {1, 2}}};
  measured.largest_place = measure::ElementPlace{3, {1, 1}};
  measured.bytes_read = std::numeric_limits<std::uint64_t>::max();
  finished.noise = judge::NoiseEstimate{1,
                                        {2, 3},
                                        {4, 5},
                                        measure::Grid({3, 4}, {1, 2}),
                                        {0.123, std::numeric_limits<double>::max()}};
  return finished;
}

std::vector<Finished> all_sorts() {
  trace::TensorKey key = make_key("d\x1b[31m é", trace::Kind::kMainGrad, 1234567);
  key.microbatch = 3;
  key.call = 1;
  key.copy = 2;
  FinishedMeasurement unreadable;
  unreadable.unreadable = "run/rank_00001.h5: is gone";
  FinishedReplay replay;
  replay.clip = 0.3;
  replay.measured = {stats(),
                     measurement().measurement.blocks,
                     1,
                     2,
                     0.5,
                     measure::ElementPlace{1, {}},
                     measure::WorstUpdate{2, {1, 1}, measure::ElementPlace{2, {3}}, 4, 5, 6},
                     7};
  FinishedReplay unplayed;
  unplayed.problem = "cannot be read";
  FinishedJudgement judged;
  judged.judgement = std::string("\0 it follows \xff", 14);
  FinishedJudgement not_judged;
  not_judged.problem = "damaged";
  return {{key, measurement()},        {make_key(""), FinishedMeasurement{}},
          {make_key("a"), unreadable}, {make_key("a"), replay},
          {make_key("a"), unplayed},   {make_key("b"), judged},
          {make_key("b"), not_judged}};
}

TEST_CASE("what is finished is one line, and the line says it again to the bit") {
  for (const Finished& finished : all_sorts()) {
    const std::string line = finished_line(finished);
    CHECK(line.find_first_not_of(
              "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= ") ==
          std::string::npos);
    const Finished again = parse_finished(line);
    CHECK(again.key == finished.key);
    CHECK(again.what.index() == finished.what.index());
    CHECK(finished_line(again) == line);
  }
  // Not only as often wrong as right: members, too.
  const auto again =
      std::get<FinishedMeasurement>(parse_finished(finished_line(all_sorts()[0])).what);
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  CHECK(bits(again.measurement.total.sum_rc) == 0xfff8000000000123);
  CHECK(bits(again.measurement.total.sum_d) == bits(-0.0));
  CHECK(again.measurement.total.largest->at == tensor::Shape{1, 2});
  CHECK(again.measurement.blocks[0].owner->boxes[1] == tensor::Box{{0, 2}, {3, 2}});
  CHECK(again.measurement.blocks[0].owner->part == "mb 1");
  CHECK(again.measurement.replicas->classes[1] == std::vector<std::uint64_t>{1, 2});
  CHECK(again.measurement.largest_place->rank == 3);
  CHECK(again.noise->grid.parts() == tensor::Shape{1, 2});
  CHECK(again.noise->largest == std::vector<double>{4, 5});
  const auto replay = std::get<FinishedReplay>(parse_finished(finished_line(all_sorts()[3])).what);
  CHECK(replay.clip == 0.3);
  CHECK(replay.measured.worst->place->local == tensor::Shape{3});
  const auto judged =
      std::get<FinishedJudgement>(parse_finished(finished_line(all_sorts()[5])).what);
  CHECK(judged.judgement == std::string("\0 it follows \xff", 14));
}

TEST_CASE("property: a line with any one byte changed, gone or doubled is refused") {
  for (const Finished& finished : all_sorts()) {
    const std::string line = finished_line(finished);
    for (std::size_t i = 0; i < line.size(); ++i) {
      std::string changed = line;
      changed[i] = changed[i] == 'A' ? 'B' : 'A';
      INFO(i);
      REQUIRE_FALSE(refusal_of([&] { parse_finished(changed); }).empty());
      REQUIRE_FALSE(refusal_of([&] { parse_finished(line.substr(0, i)); }).empty());
      std::string doubled = line;
      doubled.insert(i, 1, line[i]);
      REQUIRE_FALSE(refusal_of([&] { parse_finished(doubled); }).empty());
    }
  }
}

TEST_CASE("property: lines of real measurements survive") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    test::RandomRuns runs(seed);
    std::vector<const trace::Source*> noise;
    if (runs.has_noise) noise.push_back(&runs.noise);
    Checkpoint work(nullptr, true);
    engine::CompareOptions options;
    options.work = &work;
    engine::compare_traces(runs.reference, runs.candidate, noise, options);
    for (const std::string& line : work.lines()) {
      REQUIRE(finished_line(parse_finished(line)) == line);
    }
  }
}

}  // namespace
}  // namespace ttrace::comparison::checkpoint_test
