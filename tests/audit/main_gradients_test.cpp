// Main gradients of terms that cancel between ranks, as those of a key's bias do where each rank
// has a part of the sequence.
#include "audit/main_gradients.h"

#include <cmath>

#include "specification/specifications.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::audit::main_gradients_test {
namespace {

using trace::Kind;

constexpr std::uint64_t kMicrobatches = 4;
constexpr std::uint64_t kRanks = 2;
constexpr std::size_t kElements = 16;

using Numbers = std::vector<double>;

double of_float(double value) { return static_cast<float>(value); }

// A step of one module on two ranks, whose raw gradients are terms of a sum. Every rank adds up its
// own in single precision, and the sums of the ranks are added up then.
class CutStep {
 public:
  // `cancels`: what rank 1 holds of the bias takes away what rank 0 holds, but for roundings.
  // `sums`: whether the ranks' sums are added up at all.
  CutStep(bool cancels, bool sums) : sums_(sums) {
    put("key.weight", false);
    put("key.bias", cancels);
  }

  // Returns the main gradients of the weight and of the bias.
  std::vector<AuditedTensor> judged() {
    const measure::ExecutionContext execution = test::on_threads(1);
    specification::Specification specification;
    specification.after_backward.has_main_grad = true;
    check_main_gradients({trace_, execution, norms_, std::nullopt, &specification}, tensors_);
    settle_outcomes(tensors_);
    return tensors_;
  }

 private:
  void put(const std::string& name, bool cancels) {
    std::vector<Numbers> of_rank(kRanks, Numbers(kElements, 0));
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      trace::TensorEntry raw = test::make_entry(name, {kElements}, Kind::kParamGrad);
      raw.key.microbatch = m;
      raw.placements = {{"cp", trace::Partial{trace::Reduction::kSum}}};
      trace_.put(raw, Numbers(kElements, 0));
      Numbers whole(kElements, 0);
      for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
        Numbers term(kElements);
        for (std::size_t i = 0; i < kElements; ++i) {
          const double seed = static_cast<double>(i + 100 * m) + static_cast<double>(name.size());
          const double first = std::sin(seed);
          const double last_bit = std::ldexp(std::cos(7 * seed), -24);
          const double second = cancels ? last_bit - first : std::sin(seed + 50);
          term[i] = of_float(rank == 0 ? first : second);
          whole[i] += term[i];
          of_rank[rank][i] = of_float(of_rank[rank][i] + term[i]);
        }
        trace_.put_shard(raw, rank, term);
      }
      norms_[raw.key] = norm_of(whole);
    }
    Numbers main(kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
      main[i] = of_float(of_rank[0][i] + (sums_ ? of_rank[1][i] : 0));
    }
    const trace::TensorEntry entry = test::make_entry(name, {kElements}, Kind::kMainGrad);
    trace_.put(entry, main);
    norms_[entry.key] = norm_of(main);
    AuditedTensor tensor;
    tensor.key = entry.key;
    tensor.shape = entry.shape;
    tensor.norm = norm_of(main);
    tensors_.push_back(std::move(tensor));
  }

  static double norm_of(const Numbers& values) {
    double squares = 0;
    for (const double value : values) squares += value * value;
    return std::sqrt(squares);
  }

  bool sums_;
  test::MemoryTrace trace_{test::make_mesh({{"cp", kRanks}})};
  std::map<trace::TensorKey, double> norms_;
  std::vector<AuditedTensor> tensors_;
};

TEST_CASE("a main gradient whose terms cancel between ranks is zero within their rounding") {
  const std::vector<AuditedTensor> tensors = CutStep(true, true).judged();
  CHECK(tensors[0].outcome == AuditOutcome::kHolds);
  CHECK(tensors[1].outcome == AuditOutcome::kZeroWithinRounding);
  // What is left of the terms is rounding: their sum alone would allow a millionth of that.
  const AuditCheck& check = tensors[1].checks.back();
  CHECK(check.error > 0);
  CHECK(check.allowed < 1e-5);
}

TEST_CASE("a main gradient that is never summed over ranks is found, also of terms that cancel") {
  for (const bool cancels : {false, true}) {
    INFO(cancels);
    for (const AuditedTensor& tensor : CutStep(cancels, false).judged()) {
      CHECK(tensor.outcome == AuditOutcome::kBroken);
    }
  }
}

TEST_CASE("a main gradient whose terms do not cancel may be off by a few roundings") {
  for (const AuditedTensor& tensor : CutStep(false, true).judged()) {
    CHECK(tensor.outcome == AuditOutcome::kHolds);
    CHECK(tensor.checks.back().bound < 2e-7);
  }
}

}  // namespace
}  // namespace ttrace::audit::main_gradients_test
