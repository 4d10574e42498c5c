#include "engine/audit_trace.h"

#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/host_runtime.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::audit_trace_test {
namespace {

using audit::AuditOutcome;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using trace::Kind;

constexpr std::size_t kRows = 2;
constexpr std::size_t kIn = 4;
constexpr std::size_t kOut = 3;

using Numbers = std::vector<double>;

Numbers rounded(Numbers values) {
  for (double& value : values) value = static_cast<float>(value);
  return values;
}

Numbers made_of(std::size_t count, double seed) {
  Numbers values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(seed + 1.7 * static_cast<double>(i));
  return rounded(values);
}

double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)); }

// What a step of schemas/examples/specification.json records: a linear layer, GELU and a mean
// squared error, in two micro-batches, on two data-parallel ranks that hold the same weights.
// Computed in binary64 and rounded to single precision, operation by operation.
class Step {
 public:
  // Changes a tensor between computing and recording it; nothing that follows from it sees that.
  std::function<void(const trace::TensorKey&, Numbers&)> fault = [](const trace::TensorKey&,
                                                                    Numbers&) {};
  // Changes a tensor before what follows from it is computed.
  std::function<void(const trace::TensorKey&, Numbers&)> change = [](const trace::TensorKey&,
                                                                     Numbers&) {};

  MemoryTrace made() {
    trace_ = MemoryTrace(make_mesh({{"dp", 2}}));
    weight_ = put("fc.weight", Kind::kParam, {kOut, kIn}, made_of(kOut * kIn, 1), {});
    bias_ = put("fc.bias", Kind::kParam, {kOut}, made_of(kOut, 2), {});
    Numbers main_weight(kOut * kIn, 0);
    Numbers main_bias(kOut, 0);
    for (const std::uint64_t microbatch : {0, 1}) {
      const auto [weight, bias] = run(microbatch);
      for (std::size_t i = 0; i < weight.size(); ++i) main_weight[i] += weight[i] / 2;
      for (std::size_t i = 0; i < bias.size(); ++i) main_bias[i] += bias[i] / 2;
    }
    main_weight = put("fc.weight", Kind::kMainGrad, {kOut, kIn}, main_weight, {});
    main_bias = put("fc.bias", Kind::kMainGrad, {kOut}, main_bias, {});
    double squares = 0;
    for (const double value : main_weight) squares += value * value;
    for (const double value : main_bias) squares += value * value;
    put("grad_norm", Kind::kGradNorm, {}, {std::sqrt(squares)}, {});
    return std::move(trace_);
  }

 private:
  // Returns the raw gradients of the weight and of the bias.
  std::pair<Numbers, Numbers> run(std::uint64_t microbatch) {
    const double seed = 10.0 + static_cast<double>(microbatch);
    const tensor::Shape out{kRows, kOut};
    const Numbers x =
        put("(model)", Kind::kInput, {kRows, kIn}, made_of(kRows * kIn, seed), microbatch);
    const Numbers target =
        put("(model)[target]", Kind::kInput, out, made_of(kRows * kOut, 2 * seed), microbatch);
    put("fc", Kind::kInput, {kRows, kIn}, x, microbatch);
    Numbers y(kRows * kOut, 0);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t o = 0; o < kOut; ++o) {
        double sum = 0;
        for (std::size_t i = 0; i < kIn; ++i) sum += x[r * kIn + i] * weight_[o * kIn + i];
        y[r * kOut + o] = static_cast<float>(sum) + bias_[o];
      }
    }
    y = put("fc", Kind::kOutput, out, y, microbatch);
    put("act", Kind::kInput, out, y, microbatch);
    Numbers act(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) act[i] = y[i] * phi(y[i]);
    act = put("act", Kind::kOutput, out, act, microbatch);
    double loss = 0;
    Numbers grad_act(act.size());
    for (std::size_t i = 0; i < act.size(); ++i) {
      loss += std::pow(act[i] - target[i], 2) / static_cast<double>(act.size());
      grad_act[i] = (act[i] - target[i]) / 3;
    }
    put("(model)", Kind::kOutput, {}, put("loss", Kind::kLoss, {}, {loss}, microbatch), microbatch);
    grad_act = put("act", Kind::kGradOutput, out, grad_act, microbatch);
    Numbers grad_y(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      grad_y[i] = grad_act[i] * (phi(y[i]) + y[i] * density(y[i]));
    }
    grad_y = put("fc", Kind::kGradOutput, out, grad_y, microbatch);
    Numbers weight(kOut * kIn, 0);
    Numbers bias(kOut, 0);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t o = 0; o < kOut; ++o) {
        bias[o] += grad_y[r * kOut + o];
        for (std::size_t i = 0; i < kIn; ++i) {
          weight[o * kIn + i] += grad_y[r * kOut + o] * x[r * kIn + i];
        }
      }
    }
    return {put("fc.weight", Kind::kParamGrad, {kOut, kIn}, weight, microbatch),
            put("fc.bias", Kind::kParamGrad, {kOut}, bias, microbatch)};
  }

  Numbers put(const std::string& name, Kind kind, const tensor::Shape& shape, Numbers values,
              std::optional<std::uint64_t> microbatch) {
    trace::TensorEntry entry = make_entry(name, shape, kind);
    entry.key.microbatch = microbatch;
    change(entry.key, values);
    values = rounded(std::move(values));
    Numbers recorded = values;
    fault(entry.key, recorded);
    trace_.put(entry, rounded(std::move(recorded)));
    return values;
  }

  MemoryTrace trace_;
  Numbers weight_;
  Numbers bias_;
};

specification::Specification example() {
  return specification::read_specification(std::string(TTRACE_SOURCE_DIR) +
                                           "/schemas/examples/specification.json");
}

AuditOptions options_for(unsigned threads) {
  static const specification::Specification specification = example();
  AuditOptions options;
  options.specification = &specification;
  options.specification_file = "example";
  options.execution.threads = threads;
  return options;
}

audit::AuditReport audited(const MemoryTrace& trace, unsigned threads = 1) {
  return audit_trace(trace, options_for(threads));
}

std::string first_of(const audit::AuditReport& report) {
  if (report.findings.empty()) return "nothing";
  return to_string(report.tensors[report.findings.front().shown].key);
}

void multiply(Numbers& values, double factor) {
  for (double& value : values) value *= factor;
}

TEST_CASE("a healthy step holds, and everything that is computed was judged") {
  const audit::AuditReport report = audited(Step().made());
  INFO(first_of(report));
  CHECK(report.verdict == answer::Verdict::kRight);
  CHECK(exit_code(report.verdict) == 0);
  // fc and act with input and output, the loss twice, two gradients, two raw ones; in two
  // micro-batches; and two main gradients and the norm.
  CHECK(report.coverage.tensors == 2 * 10 + 3);
  CHECK(report.coverage.judged == report.coverage.tensors);
  CHECK(report.coverage.not_judged.empty());
  CHECK(report.sharpness.worst_share <= 0.7);
  REQUIRE(report.sharpness.gradient);
  CHECK(*report.sharpness.gradient < 1e-5);
}

TEST_CASE("the audit is the same for any number of threads") {
  Step step;
  step.fault = [](const trace::TensorKey& key, Numbers& values) {
    if (key.kind == Kind::kOutput && key.name == "act") values[3] += 1e-3;
  };
  const MemoryTrace trace = step.made();
  const audit::AuditReport one = audited(trace, 1);
  const audit::AuditReport four = audited(trace, 4);
  REQUIRE(one.tensors.size() == four.tensors.size());
  for (std::size_t i = 0; i < one.tensors.size(); ++i) {
    REQUIRE(one.tensors[i].checks.size() == four.tensors[i].checks.size());
    for (std::size_t c = 0; c < one.tensors[i].checks.size(); ++c) {
      CHECK(one.tensors[i].checks[c].error == four.tensors[i].checks[c].error);
      CHECK(one.tensors[i].checks[c].bound == four.tensors[i].checks[c].bound);
    }
  }
}

TEST_CASE("the audit is the same where a device multiplies") {
  const MemoryTrace trace = Step().made();
  measure::cuda::CudaBackend backend(test::host_runtime({}), {0}, {}, measure::cpu_backend());
  measure::cuda::Costs free;  // so that even the smallest product pays
  free.staged_bytes = free.device_products = 1e18;
  free.product_start = 0;
  backend.set_costs(free);
  for (const bool exact : {true, false}) {
    AuditOptions options = options_for(1);
    options.exact = exact;
    const audit::AuditReport on_cpu = audit_trace(trace, options);
    const std::uint64_t before = test::host_runtime_counts().products;
    options.execution.backend = &backend;
    const audit::AuditReport on_device = audit_trace(trace, options);
    CHECK(test::host_runtime_counts().products > before);
    CHECK(test::host_runtime_counts().mistakes == test::Mistakes());
    CHECK(on_device.environment.backend == "cuda");
    REQUIRE(on_cpu.tensors.size() == on_device.tensors.size());
    for (std::size_t i = 0; i < on_cpu.tensors.size(); ++i) {
      REQUIRE(on_cpu.tensors[i].checks.size() == on_device.tensors[i].checks.size());
      for (std::size_t c = 0; c < on_cpu.tensors[i].checks.size(); ++c) {
        CHECK(on_cpu.tensors[i].checks[c].error == on_device.tensors[i].checks[c].error);
        CHECK(on_cpu.tensors[i].checks[c].bound == on_device.tensors[i].checks[c].bound);
      }
    }
  }
}

TEST_CASE("a wrong value is found where it is made, whatever follows from it") {
  struct Planted {
    Kind kind;
    std::string name;
  };
  const std::vector<Planted> planted{{Kind::kOutput, "fc"},         {Kind::kOutput, "act"},
                                     {Kind::kLoss, "loss"},         {Kind::kGradOutput, "act"},
                                     {Kind::kGradOutput, "fc"},     {Kind::kParamGrad, "fc.weight"},
                                     {Kind::kParamGrad, "fc.bias"}, {Kind::kMainGrad, "fc.weight"},
                                     {Kind::kMainGrad, "fc.bias"},  {Kind::kGradNorm, "grad_norm"}};
  for (const Planted& fault : planted) {
    Step step;
    step.change = [&fault](const trace::TensorKey& key, Numbers& values) {
      if (key.kind == fault.kind && key.name == fault.name && key.microbatch.value_or(1) == 1) {
        multiply(values, 1.0001);
      }
    };
    const audit::AuditReport report = audited(step.made());
    INFO(trace::kind_name(fault.kind) << " " << fault.name << ": " << first_of(report));
    REQUIRE(report.verdict == answer::Verdict::kWrong);
    CHECK(report.findings.size() == 1);
    const audit::AuditedTensor& first = report.tensors[report.findings.front().shown];
    CHECK(first.key.kind == fault.kind);
    CHECK(first.key.name == fault.name);
  }
}

TEST_CASE("a mean that was taken for a sum is named by its factor") {
  Step step;
  step.change = [](const trace::TensorKey& key, Numbers& values) {
    if (key.kind == Kind::kMainGrad) multiply(values, 2);
  };
  const audit::AuditReport report = audited(step.made());
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings.front().members.size() == 2);
  CHECK(report.findings.front().title == "main_grad of 2 parameters (fc.bias, fc.weight)");
  const audit::AuditedTensor& shown = report.tensors[report.findings.front().shown];
  REQUIRE(shown.causes.size() == 1);
  CHECK(shown.causes.front().name == "scaled");
  CHECK(shown.causes.front().evidence.starts_with("2 times the expected value"));
}

TEST_CASE("causes that were tried and do not fit are listed, the nearest first") {
  Step step;
  step.fault = [](const trace::TensorKey& key, Numbers& values) {
    if (key.kind != Kind::kMainGrad || key.name != "fc.weight") return;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] *= 2 + std::cos(static_cast<double>(i));
  };
  const audit::AuditReport report = audited(step.made());
  REQUIRE_FALSE(report.findings.empty());
  const audit::AuditedTensor& shown = report.tensors[report.findings.front().shown];
  REQUIRE_FALSE(shown.rejected.empty());
  double before = 0;
  bool scaled = false;
  for (const answer::RejectedCause& one : shown.rejected) {
    CHECK(one.unexplained >= before);
    before = one.unexplained;
    scaled |= one.name == "scaled";
    for (const answer::Cause& cause : shown.causes) CHECK(cause.name != one.name);
  }
  CHECK(scaled);
}

TEST_CASE("a product of a partial sum is allowed more, since no rank may have had the exact sum") {
  const auto bound_of_output = [](const MemoryTrace& trace) {
    for (const audit::AuditedTensor& tensor : audited(trace).tensors) {
      if (tensor.key.kind != Kind::kOutput || tensor.key.name != "fc") continue;
      if (tensor.key.microbatch == 0) {
        REQUIRE(tensor.outcome == AuditOutcome::kHolds);
        return tensor.checks.back().bound;
      }
    }
    return 0.0;
  };
  MemoryTrace trace = Step().made();
  const double exact = bound_of_output(trace);
  trace::TensorEntry input = make_entry("(model)", {kRows, kIn}, Kind::kInput);
  input.key.microbatch = 0;
  std::erase_if(trace.edit().tensors,
                [&](const trace::TensorEntry& entry) { return entry.key == input.key; });
  input.placements["dp"] = trace::Partial{};
  trace.put(input, made_of(kRows * kIn, 10));
  CHECK(exact > 0);
  CHECK(bound_of_output(trace) > exact);
}

TEST_CASE("one wrong row is named") {
  Step step;
  step.fault = [](const trace::TensorKey& key, Numbers& values) {
    if (key.kind != Kind::kParamGrad || key.name != "fc.weight") return;
    for (std::size_t i = kIn; i < 2 * kIn; ++i) values[i] = 0;
  };
  const audit::AuditReport report = audited(step.made());
  REQUIRE(report.verdict == answer::Verdict::kWrong);
  const audit::AuditedTensor& shown = report.tensors[report.findings.front().shown];
  REQUIRE(shown.broken_check() != nullptr);
  CHECK(shown.broken_check()->rows == "1 of 3 rows: 1");
}

TEST_CASE("replicas that differ, and values that are not finite, are found") {
  MemoryTrace replicas = Step().made();
  trace::TensorEntry entry = make_entry("fc.bias", {kOut}, Kind::kMainGrad);
  replicas.put_shard(entry, 1, {1, 2, 3});
  const audit::AuditReport apart = audited(replicas);
  REQUIRE(apart.verdict == answer::Verdict::kWrong);
  CHECK(first_of(apart) == to_string(entry.key));
  CHECK(apart.tensors[apart.findings.front().shown].broken_check()->operation == "replicas");

  Step step;
  step.fault = [](const trace::TensorKey& key, Numbers& values) {
    if (key.kind == Kind::kParam && key.name == "fc.bias") values[0] = std::nan("");
  };
  const audit::AuditReport nan = audited(step.made());
  REQUIRE(nan.verdict == answer::Verdict::kWrong);
  CHECK(nan.tensors[nan.findings.front().shown].broken_check()->operation == "finite values");
}

TEST_CASE("what was computed from replicas that differ is downstream of them") {
  Step step;
  // On rank 1, fc gave something else, and that is what every rank's act was computed from.
  step.fault = [](const trace::TensorKey& key, Numbers& values) {
    if (key.kind == Kind::kOutput && key.name == "act" && key.microbatch == 0) multiply(values, 2);
  };
  MemoryTrace trace = step.made();
  trace::TensorEntry output = make_entry("fc", {kRows, kOut});
  output.key.microbatch = 0;
  trace.put_shard(output, 1, Numbers(kRows * kOut, 7));
  const audit::AuditReport report = audited(trace);
  REQUIRE(report.verdict == answer::Verdict::kWrong);
  CHECK(first_of(report) == to_string(output.key));
  for (const audit::AuditedTensor& tensor : report.tensors) {
    if (tensor.key.kind != Kind::kOutput || tensor.key.name != "act") continue;
    CHECK(tensor.downstream == (tensor.key.microbatch == 0));
  }
}

TEST_CASE("without a specification too little can be judged, and the report says so") {
  const MemoryTrace trace = Step().made();
  const audit::AuditReport report = audit_trace(trace, {});
  CHECK(report.verdict == answer::Verdict::kInconclusive);
  CHECK(exit_code(report.verdict) == 3);
  CHECK(report.why.find("--specification") != std::string::npos);
  CHECK(report.coverage.judged == 1);  // the gradient norm
}

TEST_CASE("a lost rank makes a healthy run inconclusive") {
  MemoryTrace trace = Step().made();
  trace.lose_rank(1);
  const audit::AuditReport report = audited(trace);
  CHECK(report.verdict == answer::Verdict::kInconclusive);
  CHECK_FALSE(report.warnings.empty());
}

TEST_CASE("a tensor that cannot be read makes a healthy run inconclusive") {
  MemoryTrace trace = Step().made();
  trace.edit().tensors.push_back(make_entry("lost.weight", {kOut}, Kind::kParam));
  const audit::AuditReport report = audited(trace);
  CHECK(report.verdict == answer::Verdict::kInconclusive);
  CHECK(report.why.starts_with("1 tensor could not be read: "));
  const audit::AuditReport without = audit_trace(trace, {});
  CHECK(without.why.starts_with("1 tensor could not be read: "));
}

TEST_CASE("a specification of another model or batch is refused with the first difference") {
  MemoryTrace other(make_mesh({{"dp", 2}}));
  trace::TensorEntry entry = make_entry("fc", {kRows + 1, kOut});
  entry.key.microbatch = 0;
  other.put(entry, Numbers((kRows + 1) * kOut, 1));
  CHECK_THROWS_WITH(audited(other), Catch::Contains("another model, batch or precision") &&
                                        Catch::Contains("[2, 3] f32 there and [3, 3] f32"));
  MemoryTrace none(make_mesh({{"dp", 2}}));
  none.put(make_entry("something.else", {3}), Numbers(3, 1));
  CHECK_THROWS_WITH(audited(none), Catch::Contains("has no tensor of"));
}

TEST_CASE("the parameter of a step is what the step before left") {
  MemoryTrace trace = Step().made();
  trace::TensorEntry after = make_entry("fc.bias", {kOut}, Kind::kParamAfterStep);
  trace.put(after, made_of(kOut, 2));
  trace::TensorEntry next = make_entry("fc.bias", {kOut}, Kind::kParam, tensor::DType::kFloat32);
  next.key.step = 1;
  trace.put(next, made_of(kOut, 2));
  CHECK(audited(trace).findings.empty());
  trace.put_shard(next, 0, {1, 2, 3});
  trace.put_shard(next, 1, {1, 2, 3});
  const audit::AuditReport report = audited(trace);
  REQUIRE(report.verdict == answer::Verdict::kWrong);
  CHECK(report.tensors[report.findings.front().shown].broken_check()->operation == "previous step");
}

}  // namespace
}  // namespace ttrace::engine::audit_trace_test
