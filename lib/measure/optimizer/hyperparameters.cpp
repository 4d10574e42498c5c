#include "measure/optimizer/hyperparameters.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "measure/optimizer/step.h"
#include "trace/manifest.h"

namespace ttrace::measure {
namespace {

using base::concat;
using base::short_number;

// Takes numbers out of a group and remembers the first one that is missing or impossible.
class Taker {
 public:
  explicit Taker(const trace::OptimizerGroup& group) : group_(group) {}

  double number(const char* name, std::optional<double> otherwise) {
    const auto found = group_.numbers.find(name);
    if (found != group_.numbers.end()) return checked(name, found->second);
    if (!otherwise) fail(concat("the ", group_.type, " of the manifest has no ", name));
    return otherwise.value_or(0);
  }

  double not_negative(const char* name, std::optional<double> otherwise) {
    const double value = number(name, otherwise);
    if (value < 0) fail_at(name, value);
    return value;
  }

  double beta(std::size_t i) {
    if (group_.betas.size() != 2) {
      fail(concat("the ", group_.type, " of the manifest has no betas"));
      return 0;
    }
    const double value = checked("beta", group_.betas[i]);
    if (!(value >= 0 && value < 1)) fail_at("beta", value);
    return value;
  }

  bool flag(const char* name) const {
    const auto found = group_.switches.find(name);
    return found != group_.switches.end() && found->second;
  }

  double checked(const char* name, double value) {
    if (!std::isfinite(value)) fail_at(name, value);
    return value;
  }

  void fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  void fail_at(const char* name, double value) {
    fail(concat("an optimizer with ", name, " ", short_number(value), " does not exist"));
  }

  const std::string& problem() const { return problem_; }

 private:
  const trace::OptimizerGroup& group_;
  std::string problem_;
};

std::optional<Algorithm> algorithm_of(const std::string& type) {
  if (type == "sgd") return Algorithm::kSgd;
  if (type == "adam") return Algorithm::kAdam;
  if (type == "adamw") return Algorithm::kAdamW;
  return std::nullopt;
}

}  // namespace

ReadHyperparameters read_hyperparameters(const trace::OptimizerGroup& group) {
  const auto algorithm = algorithm_of(group.type);
  if (!algorithm) {
    return {std::nullopt,
            concat("the optimizer ", base::printable(group.type), " is none that can be replayed")};
  }
  Taker take(group);
  Hyperparameters h;
  h.algorithm = *algorithm;
  h.lr = take.not_negative("lr", std::nullopt);
  h.weight_decay = take.not_negative("weight_decay", 0);
  h.maximize = take.flag("maximize");
  const double updates = take.number("updates", std::nullopt);
  if (updates >= 1 && updates <= 0x1p53) {
    h.updates = static_cast<std::uint64_t>(updates);
  } else {
    take.fail_at("updates", updates);
  }
  if (const auto clip = group.numbers.find("clip_norm"); clip != group.numbers.end()) {
    h.clip_norm = take.checked("clip_norm", clip->second);
    if (!(*h.clip_norm > 0)) take.fail_at("clip_norm", *h.clip_norm);
    h.clipped_by = group.clipped_by;
  }
  if (h.algorithm == Algorithm::kSgd) {
    h.momentum = take.not_negative("momentum", 0);
    h.dampening = take.number("dampening", 0);
    h.nesterov = take.flag("nesterov");
  } else {
    h.beta1 = take.beta(0);
    h.beta2 = take.beta(1);
    h.eps = take.not_negative("eps", std::nullopt);
    h.amsgrad = take.flag("amsgrad");
  }
  if (!take.problem().empty()) return {std::nullopt, take.problem()};
  return {h, ""};
}

bool same_number(double a, double b) {
  constexpr double kSinglePrecision = 0x1p-23;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= kSinglePrecision * std::max(std::abs(a), std::abs(b));
}

std::string first_difference(const Hyperparameters& candidate, const Hyperparameters& reference) {
  const auto number = [](const char* name, double c, double r) {
    return same_number(c, r)
               ? std::string()
               : concat(name, " ", short_number(c), ", in the reference ", short_number(r));
  };
  const auto flag = [](const char* name, bool c, bool r) {
    return c == r ? std::string() : concat(name, c ? "" : " not", " set, unlike in the reference");
  };
  const bool sgd = candidate.algorithm == Algorithm::kSgd;
  // Without weight decay Adam and AdamW are one.
  const bool decays = candidate.weight_decay != 0 || reference.weight_decay != 0;
  if (sgd != (reference.algorithm == Algorithm::kSgd) ||
      (decays && candidate.algorithm != reference.algorithm)) {
    return "another optimizer than in the reference";
  }
  std::vector<std::string> found{
      number("lr", candidate.lr, reference.lr),
      number("weight decay", candidate.weight_decay, reference.weight_decay),
      flag("maximize", candidate.maximize, reference.maximize),
      number("clip norm", candidate.clip_norm.value_or(0), reference.clip_norm.value_or(0)),
      candidate.clipped_by == reference.clipped_by ? "" : "clipped by the norm of other gradients"};
  if (sgd) {
    found.push_back(number("momentum", candidate.momentum, reference.momentum));
    found.push_back(number("dampening", candidate.dampening, reference.dampening));
    found.push_back(flag("nesterov", candidate.nesterov, reference.nesterov));
  } else {
    found.push_back(number("beta 1", candidate.beta1, reference.beta1));
    found.push_back(number("beta 2", candidate.beta2, reference.beta2));
    found.push_back(number("eps", candidate.eps, reference.eps));
    found.push_back(flag("amsgrad", candidate.amsgrad, reference.amsgrad));
    if (candidate.updates != reference.updates) {
      found.push_back(
          concat("update ", candidate.updates, ", in the reference ", reference.updates));
    }
  }
  const auto first = std::find_if(found.begin(), found.end(),
                                  [](const std::string& text) { return !text.empty(); });
  return first == found.end() ? "" : *first;
}

}  // namespace ttrace::measure
