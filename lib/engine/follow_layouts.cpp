#include "engine/follow_layouts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "trace/placement.h"

namespace ttrace::engine {
namespace {

using comparison::ComparedFinding;
using comparison::CompareReport;
using comparison::TensorComparison;
using judge::Outcome;

// Each round shows what wrong layouts hid in the round before.
constexpr std::size_t kMostRounds = 8;

// A finding whose fitting layout is followed, as the comparison first reported it.
struct Slip {
  TensorComparison result;
  ComparedFinding finding;
  std::vector<trace::TensorKey> depends_on;

  const trace::TensorEntry& declared() const {
    return *layout::stored_in(*result.candidate).front();
  }
  const trace::TensorEntry& fitting() const { return *finding.causes.front().fits; }
};

// The findings with a layout that fits, the cause first.
std::vector<Slip> slips_of(const CompareReport& report) {
  std::vector<Slip> slips;
  for (const ComparedFinding& finding : report.findings) {
    const auto cause = std::find_if(finding.causes.begin(), finding.causes.end(),
                                    [](const answer::Cause& one) { return one.fits != nullptr; });
    if (cause == finding.causes.end()) continue;
    Slip slip{report.results[finding.result], finding, {}};
    const auto at = slip.finding.causes.begin() + (cause - finding.causes.begin());
    std::rotate(slip.finding.causes.begin(), at, at + 1);
    for (const std::size_t i : finding.depends_on) {
      slip.depends_on.push_back(report.results[i].key);
    }
    slips.push_back(std::move(slip));
  }
  return slips;
}

// Whether one slip in the source declared both.
bool declared_alike(const trace::TensorEntry& a, const trace::TensorEntry& b) {
  return a.key.name == b.key.name && a.mesh == b.mesh && a.placements == b.placements &&
         a.held_at == b.held_at && a.shape == b.shape;
}

std::string rule_text(const Slip& slip, const std::set<trace::Kind>& kinds) {
  std::string text =
      base::concat(R"({"name": )", base::json_string(slip.declared().key.name), R"(, "kind": [)");
  const char* between = "";
  for (const trace::Kind kind : kinds) {
    text += base::concat(between, base::json_string(kind_name(kind)));
    between = ", ";
  }
  text += R"(], "placements": {)";
  between = "";
  for (const auto& [axis, placement] : slip.fitting().placements) {
    const auto declared = slip.declared().placements.find(axis);
    if (declared != slip.declared().placements.end() && declared->second == placement) continue;
    text += base::concat(between, base::json_string(axis), ": ", json_text(placement));
    between = ", ";
  }
  return text + "}}";
}

// A manifest under the layouts that fit, and what was changed in it.
struct Relaid {
  trace::Manifest manifest;
  std::vector<comparison::FollowedLayout> followed;
};

Relaid relaid(trace::Manifest manifest, const std::vector<Slip>& slips) {
  Relaid out{std::move(manifest), {}};
  std::vector<bool> done(out.manifest.tensors.size(), false);
  for (const Slip& slip : slips) {
    const trace::TensorEntry declared = slip.declared();
    std::set<trace::Kind> kinds;
    std::uint64_t tensors = 0;
    for (std::size_t i = 0; i < done.size(); ++i) {
      trace::TensorEntry& entry = out.manifest.tensors[i];
      if (done[i] || !declared_alike(entry, declared)) continue;
      entry.placements = slip.fitting().placements;
      entry.shape = slip.fitting().shape;
      kinds.insert(entry.key.kind);
      ++tensors;
      done[i] = true;
    }
    if (tensors == 0) continue;  // a finding before it has the same declaration
    out.followed.push_back({declared.key.name, rule_text(slip, kinds), tensors});
  }
  return out;
}

std::map<trace::TensorKey, std::size_t> numbers_of(const CompareReport& report) {
  std::map<trace::TensorKey, std::size_t> numbers;
  for (std::size_t i = 0; i < report.results.size(); ++i) numbers[report.results[i].key] = i;
  return numbers;
}

// Adds a finding for each wrong layout to the report, whose tensors match now because they were
// judged under the fitting layouts.
void add_slips(std::vector<Slip> slips, CompareReport& report) {
  const std::map<trace::TensorKey, std::size_t> numbers = numbers_of(report);
  std::vector<ComparedFinding> findings;
  for (Slip& slip : slips) {
    const auto at = numbers.find(slip.result.key);
    if (at == numbers.end()) continue;
    ComparedFinding& finding = slip.finding;
    finding.result = at->second;
    finding.members = {at->second};
    finding.downstream.clear();
    finding.depends_on.clear();
    for (const trace::TensorKey& key : slip.depends_on) {
      if (const auto number = numbers.find(key); number != numbers.end()) {
        finding.depends_on.push_back(number->second);
      }
    }
    TensorComparison& result = report.results[at->second];
    --report.counts[result.outcome];
    ++report.counts[slip.result.outcome];
    result = std::move(slip.result);
    findings.push_back(std::move(finding));
  }
  for (ComparedFinding& finding : report.findings) findings.push_back(std::move(finding));
  report.findings = std::move(findings);
  report.verdict = answer::Verdict::kWrong;
  report.why.clear();
  report.why_is_about = {};
}

class Following {
 public:
  Following(const trace::Source& candidate, const CompareAgain& compare_again)
      : candidate_(candidate), compare_again_(compare_again) {}

  CompareReport follow(CompareReport report) {
    for (std::size_t round = 0; round < kMostRounds; ++round) {
      std::vector<Slip> slips = slips_of(report);
      if (slips.empty() || !take(slips, report)) break;
      slips_.insert(slips_.end(), slips.begin(), slips.end());
    }
    if (slips_.empty()) return report;
    // Slips found under the layouts of earlier rounds refer to these.
    const trace::Source* const last = sources_.back().get();
    report.relaid = {std::make_shared<const Sources>(std::move(sources_)), last};
    report.followed = std::move(followed_);
    for (const comparison::FollowedLayout& followed : report.followed) {
      report.warnings.push_back(
          base::concat("the layout of ", followed.name, " is declared wrongly; ",
                       base::plural(followed.tensors, "tensor"),
                       " of it and all else is judged as if declared as ", followed.rule));
    }
    add_slips(std::move(slips_), report);
    return report;
  }

 private:
  // Compares under the layouts of `slips`, and drops slips whose tensor does not match under them.
  bool take(std::vector<Slip>& slips, CompareReport& report) {
    while (!slips.empty()) {
      const trace::Source& before = sources_.empty() ? candidate_ : *sources_.back();
      Relaid changed = relaid(before.manifest(), slips);
      const auto source =
          std::make_shared<trace::WithManifest>(candidate_, std::move(changed.manifest));
      CompareReport again;
      try {
        again = compare_again_(*source);
      } catch (const base::InputError&) {
        return false;  // the manifest contradicts itself under these layouts
      }
      if (again.interrupted) return false;
      const std::map<trace::TensorKey, std::size_t> numbers = numbers_of(again);
      const std::size_t tried = slips.size();
      std::erase_if(slips, [&](const Slip& slip) {
        const auto at = numbers.find(slip.result.key);
        return at == numbers.end() || again.results[at->second].outcome != Outcome::kMatch;
      });
      if (slips.size() < tried) continue;
      sources_.push_back(source);
      followed_.insert(followed_.end(), changed.followed.begin(), changed.followed.end());
      report = std::move(again);
      return true;
    }
    return false;
  }

  const trace::Source& candidate_;
  const CompareAgain& compare_again_;
  std::vector<Slip> slips_;
  std::vector<comparison::FollowedLayout> followed_;
  using Sources = std::vector<std::shared_ptr<const trace::Source>>;
  Sources sources_;  // each on top of the one before
};

}  // namespace

CompareReport follow_layouts(CompareReport report, const trace::Source& candidate,
                             const CompareAgain& compare_again) {
  return Following(candidate, compare_again).follow(std::move(report));
}

}  // namespace ttrace::engine
