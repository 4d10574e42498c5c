#include "replay/audit/record.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include "base/text.h"
#include "judge/slices.h"
#include "replay/audit/recording_line.h"

namespace ttrace::replay {

using trace::Kind;

namespace {

constexpr double kLeastCoverage = 0.5;

// A check that says what the value must be. The others hold of any value.
bool judges_value(const AuditCheck& check) {
  return check.operation != "replicas" && check.operation != "finite values";
}

AuditOutcome outcome_of(const AuditedTensor& tensor) {
  if (tensor.broken_check() != nullptr) return AuditOutcome::kBroken;
  for (const AuditCheck& check : tensor.checks) {
    if (judges_value(check) && check.result == CheckResult::kConsistent) {
      return AuditOutcome::kHolds;
    }
  }
  return tensor.outcome == AuditOutcome::kGiven ? AuditOutcome::kGiven : AuditOutcome::kNotJudged;
}

bool is_of_parameter(Kind kind) {
  return kind == Kind::kParam || kind == Kind::kParamGrad || kind == Kind::kMainGrad ||
         kind == Kind::kParamAfterStep;
}

bool is_gradient(Kind kind) { return kind == Kind::kParamGrad || kind == Kind::kMainGrad; }

std::string title_of(const std::vector<AuditedTensor>& tensors,
                     const std::vector<std::size_t>& members) {
  constexpr std::size_t kMostPatterns = 3;
  std::set<std::string> names;
  std::set<std::string> patterns;
  std::set<std::optional<std::uint64_t>> microbatches;
  for (const std::size_t i : members) {
    const trace::TensorKey& key = tensors[i].key;
    names.insert(key.name);
    patterns.insert(judge::name_pattern(key.name));
    microbatches.insert(key.microbatch);
  }
  const Kind kind = tensors[members.front()].key.kind;
  std::string title = base::concat(kind_name(kind), " of ");
  if (names.size() == 1) {
    title += *names.begin();
  } else {
    std::string list;
    std::size_t listed = 0;
    for (const std::string& pattern : patterns) {
      if (listed++ == kMostPatterns) {
        list += base::concat(" and ", patterns.size() - kMostPatterns, " more");
        break;
      }
      list += base::concat(list.empty() ? "" : ", ", pattern);
    }
    title += base::concat(names.size(), is_of_parameter(kind) ? " parameters (" : " tensors (",
                          list, ")");
  }
  if (microbatches.size() > 1) {
    title += base::concat(" in ", microbatches.size(), " micro-batches");
  }
  return title;
}

// A value that differs between replicas, or is not finite, makes what is computed from it differ,
// or not finite, too.
bool travels(const std::string& operation) {
  return operation == "replicas" || operation == "finite values";
}

std::set<std::string> broken_operations(const AuditedTensor& tensor) {
  std::set<std::string> operations;
  for (const AuditCheck& check : tensor.checks) {
    if (check.result == CheckResult::kInconsistent) operations.insert(check.operation);
  }
  return operations;
}

std::vector<AuditFinding> group(const std::vector<AuditedTensor>& tensors) {
  using GroupKey = std::tuple<std::uint64_t, Kind, std::string, std::string, std::string>;
  std::vector<AuditFinding> findings;
  std::map<GroupKey, std::size_t> known;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const AuditedTensor& tensor = tensors[i];
    if (tensor.outcome != AuditOutcome::kBroken || tensor.downstream) continue;
    const std::string cause = tensor.causes.empty() ? ""
                                                    : base::concat(tensor.causes.front().name, "/",
                                                                   tensor.causes.front().axis);
    const GroupKey key{tensor.key.step, tensor.key.kind, tensor.broken_check()->operation, cause,
                       cause.empty() && !travels(tensor.broken_check()->operation)
                           ? judge::name_pattern(tensor.key.name)
                           : ""};
    const auto [at, fresh] = known.emplace(key, findings.size());
    if (fresh) findings.push_back({i, {}, ""});
    findings[at->second].members.push_back(i);
  }
  for (AuditFinding& finding : findings) finding.title = title_of(tensors, finding.members);
  return findings;
}

// Why the audit decides nothing although nothing is broken, or empty.
std::string why_inconclusive(std::size_t lost_ranks, const AuditReport& report) {
  if (lost_ranks > 0) {
    return base::concat(base::plural(lost_ranks, "rank"),
                        " could not be read, so not every tensor was checked");
  }
  std::uint64_t unreadable = 0;
  std::string first;
  for (const AuditedTensor& tensor : report.tensors) {
    if (tensor.unreadable && ++unreadable == 1) first = tensor.reason;
  }
  if (unreadable > 0) {
    return base::concat(base::plural(unreadable, "tensor"), " could not be read: ", first);
  }
  const AuditCoverage& coverage = report.coverage;
  if (coverage.judged == 0) return "no tensor could be judged";
  constexpr std::pair<Kind, std::string_view> kNeeded[] = {{Kind::kLoss, "loss"},
                                                           {Kind::kGradNorm, "gradient norm"},
                                                           {Kind::kMainGrad, "main gradient"}};
  for (const auto& [kind, noun] : kNeeded) {
    std::uint64_t unjudged = 0;
    std::string reason;
    for (const AuditedTensor& tensor : report.tensors) {
      if (tensor.key.kind != kind || tensor.outcome != AuditOutcome::kNotJudged) continue;
      if (++unjudged == 1) reason = tensor.reason;
    }
    if (unjudged == 0) continue;
    return base::concat(base::plural(unjudged, noun), " could not be judged: ", reason);
  }
  if (static_cast<double>(coverage.judged) <
      kLeastCoverage * static_cast<double>(coverage.tensors)) {
    return base::concat("only ", coverage.judged, " of ", base::plural(coverage.tensors, "tensor"),
                        " could be judged");
  }
  return "";
}

}  // namespace

std::string_view check_result_name(CheckResult result) {
  constexpr std::array<std::string_view, 3> kNames{"consistent", "inconsistent", "not_replayable"};
  return kNames.at(static_cast<std::size_t>(result));
}

std::string_view audit_outcome_name(AuditOutcome outcome) {
  constexpr std::array<std::string_view, 4> kNames{"holds", "broken", "not_judged", "given"};
  return kNames.at(static_cast<std::size_t>(outcome));
}

std::string_view audit_verdict_name(AuditVerdict verdict) {
  constexpr std::array<std::string_view, 3> kNames{"holds", "broken", "inconclusive"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

int exit_code(AuditVerdict verdict) {
  switch (verdict) {
    case AuditVerdict::kHolds:
      return 0;
    case AuditVerdict::kBroken:
      return 1;
    case AuditVerdict::kInconclusive:
      return 3;
  }
  return 3;
}

std::string module_of(const trace::TensorKey& key) {
  switch (key.kind) {
    case Kind::kParam:
    case Kind::kBuffer:
    case Kind::kParamGrad:
    case Kind::kMainGrad:
    case Kind::kParamAfterStep: {
      const std::size_t dot = key.name.rfind('.');
      return dot == std::string::npos ? "(model)" : key.name.substr(0, dot);
    }
    case Kind::kOptimizerState: {
      const std::size_t state = key.name.rfind('.');
      const std::size_t dot =
          state == std::string::npos || state == 0 ? state : key.name.rfind('.', state - 1);
      return dot == std::string::npos ? "(model)" : key.name.substr(0, dot);
    }
    default:
      return key.name.substr(0, key.name.find('['));
  }
}

double AuditCheck::share() const {
  if (bound > 0) return error / bound;
  return error == 0 ? 0 : std::numeric_limits<double>::infinity();
}

const AuditCheck* AuditedTensor::broken_check() const {
  const auto found = std::find_if(checks.begin(), checks.end(), [](const AuditCheck& check) {
    return check.result == CheckResult::kInconsistent;
  });
  return found == checks.end() ? nullptr : &*found;
}

void mark_downstream(std::vector<AuditedTensor>& tensors) {
  std::map<trace::TensorKey, std::set<std::string>> broken;
  std::map<std::uint64_t, std::set<std::string>> broken_gradients;  // by step
  for (const AuditedTensor& tensor : tensors) {
    if (tensor.outcome != AuditOutcome::kBroken) continue;
    broken.emplace(tensor.key, broken_operations(tensor));
    if (tensor.key.kind == Kind::kMainGrad) {
      broken_gradients[tensor.key.step].merge(broken_operations(tensor));
    }
  }
  for (AuditedTensor& tensor : tensors) {
    if (tensor.outcome != AuditOutcome::kBroken) continue;
    std::set<std::string> open = broken_operations(tensor);
    const auto explain_by = [&](const std::set<std::string>& operations) {
      for (const std::string& operation : operations) {
        if (travels(operation)) open.erase(operation);
      }
      // Which replica each rank computed with is not known: the first one was taken.
      if (operations.contains("replicas")) {
        for (const char* taken : {"expression", "identity", "sum of raw gradients", "gradient norm",
                                  "optimizer step"}) {
          open.erase(taken);
        }
      }
    };
    std::vector<trace::TensorKey> parents = tensor.follows_from;
    if (tensor.key.kind == Kind::kParamAfterStep) {
      for (const Kind kind : {Kind::kParam, Kind::kMainGrad}) {
        parents.push_back(tensor.key);
        parents.back().kind = kind;
      }
      trace::TensorKey norm = tensor.key;
      norm.kind = Kind::kGradNorm;
      norm.name = "grad_norm";
      parents.push_back(std::move(norm));
    }
    for (const trace::TensorKey& parent : parents) {
      if (const auto found = broken.find(parent); found != broken.end()) explain_by(found->second);
    }
    if (tensor.key.kind == Kind::kGradNorm) explain_by(broken_gradients[tensor.key.step]);
    tensor.downstream = open.empty();
  }
}

void settle_outcome(AuditedTensor& tensor) { tensor.outcome = outcome_of(tensor); }

void conclude(std::size_t lost_ranks, const trace::Manifest& manifest, AuditReport& report) {
  std::vector<trace::TensorKey> lacking;
  std::vector<double> gradient_bounds;
  AuditCoverage& coverage = report.coverage;
  AuditSharpness& sharpness = report.sharpness;
  for (std::size_t i = 0; i < report.tensors.size(); ++i) {
    AuditedTensor& tensor = report.tensors[i];
    settle_outcome(tensor);
    if (tensor.outcome == AuditOutcome::kGiven) continue;
    ++coverage.tensors;
    if (tensor.outcome == AuditOutcome::kNotJudged) {
      if (tensor.reason.empty()) tensor.reason = "nothing says what it follows from";
      ++coverage.not_judged[tensor.reason];
      if (tensor.lacks) lacking.push_back(*tensor.lacks);
      continue;
    }
    ++coverage.judged;
    for (const AuditCheck& check : tensor.checks) {
      if (!judges_value(check) || check.result != CheckResult::kConsistent) continue;
      if (check.share() > sharpness.worst_share || !sharpness.worst) {
        sharpness.worst_share = check.share();
        sharpness.worst = i;
      }
      if (is_gradient(tensor.key.kind)) {
        gradient_bounds.push_back(check.bound);
      }
    }
  }
  coverage.record_next = recording_line(manifest, lacking);
  if (!gradient_bounds.empty()) {
    std::sort(gradient_bounds.begin(), gradient_bounds.end());
    sharpness.gradient = gradient_bounds[(gradient_bounds.size() * 9 + 9) / 10 - 1];
  }
  mark_downstream(report.tensors);
  for (const AuditedTensor& tensor : report.tensors) report.downstream += tensor.downstream ? 1 : 0;
  report.findings = group(report.tensors);
  if (!report.findings.empty()) {
    report.verdict = AuditVerdict::kBroken;
    return;
  }
  report.why = why_inconclusive(lost_ranks, report);
  report.verdict = report.why.empty() ? AuditVerdict::kHolds : AuditVerdict::kInconclusive;
}

}  // namespace ttrace::replay
