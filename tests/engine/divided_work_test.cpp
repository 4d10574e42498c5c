// A comparison in several processes, one after the other, or with an end before its end.
#include <numeric>

#include "base/bytes.h"
#include "base/refusal.h"
#include "comparison/checkpoint/checkpoint_lines.h"
#include "comparison/division.h"
#include "engine/compare_traces.h"
#include "engine/random_runs.h"
#include "engine/report_text.h"
#include "support/catch.h"

namespace ttrace::engine::divided_work_test {
namespace {

using comparison::CompareReport;
using judge::Outcome;
using test::comparable;
using test::RandomRuns;
using ttrace::test::make_entry;
using ttrace::test::MemoryTrace;
using ttrace::test::refusal_of;

struct Runs {
  RandomRuns random;
  std::vector<const trace::Source*> noise;
  unsigned threads;

  explicit Runs(std::uint32_t seed) : random(seed), threads(1 + seed % 3) {
    if (random.has_noise) noise.push_back(&random.noise);
  }

  CompareReport compared(comparison::Checkpoint* work, comparison::WorkDivision division = {},
                         const std::atomic<bool>* stop = nullptr) const {
    CompareOptions options;
    options.execution.threads = threads;
    options.work = work;
    options.division = std::move(division);
    options.stop = stop;
    return compare_traces(random.reference, random.candidate, noise, options);
  }
};

// Read by the part that it falls to, and not only known to be lost before.
bool is_read(const comparison::TensorComparison& result) {
  const bool lost = result.reason.find("which may have held it") != std::string::npos;
  return result.comparison || (result.outcome == Outcome::kUnreadable && !lost);
}

TEST_CASE("property: the parts of a comparison make the report of the whole") {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    const Runs runs(seed);
    const std::string whole = comparable(runs.compared(nullptr));
    for (const std::uint64_t of : {1, 2, 3, 7}) {
      INFO("seed " << seed << ", " << of << " parts");
      comparison::Checkpoint all;
      std::vector<std::string> names;
      std::size_t measured = 0;
      for (std::uint64_t index = 1; index <= of; ++index) {
        comparison::Checkpoint mine(nullptr, true);
        const CompareReport part = runs.compared(&mine, {comparison::PartNumber{index, of}, {}});
        for (const comparison::TensorComparison& result : part.results) {
          if (is_read(result)) ++measured;
        }
        // Whoever is first or last, every line is new.
        for (const std::string& line : mine.lines())
          REQUIRE(all.restore(comparison::parse_finished(line)));
        names.push_back(base::concat("part", index, ".json"));
      }
      const CompareReport merged = runs.compared(&all, {std::nullopt, names});
      REQUIRE(comparable(merged) == whole);
      all.require_all_taken();
      std::size_t in_whole = 0;
      for (const comparison::TensorComparison& result : merged.results) {
        if (is_read(result)) ++in_whole;
      }
      REQUIRE(measured == in_whole);
    }
  }
}

TEST_CASE("property: a comparison that goes on ends as one that was never stopped") {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const Runs runs(seed);
    std::vector<std::string> lines;
    comparison::Checkpoint first([&lines](const std::string& line) { lines.push_back(line); });
    const std::string whole = comparable(runs.compared(&first));
    for (std::size_t known = 0; known <= lines.size(); ++known) {
      INFO("seed " << seed << ", " << known << " lines");
      std::size_t anew = 0;
      comparison::Checkpoint work([&anew](const std::string&) { ++anew; });
      for (std::size_t i = 0; i < known; ++i) work.restore(comparison::parse_finished(lines[i]));
      REQUIRE(comparable(runs.compared(&work)) == whole);
      REQUIRE(anew == lines.size() - known);
    }
  }
}

TEST_CASE("property: an interrupted comparison says so, and accounts for every tensor") {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const Runs runs(seed);
    const CompareReport whole = runs.compared(nullptr);
    std::size_t to_measure = 0;
    for (const comparison::TensorComparison& result : whole.results) {
      if (result.comparison || result.outcome == Outcome::kUnreadable) ++to_measure;
    }
    for (std::size_t after = 0; after <= to_measure + 1; ++after) {
      INFO("seed " << seed << ", after " << after);
      std::atomic<bool> stop{after == 0};
      std::size_t told = 0;
      comparison::Checkpoint work([&](const std::string&) { stop = ++told >= after; });
      const CompareReport out = runs.compared(&work, {}, &stop);
      REQUIRE(out.results.size() == whole.results.size());
      std::size_t left = 0;
      std::size_t measured = 0;
      for (const comparison::TensorComparison& result : out.results) {
        if (result.reason == "interrupted") ++left;
        // Of updated parameters that were measured and not replayed, nothing is said.
        const bool updated = result.key.kind == trace::Kind::kParamAfterStep;
        if (result.comparison || result.outcome == Outcome::kUnreadable || updated) ++measured;
        REQUIRE((result.reason == "interrupted" || result.outcome != Outcome::kSkippedByRule));
      }
      REQUIRE(out.interrupted.has_value() == (left > 0));
      if (!out.interrupted) continue;
      REQUIRE(out.verdict == answer::Verdict::kInconclusive);
      REQUIRE(out.why.starts_with(
          base::concat("interrupted after ", to_measure - left, " of ", to_measure, " tensor")));
      REQUIRE(measured >= std::min(after, to_measure));
      comparable(out);  // writers take it
    }
  }
}

MemoryTrace with_tensors(std::size_t count, double off = 0) {
  MemoryTrace trace;
  for (std::size_t i = 0; i < count; ++i) {
    trace.put(make_entry(base::concat("t", i), {2}), {1, 2 + off});
  }
  return trace;
}

TEST_CASE("a part names those that measure the rest, and has the verdict of its share") {
  const MemoryTrace trace = with_tensors(4);
  CompareOptions options;
  options.division.part = comparison::PartNumber{2, 2};
  const CompareReport out = compare_traces(trace, trace, {}, options);
  CHECK(out.verdict == answer::Verdict::kRight);
  CHECK(out.counts.at(Outcome::kMatch) == 2);
  CHECK(out.counts.at(Outcome::kSkippedByRule) == 2);
  CHECK(out.results[0].reason == "in part 1 of 2");
  options.division.part = comparison::PartNumber{9, 9};
  const CompareReport none = compare_traces(trace, trace, {}, options);
  CHECK(none.verdict == answer::Verdict::kInconclusive);
  CHECK(none.counts.at(Outcome::kSkippedByRule) == 4);
}

TEST_CASE("work is dealt out by weight, the same way every time") {
  CHECK(comparison::dealt_out({}, 3).empty());
  CHECK(comparison::dealt_out({5, 1, 1, 1, 1, 1}, 2) ==
        std::vector<std::uint64_t>{0, 1, 1, 1, 1, 1});
  CHECK(comparison::dealt_out({1, 1, 1}, 1'000'000'000'000) == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(comparison::dealt_out({~0ULL, ~0ULL, ~0ULL}, 2) == std::vector<std::uint64_t>{0, 1, 0});
  std::vector<std::uint64_t> weights(1000);
  std::iota(weights.begin(), weights.end(), 1);
  std::vector<std::uint64_t> sums(7, 0);
  const std::vector<std::uint64_t> parts = comparison::dealt_out(weights, 7);
  for (std::size_t i = 0; i < weights.size(); ++i) sums[parts[i]] += weights[i];
  for (const std::uint64_t sum : sums) CHECK(sum == Catch::Approx(500500.0 / 7).epsilon(0.01));
}

TEST_CASE("copies, terms and noise runs are bytes to read") {
  MemoryTrace reference;
  MemoryTrace candidate(ttrace::test::make_mesh({{"dp", 2}, {"tp", 4}}));
  trace::TensorEntry entry = make_entry("w", {16});
  reference.put(entry, std::vector<double>(16));
  entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
  const auto bytes = [&] {
    comparison::Pair pair{
        entry.key, layout::view_of(reference.manifest().tensors[0]), layout::view_of(entry), {}};
    return comparison::bytes_to_read(pair, candidate.manifest());
  };
  const std::uint64_t sharded = bytes();
  entry.placements = {};
  const std::uint64_t copied = bytes();
  CHECK(copied - sharded == 64 * (8 - 2));
  entry.held_at["dp"] = {1};
  CHECK(copied - bytes() == 64 * 4);
}

TEST_CASE("what is known and cannot be of the tensor is refused") {
  const MemoryTrace trace = with_tensors(1);
  comparison::Checkpoint kept(nullptr, true);
  CompareOptions options;
  options.work = &kept;
  const MemoryTrace other = with_tensors(1, 1);
  compare_traces(trace, other, {}, options);
  const comparison::Finished sound = comparison::parse_finished(kept.lines().at(0));
  const auto refused = [&](auto damage) {
    comparison::Finished finished = sound;
    damage(std::get<comparison::FinishedMeasurement>(finished.what));
    comparison::Checkpoint work;
    work.restore(finished);
    options.work = &work;
    return refusal_of([&] { compare_traces(trace, other, {}, options); });
  };
  CHECK(refused([](comparison::FinishedMeasurement&) {}).empty());
  const std::string who = "what it says of t0 · output · step 0 has ";
  CHECK(refused([](auto& f) { f.measurement.total.largest->at = {2}; }) ==
        who + "an index that is not of the tensor");
  CHECK(refused([](auto& f) { f.measurement.total.largest->at = {}; }) ==
        who + "an index that is not of the tensor");
  CHECK(refused([](auto& f) {
          f.measurement.blocks[0].owner.change().boxes = {{{1}, {2}}};
        }) == who + "a box that is not of the tensor");
  CHECK(refused([](auto& f) {
          f.measurement.blocks[0].owner.change().boxes = {{{~0ULL}, {2}}};
        }) == who + "a box that is not of the tensor");
  CHECK(refused([](auto& f) { f.measurement.blocks[0].owner.change().boxes.clear(); }) ==
        who + "a shard that lies nowhere");
  CHECK(refused([](auto& f) { f.measurement.blocks[0].owner.change().ranks = {1}; }) ==
        who + "a rank that does not hold it");
  CHECK(refused([](auto& f) { f.measurement.largest_place->rank = 5; }) ==
        who + "a rank that does not hold it");
  CHECK(refused([](auto& f) { f.measurement.replicas_differ = true; }) ==
        who + "copies that differ on no rank");
  CHECK(refused([](auto& f) { f.measurement.replicas.change().classes = {{}}; }) ==
        who + "copies on no rank");
  CHECK(refused([](auto& f) { f.measurement.cells = {{}}; }) == who + "sums of another grid");
  CHECK(refused([](auto& f) { f.noise.emplace(); }) == who + "noise of another shape");
}

// The line with a few bytes changed, and a checksum that fits them.
std::string forged(const std::string& line, RandomRuns& random) {
  std::string bytes = base::from_base64(line.substr(0, line.find(' ')));
  for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
    const std::size_t at = random.below(bytes.size());
    bytes[at] = static_cast<char>(random.chance(2) ? random.below(256) : bytes[at] ^ 1);
  }
  base::ByteWriter sum;
  sum.count(base::fnv1a(bytes));
  return base::concat(base::base64(bytes), " ", base::base64(sum.bytes()));
}

TEST_CASE("property: a forged line is refused or believed, and never a crash") {
  int refused = 0;
  int believed = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    Runs runs(seed);
    comparison::Checkpoint kept(nullptr, true);
    runs.compared(&kept);
    const std::vector<std::string> lines = kept.lines();
    for (std::size_t changed = 0; changed < lines.size(); ++changed) {
      INFO("seed " << seed << ", line " << changed);
      const std::string reason = refusal_of([&] {
        comparison::Checkpoint work;
        for (std::size_t i = 0; i < lines.size(); ++i) {
          work.restore(
              comparison::parse_finished(i == changed ? forged(lines[i], runs.random) : lines[i]));
        }
        comparable(runs.compared(&work));
      });
      ++(reason.empty() ? believed : refused);
    }
  }
  CHECK(refused > 300);
  CHECK(believed > 300);
}

TEST_CASE("a merge does not measure what a part has not") {
  const MemoryTrace trace = with_tensors(2);
  comparison::Checkpoint work;
  CompareOptions options;
  options.work = &work;
  options.division.measured_by = {"a.json", "b.json"};
  CHECK(refusal_of([&] { compare_traces(trace, trace, {}, options); }) ==
        "a.json: lacks the measurement of t0 · output · step 0; run this part again to its end");
  comparison::Checkpoint extra;
  extra.restore({ttrace::test::make_key("x"), comparison::FinishedMeasurement{}});
  CHECK(refusal_of([&] { extra.require_all_taken(); }) ==
        "has x · output · step 0, which is not measured in this comparison");
}

}  // namespace
}  // namespace ttrace::engine::divided_work_test
