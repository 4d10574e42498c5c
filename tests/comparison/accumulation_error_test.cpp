#include "comparison/accumulation_error.h"

#include <cmath>

#include "engine/compare_traces.h"
#include "measure/cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/memory_trace.h"
#include "tensor/codec.h"

namespace ttrace::comparison::accumulation_error_test {
namespace {

using judge::Outcome;
using tensor::DType;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

constexpr std::uint64_t kTokens = 1024;
constexpr std::uint64_t kWidth = 4;

// A bf16 sum of a thousand of these loses 14 % of itself.
double term(std::uint64_t token, std::uint64_t j) {
  return 0.2 + std::sin(1.7 * static_cast<double>(token * kWidth + j));
}

// The gradient of a bias whose terms are added up in `parts` accumulators of bf16, one after the
// other.
struct Run {
  std::uint64_t parts = 1;
  double wrong = 1;  // times the gradient
  bool rounded = true;

  double sum(std::uint64_t j) const {
    double all = 0;
    for (std::uint64_t part = 0; part < parts; ++part) {
      double sum = 0;
      for (std::uint64_t t = part * kTokens / parts; t < (part + 1) * kTokens / parts; ++t) {
        sum += bf16(term(t, j));
        if (rounded) sum = bf16(sum);
      }
      all += sum;
    }
    return wrong * all;
  }

  MemoryTrace made() const {
    MemoryTrace trace;
    const auto put = [&](const std::string& name, Kind kind, tensor::Shape shape,
                         std::optional<std::uint64_t> microbatch, std::vector<double> values) {
      trace::TensorEntry entry = make_entry(name, std::move(shape), kind);
      entry.key.microbatch = microbatch;
      entry.computed_in = DType::kBFloat16;
      trace.put(entry, values);
    };
    std::vector<double> terms;
    for (std::uint64_t t = 0; t < kTokens; ++t) {
      for (std::uint64_t j = 0; j < kWidth; ++j) terms.push_back(bf16(term(t, j)));
    }
    std::vector<double> raw;
    std::vector<double> main;
    for (std::uint64_t j = 0; j < kWidth; ++j) {
      raw.push_back(sum(j));
      main.push_back(0.5 * raw.back());
    }
    put("m", Kind::kGradOutput, {kTokens / 8, 8, kWidth}, 0, terms);
    put("m.bias", Kind::kParamGrad, {kWidth}, 0, raw);
    put("m.bias", Kind::kMainGrad, {kWidth}, {}, main);
    return trace;
  }

  static double bf16(double value) { return tensor::round_to(DType::kBFloat16, value); }
};

CompareReport compared(const Run& reference, const Run& candidate, bool noise = false) {
  const MemoryTrace r = reference.made();
  const MemoryTrace c = candidate.made();
  if (!noise) return engine::compare_traces(r, c, {}, {});
  // A perturbed run loses the same small terms to the same large sum, and tells nothing of it.
  Run perturbed = reference;
  perturbed.wrong *= 1 + 1e-6;
  const MemoryTrace n = perturbed.made();
  return engine::compare_traces(r, c, {&n}, {});
}

const TensorComparison& result_of(const CompareReport& report, Kind kind) {
  for (const TensorComparison& result : report.results) {
    if (result.key.kind == kind) return result;
  }
  throw std::logic_error("no such tensor");
}

// Learned from a healthy miniature in bf16 with sequence parallelism: the reference adds up 1,024
// tokens, every rank 512, and LayerNorm's gradients stood at 2.69 of their limit.
TEST_CASE("what the reference lost in its own accumulator is allowed to the candidate") {
  Run candidate;
  candidate.parts = 8;
  for (const bool noise : {false, true}) {
    const auto report = compared({}, candidate, noise);
    for (const Kind kind : {Kind::kParamGrad, Kind::kMainGrad}) {
      const TensorComparison& result = result_of(report, kind);
      CHECK(relative_error(result.comparison->measurement) > 0.05);
      CHECK(result.outcome == Outcome::kMatch);
      CHECK(rule_text(result.comparison->tolerance) ==
            (noise ? "noise_and_sum" : "fallback_and_sum"));
    }
  }
}

TEST_CASE("no more is allowed than the reference lost") {
  Run candidate;
  candidate.parts = 2;
  candidate.wrong = 2;
  const auto report = compared({}, candidate, true);
  CHECK(result_of(report, Kind::kParamGrad).outcome == Outcome::kDiverged);
  CHECK(result_of(report, Kind::kMainGrad).outcome == Outcome::kDiverged);
}

TEST_CASE("a reference with a wide accumulator lost nothing") {
  Run reference;
  reference.rounded = false;
  Run candidate = reference;
  candidate.wrong = 1.2;
  const TensorComparison result = result_of(compared(reference, candidate), Kind::kParamGrad);
  CHECK(result.outcome == Outcome::kDiverged);
  CHECK(result.comparison->tolerance.own_rounding <
        0x1p-7 * measure::reference_norm(result.comparison->measurement.total));
}

TEST_CASE("what is no sum of the recorded terms is judged as ever") {
  Run reference;
  reference.wrong = 3;
  Run candidate;
  candidate.wrong = 3.5;
  const TensorComparison result = result_of(compared(reference, candidate), Kind::kParamGrad);
  CHECK(result.outcome == Outcome::kDiverged);
  CHECK(result.comparison->own_rounding->empty());
  CHECK(rule_text(result.comparison->tolerance) == "fallback");
}

TEST_CASE("without the gradients of the outputs there is nothing to tell by") {
  const auto without_gradients = [](double wrong, std::uint64_t parts) {
    Run run;
    run.wrong = wrong;
    run.parts = parts;
    MemoryTrace trace = run.made();
    std::erase_if(trace.edit().tensors,
                  [](const auto& entry) { return entry.key.kind == Kind::kGradOutput; });
    return trace;
  };
  const MemoryTrace r = without_gradients(1, 1);
  const MemoryTrace n = without_gradients(1 + 1e-6, 1);
  const auto report = engine::compare_traces(r, without_gradients(1, 2), {&n}, {});
  CHECK(result_of(report, Kind::kParamGrad).outcome == Outcome::kDiverged);
  CHECK(result_of(report, Kind::kMainGrad).outcome == Outcome::kDiverged);
}

TEST_CASE("raw gradients that cancel may be added up in another order") {
  const std::vector<double> raw{0.0893645436, -0.0233935304, -0.0510296077, -0.0144436231};
  const auto with_sum = [&](double sum, double first = 0.0893645436) {
    MemoryTrace trace;
    for (std::uint64_t mb = 0; mb < raw.size(); ++mb) {
      trace::TensorEntry entry = make_entry("m.bias", {1}, Kind::kParamGrad);
      entry.key.microbatch = mb;
      trace.put(entry, {mb == 0 ? first : raw[mb]});
    }
    trace.put(make_entry("m.bias", {1}, Kind::kMainGrad), {sum});
    return trace;
  };
  const auto outcome = [&](double sum, double of_candidate) {
    const MemoryTrace r = with_sum(sum);
    const MemoryTrace n = with_sum(sum, 0.08936455);  // by chance its sum shows no noise
    return result_of(engine::compare_traces(r, with_sum(of_candidate), {&n}, {}), Kind::kMainGrad)
        .outcome;
  };
  const double sum = raw[0] + raw[1] + raw[2] + raw[3];
  const double rounding = 0x1p-24 * 0.0893645436;  // of the largest term
  CHECK(outcome(sum, sum + 2 * rounding) == Outcome::kMatch);
  CHECK(outcome(sum, sum + 40 * rounding) == Outcome::kDiverged);
  const double sum_of_three = raw[0] + raw[1] + raw[2];
  CHECK(outcome(sum, sum_of_three) == Outcome::kDiverged);
}

// 300 rows of 3 numbers.
struct Rows {
  Rows() : gradient(), input() {
    for (int i = 0; i < 900; ++i) {
      gradient.push_back(0.25 + std::sin(i));
      input.push_back(2 + std::cos(3 * i));
    }
    trace.put(make_entry("g", {100, 3, 3}), gradient);
    trace.put(make_entry("x", {100, 3, 3}), input);
  }

  std::vector<measure::ColumnSums> sums(bool with_input, DType precision = DType::kFloat64,
                                        std::uint64_t threads = 1) const {
    const measure::TensorRef g(&trace, &trace.manifest().tensors[0]);
    const measure::TensorRef x(&trace, &trace.manifest().tensors[1]);
    return sum_rows(measure::cpu_backend(), g, with_input ? &x : nullptr, precision, threads);
  }

  // Of g·(x - shift)/√(spread + ε), where `layer` tells how a row is normalised.
  std::vector<double> normalised(bool layer, double epsilon) const {
    std::vector<double> sum(3, 0);
    for (std::size_t at = 0; at < 900; at += 3) {
      const double* x = &input[at];
      const double mean = layer ? (x[0] + x[1] + x[2]) / 3 : 0;
      double spread = 0;
      for (int j = 0; j < 3; ++j) spread += (x[j] - mean) * (x[j] - mean) / 3;
      for (std::size_t j = 0; j < 3; ++j) {
        sum[j] += gradient[at + j] * (x[j] - mean) / std::sqrt(spread + epsilon);
      }
    }
    return sum;
  }

  std::vector<double> gradient;
  std::vector<double> input;
  MemoryTrace trace;
};

// `trace` holds f32.
void check_near(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t j = 0; j < a.size(); ++j) CHECK(a[j] == Catch::Approx(b[j]).margin(1e-4));
}

TEST_CASE("a bias adds up its rows") {
  const Rows rows;
  const auto sums = rows.sums(false);
  REQUIRE(sums.size() == 1);
  std::vector<double> expected(3, 0);
  for (std::size_t i = 0; i < 900; ++i) expected[i % 3] += rows.gradient[i];
  check_near(sums[0].exact, expected);
  check_near(sums[0].stepwise, expected);
}

TEST_CASE("norms add up their normalised rows") {
  const Rows rows;
  const auto sums = rows.sums(true);
  REQUIRE(sums.size() == 9);
  check_near(sums[1].exact, rows.normalised(true, 1e-5));
  check_near(sums[2].exact, rows.normalised(true, 1e-6));
  check_near(sums[5].exact, rows.normalised(false, 1e-5));
}

TEST_CASE("an accumulator of a narrow type rounds after every term") {
  const Rows rows;
  const auto sums = rows.sums(false, DType::kBFloat16);
  CHECK(std::abs(sums[0].stepwise[0] - sums[0].exact[0]) > 0.1);
  const auto found = accumulated_rounding(sums[0].stepwise, sums);
  REQUIRE(found);
  CHECK((*found)[0] == std::abs(sums[0].stepwise[0] - sums[0].exact[0]));
}

TEST_CASE("each of several threads has an accumulator of its own") {
  const Rows rows;
  for (const std::uint64_t threads : {2, 7, 299, 1000}) {
    const std::uint64_t of_thread = (300 + threads - 1) / threads;
    std::vector<double> expected(3, 0);
    std::vector<double> part(3, 0);
    for (std::uint64_t row = 0; row < 300; ++row) {
      for (std::size_t j = 0; j < 3; ++j) {
        const auto term = static_cast<float>(rows.gradient[row * 3 + j]);
        part[j] = tensor::round_to(DType::kBFloat16, part[j] + term);
        if ((row + 1) % of_thread != 0 && row != 299) continue;
        expected[j] += part[j];
        part[j] = 0;
      }
    }
    const auto sums = rows.sums(true, DType::kBFloat16, threads);
    CHECK(sums[0].stepwise == expected);
    check_near(sums[0].exact, rows.sums(false)[0].exact);
    check_near(sums[1].exact, rows.normalised(true, 1e-5));
  }
}

TEST_CASE("the bias of a convolution adds up the positions of all images") {
  const tensor::Shape shape{24, 4, 5, 7};
  std::vector<double> terms(24 * 4 * 35);
  std::vector<double> exact(4, 0);
  std::vector<double> stepwise(4, 0);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    terms[i] = tensor::round_to(DType::kBFloat16, 0.2 + std::sin(1.7 * static_cast<double>(i)));
    const std::size_t channel = i / 35 % 4;
    exact[channel] += terms[i];
    stepwise[channel] = tensor::round_to(DType::kBFloat16, stepwise[channel] + terms[i]);
  }
  MemoryTrace trace;
  trace::TensorEntry gradient = make_entry("c", shape, Kind::kGradOutput);
  gradient.key.microbatch = 0;
  trace.put(gradient, terms);
  const auto sums = sum_channels({&trace, &gradient}, DType::kBFloat16);
  check_near(sums.exact, exact);
  CHECK(sums.stepwise == stepwise);

  const auto made = [&](const std::vector<double>& bias) {
    MemoryTrace run;
    trace::TensorEntry output = gradient;
    output.computed_in = DType::kBFloat16;
    run.put(output, terms);
    trace::TensorEntry raw = make_entry("c.bias", {4}, Kind::kParamGrad);
    raw.key.microbatch = 0;
    raw.computed_in = DType::kBFloat16;
    run.put(raw, bias);
    return run;
  };
  const auto outcome = [&](const std::vector<double>& of_reference, double by) {
    std::vector<double> of_candidate = exact;
    for (double& value : of_candidate) value *= by;
    const CompareReport out =
        engine::compare_traces(made(of_reference), made(of_candidate), {}, {});
    for (const TensorComparison& result : out.results) {
      if (result.key.kind == Kind::kParamGrad) return result.outcome;
    }
    return Outcome::kMissing;
  };
  // Beyond the tolerance of bf16, and within twice what rounding after every term loses.
  std::vector<double> lost = exact;
  for (std::size_t c = 0; c < 4; ++c) lost[c] += 1.9 * (stepwise[c] - exact[c]);
  CHECK(outcome(lost, 1) == Outcome::kMatch);
  CHECK(outcome(lost, 1.5) == Outcome::kDiverged);
  lost[0] += 4 * (stepwise[0] - exact[0]);
  CHECK(outcome(lost, 1) == Outcome::kDiverged);
}

TEST_CASE("what is farther off than such an accumulator was made in another way") {
  const std::vector<measure::ColumnSums> sums{{{1, 2}, {1.125, 2}}};
  CHECK(accumulated_rounding({1.25, 2}, sums));
  CHECK_FALSE(accumulated_rounding({1.26, 2}, sums));
  CHECK_FALSE(accumulated_rounding({std::nan(""), 2}, sums));
  CHECK_FALSE(accumulated_rounding({1, 2}, {}));
  // Where rounding adds nothing, only the sum itself is such a sum.
  CHECK(accumulated_rounding({1, 2}, {{{1, 2}, {1, 2}}}) == std::vector<double>{0, 0});
}

// Learned from the value head of a healthy policy on a GPU: eight terms whose sum is a hundredth of
// one, which the only noise run added up to the same bits as the reference.
TEST_CASE("a sum in single precision whose terms cancel may lose a rounding of its terms") {
  const std::vector<double> terms{0.0625, -0.046875, 0.09375, -0.078125, 0.03125, -0.0615234375};
  double sum = 0;
  for (const double one : terms) sum += one;
  const auto trace_with = [&](double off, DType type, double output = 1) {
    MemoryTrace made;
    const auto put = [&](const std::string& name, Kind kind, const tensor::Shape& shape,
                         const std::vector<double>& values) {
      trace::TensorEntry entry = make_entry(name, shape, kind);
      entry.key.microbatch = 0;
      if (type != DType::kFloat32) entry.computed_in = type;
      made.put(entry, values);
    };
    put("v", Kind::kOutput, {2}, {output, 1});
    put("v", Kind::kGradOutput, {terms.size(), 1}, terms);
    put("v.bias", Kind::kParamGrad, {1}, {sum + off});
    return made;
  };
  const auto outcome_with = [&](double off, DType type = DType::kFloat32) {
    const MemoryTrace noise = trace_with(0, type, 1.01);
    return result_of(
               engine::compare_traces(trace_with(0, type), trace_with(off, type), {&noise}, {}),
               Kind::kParamGrad)
        .outcome;
  };
  REQUIRE(sum < 0.001);
  // Half an ε of Σ|g| = 0.37 is 2.2e-8, and 24 ε of the sum 2.8e-9.
  CHECK(outcome_with(1.5e-8) == Outcome::kMatch);
  CHECK(outcome_with(4e-8) == Outcome::kDiverged);
  // A narrow accumulator may lose so much that faults would hide: only what it did lose counts.
  CHECK(outcome_with(0.5 * sum, DType::kBFloat16) == Outcome::kDiverged);
}

}  // namespace
}  // namespace ttrace::comparison::accumulation_error_test
