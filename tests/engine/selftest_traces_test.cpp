#include "engine/selftest_traces.h"

#include <cmath>

#include "report/json/selftest_report_json.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::selftest_traces_test {
namespace {

using comparison::FaultKind;
using comparison::SelftestReport;
using comparison::SelftestTensor;
using comparison::Trial;
using comparison::TrialState;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

constexpr std::size_t kRows = 32;
constexpr std::size_t kColumns = 16;
const tensor::Shape kShape{kRows, kColumns};

std::vector<double> values(double shift = 0, double phase = 1) {
  std::vector<double> made(kRows * kColumns);
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = std::sin(phase * (static_cast<double>(i) + 1)) + shift * ((i % 2 != 0U) ? 1 : -1);
  }
  return made;
}

// The tensor "a" and noise of 1e-4 on its every element.
struct Runs {
  MemoryTrace reference;
  MemoryTrace candidate;
  MemoryTrace noise;

  explicit Runs(std::map<std::string, trace::Placement> placements = {}, trace::Mesh mesh = {})
      : candidate(std::move(mesh)) {
    trace::TensorEntry entry = make_entry("a", kShape);
    reference.put(entry, values());
    noise.put(entry, values(1e-4));
    entry.placements = std::move(placements);
    candidate.put(entry, values(-1e-4));
  }

  SelftestReport tested(unsigned threads = 1, const comparison::Selection& selection = {}) const {
    CompareOptions options;
    options.execution.threads = threads;
    options.selection = selection;
    return selftest_traces(reference, candidate, {&noise}, options);
  }
};

const Trial& trial(const SelftestReport& report, FaultKind fault, std::size_t tensor = 0) {
  return report.tensors.at(tensor).trial(fault);
}

// The smallest δ with ‖C·(1 + δ) - R‖ > allowed, as the sums give it.
double limit(double allowed) {
  const std::vector<double> r = values();
  const std::vector<double> c = values(-1e-4);
  double cc = 0;
  double cd = 0;
  double dd = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    cc += c[i] * c[i];
    cd += c[i] * (c[i] - r[i]);
    dd += (c[i] - r[i]) * (c[i] - r[i]);
  }
  return (-cd + std::sqrt(cd * cd + cc * (allowed * allowed - dd))) / cc;
}

TEST_CASE("the limit of a scale error is what the tolerance allows", "[selftest]") {
  const Runs runs;
  const comparison::CompareReport compared =
      compare_traces(runs.reference, runs.candidate, {&runs.noise}, {});
  const double expected = limit(compared.results[0].comparison->tolerance.allowed_norm());
  const SelftestReport report = runs.tested();
  CHECK(report.pair == answer::Verdict::kRight);
  const Trial& scaled = trial(report, FaultKind::kScaled);
  REQUIRE(scaled.state == TrialState::kCaught);
  // The scale is judged apart, so that it is caught far earlier: noise and candidate lie across.
  CHECK(scaled.size < expected / 10);
  CHECK(scaled.size > 0x1p-23);
  CHECK(report.ladder.size() == 57);
  CHECK(report.ladder.back() == 1);
}

TEST_CASE("every δ of the ladder from the limit on is caught, and none below", "[selftest]") {
  const Runs runs;
  const SelftestReport report = runs.tested();
  const double size = trial(report, FaultKind::kScaled).size;
  for (const double delta : report.ladder) {
    MemoryTrace faulty;
    std::vector<double> made = values(-1e-4);
    for (double& value : made) {
      value = static_cast<double>(static_cast<float>(value)) * (1 + delta);
    }
    faulty.put(make_entry("a", kShape), made);
    const comparison::CompareReport compared =
        compare_traces(runs.reference, faulty, {&runs.noise}, {});
    INFO(delta);
    CHECK((compared.verdict == answer::Verdict::kWrong) == (delta >= size));
  }
}

TEST_CASE("swapped shards, dropped parts and zeroed rows are caught where there are any",
          "[selftest]") {
  const Runs plain;
  const SelftestReport whole = plain.tested();
  CHECK(trial(whole, FaultKind::kSwapped).state == TrialState::kImpossible);
  CHECK(trial(whole, FaultKind::kDropped).state == TrialState::kImpossible);
  CHECK(trial(whole, FaultKind::kStale).state == TrialState::kImpossible);
  CHECK(trial(whole, FaultKind::kRowZeroed).state == TrialState::kCaught);
  CHECK(trial(whole, FaultKind::kPartScaled).state == TrialState::kCaught);

  const Runs cut({{"tp", trace::Shard{0, std::nullopt}}}, make_mesh({{"tp", 4}}));
  const SelftestReport shards = cut.tested();
  CHECK(trial(shards, FaultKind::kSwapped).state == TrialState::kCaught);
  CHECK(trial(shards, FaultKind::kSwapped).what == "those of ranks 0 and 1");
}

TEST_CASE("the part of a rank that added nothing is not missed, that of another is", "[selftest]") {
  Runs runs({{"dp", trace::Partial{trace::Reduction::kSum}}}, make_mesh({{"dp", 2}}));
  CHECK(trial(runs.tested(), FaultKind::kDropped).state == TrialState::kUnchanged);
  const trace::TensorEntry entry = runs.candidate.manifest().tensors[0];
  std::vector<double> half = values(-1e-4);
  for (double& value : half) value /= 2;
  runs.candidate.put_shard(entry, 0, half);
  runs.candidate.put_shard(entry, 1, half);
  const SelftestReport report = runs.tested();
  CHECK(trial(report, FaultKind::kDropped).state == TrialState::kCaught);
  CHECK(trial(report, FaultKind::kDropped).what == "that of dp 1");
}

TEST_CASE("a mean without one part is still a mean over all", "[selftest]") {
  Runs runs({{"dp", trace::Partial{trace::Reduction::kMean}}}, make_mesh({{"dp", 2}}));
  const trace::TensorEntry entry = runs.candidate.manifest().tensors[0];
  // The whole is the mean of these; dropping the second leaves half of the first, which is all.
  std::vector<double> twice = values(-1e-4);
  for (double& value : twice) value *= 2;
  runs.candidate.put_shard(entry, 0, twice);
  runs.candidate.put_shard(entry, 1, std::vector<double>(twice.size(), 0));
  CHECK(trial(runs.tested(), FaultKind::kDropped).state == TrialState::kUnchanged);
}

TEST_CASE("the stale value is that of the last micro-batch before, else of another", "[selftest]") {
  MemoryTrace reference;
  for (std::uint64_t batch : {0, 1, 2}) {
    trace::TensorEntry entry = make_entry("a", kShape);
    entry.key.microbatch = batch;
    reference.put(entry, values(0, 1 + static_cast<double>(batch)));
  }
  CompareOptions options;
  options.execution.threads = 1;
  const SelftestReport report = selftest_traces(reference, reference, {}, options);
  const auto of_batch = [](int batch) {
    return "that of a · output · step 0 · mb " + std::to_string(batch);
  };
  CHECK(trial(report, FaultKind::kStale, 0).what == of_batch(1));
  CHECK(trial(report, FaultKind::kStale, 1).what == of_batch(0));
  CHECK(trial(report, FaultKind::kStale, 2).what == of_batch(1));
  for (std::size_t i : {0, 1, 2}) {
    CHECK(trial(report, FaultKind::kStale, i).state == TrialState::kCaught);
  }
}

TEST_CASE("integers take the faults that are not of size", "[selftest]") {
  MemoryTrace reference;
  std::vector<double> tokens(64);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<double>(i + 1);
  reference.put(make_entry("tokens", {8, 8}, trace::Kind::kInput, tensor::DType::kInt64), tokens);
  const SelftestReport report = selftest_traces(reference, reference, {}, {});
  CHECK(trial(report, FaultKind::kScaled).state == TrialState::kImpossible);
  CHECK(trial(report, FaultKind::kRounded).state == TrialState::kImpossible);
  CHECK(trial(report, FaultKind::kRowZeroed).state == TrialState::kCaught);
  CHECK_FALSE(comparison::checks_nothing(report.tensors[0]));
}

TEST_CASE("noise as large as the tensor checks nothing, and a rule that skips neither",
          "[selftest]") {
  MemoryTrace reference;
  MemoryTrace noise;
  for (const char* name : {"a", "b", "c"}) {
    reference.put(make_entry(name, kShape), values());
    std::vector<double> noisy = values(1e-4);
    if (name[0] == 'b') {
      for (double& value : noisy) value *= 4;
    }
    noise.put(make_entry(name, kShape), noisy);
  }
  judge::Calibration calibration;
  judge::PolicyRule rule;
  rule.names = {"c"};
  rule.skip = "known";
  calibration.rules = {rule};
  CompareOptions options;
  options.calibration = &calibration;
  const SelftestReport report = selftest_traces(reference, reference, {&noise}, options);
  REQUIRE(report.tensors.size() == 3);
  CHECK_FALSE(comparison::checks_nothing(report.tensors[0]));
  CHECK(comparison::checks_nothing(report.tensors[1]));
  CHECK(comparison::checks_nothing(report.tensors[2]));
  CHECK(report.tensors[2].unjudged == "policy:0: known");
  CHECK(comparison::exit_code(report) == 0);
}

TEST_CASE("zeros cannot be tried, and a pair that is not a match is not", "[selftest]") {
  MemoryTrace zeros;
  zeros.put(make_entry("a", kShape), std::vector<double>(kRows * kColumns, 0));
  const SelftestReport nothing = selftest_traces(zeros, zeros, {}, {});
  CHECK(comparison::exit_code(nothing) == 3);

  const Runs runs;
  const SelftestReport diverged = selftest_traces(runs.reference, zeros, {&runs.noise}, {});
  CHECK(diverged.tensors.empty());
  CHECK(comparison::exit_code(diverged) == 1);
}

TEST_CASE("the answer is the same for every number of threads", "[selftest]") {
  const Runs runs({{"tp", trace::Shard{1, std::nullopt}}}, make_mesh({{"tp", 2}}));
  const auto text = [&runs](unsigned threads) {
    SelftestReport report = runs.tested(threads);
    report.environment = {};
    return report::selftest_json(report);
  };
  const std::string one = text(1);
  CHECK(one == text(3));
}

}  // namespace
}  // namespace ttrace::engine::selftest_traces_test
