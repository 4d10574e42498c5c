#include "comparison/stored_before.h"

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::stored_before_test {
namespace {

using answer::Verdict;
using comparison::updates_before;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

constexpr double kThird = 1.0 / 3;
constexpr double kOneRounding = 0x1p-23;

struct Values {
  std::vector<double> values{kThird, 2, -3};
  tensor::DType dtype = tensor::DType::kFloat32;
  double scale = 1;
};

MemoryTrace with(Kind kind, const Values& stored, std::uint64_t step = 0,
                 std::optional<std::uint64_t> updates = std::nullopt) {
  MemoryTrace made;
  trace::TensorEntry entry = make_entry(kind == Kind::kInput ? "(model)" : "a", {3}, kind);
  entry.key.step = step;
  entry.dtype = stored.dtype;
  entry.scale = stored.scale;
  made.put(entry, stored.values);
  made.edit().run.updates_before = updates;
  return made;
}

comparison::CompareReport compared(const MemoryTrace& reference, const MemoryTrace& candidate) {
  return compare_traces(reference, candidate, {}, {{}, 1});
}

const Values kOff{{kThird, 2, -3 - 3 * kOneRounding}, tensor::DType::kFloat32, 1};

TEST_CASE("what was stored before the step is exact, what was computed is not") {
  for (const Kind kind : {Kind::kParam, Kind::kBuffer, Kind::kOptimizerState, Kind::kInput}) {
    CAPTURE(kind_name(kind));
    CHECK(compared(with(kind, {}), with(kind, {})).verdict == Verdict::kRight);
    const comparison::CompareReport out = compared(with(kind, {}), with(kind, kOff));
    CHECK(out.verdict == Verdict::kWrong);
    CHECK(out.results[0].reason == "1 of 3 differ");
  }
  CHECK(compared(with(Kind::kOutput, {}), with(Kind::kOutput, kOff)).verdict == Verdict::kRight);
}

TEST_CASE("parameters are computed where either process has made updates before") {
  for (const auto& [first, second] : {std::pair(0, 4), std::pair(4, 0), std::pair(3, 4)}) {
    const auto out =
        compared(with(Kind::kParam, {}, 7, first), with(Kind::kParam, kOff, 7, second));
    CHECK(out.verdict == Verdict::kRight);
    REQUIRE(out.late_start);
    CHECK(out.late_start->updates == 4);
  }
  const auto resumed = compared(with(Kind::kParam, {}, 7, 0), with(Kind::kParam, kOff, 7, 0));
  CHECK(resumed.verdict == Verdict::kWrong);
  CHECK_FALSE(resumed.late_start);
}

TEST_CASE("without a count of updates, the optimizer's entries say it, or the step") {
  trace::Manifest manifest = with(Kind::kParam, {}, 5).manifest();
  CHECK(updates_before(manifest, 5).count == 5);
  CHECK_FALSE(updates_before(manifest, 5).is_known);
  manifest.optimizer.resize(1);
  manifest.optimizer[0].step = 5;
  manifest.optimizer[0].numbers["updates"] = 1;
  CHECK(updates_before(manifest, 5).count == 0);
  manifest.optimizer[0].numbers["updates"] = 9;
  CHECK(updates_before(manifest, 5).count == 8);
  manifest.run.updates_before = 0;
  CHECK(updates_before(manifest, 5).count == 0);
  CHECK(updates_before(manifest, 6).count > 0);
}

TEST_CASE("a narrower type holds the other side's values, rounded, and no others") {
  const auto wide = tensor::DType::kFloat64;
  const Values exact{{kThird, 2, -3}, wide, 1};
  const Values above{{kThird, 2, -3 - kOneRounding / 2}, wide, 1};
  const Values beyond{{kThird, 2, -3 - 2 * kOneRounding}, wide, 1};
  const Values doubled{{2 * kThird, 4, -6}, tensor::DType::kFloat32, 0.5};
  const auto verdict = [](const Values& reference, const Values& candidate) {
    return compared(with(Kind::kParam, reference), with(Kind::kParam, candidate)).verdict;
  };
  for (const Values& narrow : {Values{}, doubled}) {
    CHECK(verdict(exact, narrow) == Verdict::kRight);
    CHECK(verdict(narrow, exact) == Verdict::kRight);
    CHECK(verdict(above, narrow) == Verdict::kRight);
    CHECK(verdict(beyond, narrow) == Verdict::kWrong);
  }
  // Both sides in one type: nothing is rounded.
  CHECK(verdict(exact, above) == Verdict::kWrong);
}

TEST_CASE("an input with a gradient is what something in front of the model computed") {
  const auto with_gradient = [](const Values& stored) {
    MemoryTrace made = with(Kind::kInput, stored);
    made.put(make_entry("(model)", {3}, Kind::kGradInput), {1, 2, 3});
    return made;
  };
  CHECK(compared(with_gradient({}), with_gradient(kOff)).verdict == Verdict::kRight);
}

}  // namespace
}  // namespace ttrace::engine::stored_before_test
