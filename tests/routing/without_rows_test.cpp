#include "routing/without_rows.h"

#include <limits>

#include "comparison/coverage.h"
#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::routing::without_rows_test {
namespace {

using comparison::CompareReport;
using judge::Outcome;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

using Table = std::vector<std::vector<double>>;

// "pack" fills three of five rows; "up" takes what it returns.
struct Run {
  Table packed{{1, 2}, {3, 4}, {5, 6}, {0, 0}, {0, 0}};
  Table gradient{{1, 1}, {1, -1}, {2, 1}, {0, 0}, {0, 0}};
  Table up{{2}, {4}, {6}, {0}, {0}};
  Table gradient_of_up{{1}, {1}, {1}, {0}, {0}};
  double loss = 1;
};

Run with_garbage() {
  Run run;
  run.packed[3] = {7, -8};
  run.packed[4] = {std::numeric_limits<double>::infinity(), 1};
  run.up[3] = {9};
  run.up[4] = {-11};
  return run;
}

void put(MemoryTrace& trace, const std::string& name, Kind kind, const Table& rows) {
  trace::TensorEntry entry = make_entry(name, {rows.size(), rows[0].size()}, kind);
  entry.key.microbatch = 0;
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  trace.put(entry, values);
}

MemoryTrace trace_of(const Run& run) {
  MemoryTrace made;
  put(made, "pack", Kind::kOutput, run.packed);
  put(made, "pack", Kind::kGradOutput, run.gradient);
  put(made, "up", Kind::kInput, run.packed);
  put(made, "up", Kind::kOutput, run.up);
  put(made, "up", Kind::kGradOutput, run.gradient_of_up);
  trace::TensorEntry loss = make_entry("loss", {1}, Kind::kLoss);
  loss.key.microbatch = 0;
  made.put(loss, {run.loss});
  trace::Module pack;
  pack.name = "pack";
  trace::Module up;
  up.name = "up";
  up.inputs = {"pack"};
  trace::Module end;
  end.name = "loss";
  end.inputs = {"up"};
  made.edit().modules = {end, pack, up};
  return made;
}

CompareReport compared(const Run& reference, const Run& candidate) {
  return engine::compare_traces(trace_of(reference), trace_of(candidate), {}, {{}, 1});
}

const comparison::TensorComparison& found(const CompareReport& out, const std::string& name,
                                          Kind kind) {
  for (const comparison::TensorComparison& result : out.results) {
    if (result.key.name == name && result.key.kind == kind) return result;
  }
  FAIL("no such tensor");
  throw std::logic_error(name);
}

TEST_CASE("rows that no gradient comes to are left out, and counted") {
  const CompareReport out = compared(Run(), with_garbage());
  CHECK(out.findings.empty());
  for (const auto& [name, kind] :
       {std::pair{"pack", Kind::kOutput}, {"up", Kind::kInput}, {"up", Kind::kOutput}}) {
    const comparison::TensorComparison& result = found(out, name, kind);
    CHECK(result.outcome == Outcome::kMatch);
    CHECK(result.rows_without_gradient == 2);
    CHECK(comparison::rows_left_out(result) == 2);
  }
}

TEST_CASE("nothing is left out where the values match") {
  const CompareReport out = compared(Run(), Run());
  CHECK(found(out, "pack", Kind::kOutput).rows_without_gradient == 0);
}

TEST_CASE("a row that has a gradient in either run counts") {
  Run trained = with_garbage();
  trained.gradient[4] = {0, 1e-30};
  CHECK(found(compared(Run(), trained), "pack", Kind::kOutput).outcome == Outcome::kDiverged);
  Run lost = Run();
  lost.gradient[4] = {1, 0};
  CHECK(found(compared(lost, with_garbage()), "pack", Kind::kOutput).outcome == Outcome::kDiverged);
}

TEST_CASE("another wrong row is a divergence, with all rows") {
  Run wrong = with_garbage();
  wrong.packed[1] = {3, 40};
  const CompareReport out = compared(Run(), wrong);
  CHECK(found(out, "pack", Kind::kOutput).outcome == Outcome::kDiverged);
  CHECK(found(out, "pack", Kind::kOutput).rows_without_gradient == 0);
}

TEST_CASE("what nothing is trained through is compared whole") {
  Run frozen;
  frozen.gradient = Table(5, {0, 0});
  Run garbage = with_garbage();
  garbage.gradient = frozen.gradient;
  CHECK(found(compared(frozen, garbage), "pack", Kind::kOutput).outcome == Outcome::kDiverged);
}

TEST_CASE("what reads such a row is judged by itself") {
  Run read = with_garbage();
  read.loss = 2;
  const CompareReport out = compared(Run(), read);
  CHECK(found(out, "pack", Kind::kOutput).outcome == Outcome::kMatch);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.results[out.findings[0].result].key.kind == Kind::kLoss);
}

}  // namespace
}  // namespace ttrace::routing::without_rows_test
