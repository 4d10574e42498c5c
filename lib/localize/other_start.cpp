#include "localize/other_start.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "base/display_limits.h"
#include "base/text.h"
#include "comparison/random_draws.h"
#include "localize/phase.h"
#include "localize/place.h"

namespace ttrace::localize {
namespace {

using comparison::ComparedFinding;
using comparison::OtherStart;
using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

constexpr std::size_t kFewest = 2;  // parameters of which "most" says something

bool more_than_half(std::uint64_t part, std::uint64_t of) { return 2 * part > of; }

struct Share {
  std::uint64_t differ = 0;
  std::uint64_t of = 0;

  void add(bool differs) {
    differ += differs ? 1 : 0;
    ++of;
  }
  bool is_most() const { return of >= kFewest && more_than_half(differ, of); }
};

// "d" of "d.(random)", and the model of "(random)".
std::string drawing_module_of(std::string_view name) {
  const std::size_t dot = name.rfind(".(random)");
  return dot == std::string_view::npos ? std::string(trace::kWholeModel)
                                       : std::string(name.substr(0, dot));
}

std::string in_words(const std::vector<std::string>& modules) {
  std::string text;
  for (std::size_t i = 0; i < modules.size() && i < base::kShown.few_names; ++i) {
    text += base::concat(i > 0 ? ", " : "", modules[i]);
  }
  if (modules.size() <= base::kShown.few_names) return text;
  return base::concat(text, " and ",
                      base::plural(modules.size() - base::kShown.few_names, "other module"));
}

// Whether a cause says more than where the error is.
bool is_explained(const ComparedFinding& finding) {
  return std::any_of(finding.causes.begin(), finding.causes.end(), [](const auto& cause) {
    return cause.name != "mask_or_rows" && cause.name != "replica_conflict";
  });
}

OtherStart starts_with(OtherStart::What what, std::uint64_t step) {
  OtherStart start;
  start.what = what;
  start.step = step;
  return start;
}

// Of weights that one side holds rounded: whose, and the type.
std::optional<std::pair<comparison::TraceSide, std::string>> rounding_of(
    const TensorComparison& result, const ComparedFinding& finding) {
  if (!result.stored_before || finding.causes.empty()) return std::nullopt;
  const answer::Cause& cause = finding.causes.front();
  if (cause.name != "lower_precision") return std::nullopt;
  auto side = comparison::TraceSide::kCandidate;
  std::string type;
  for (const auto& [name, value] : cause.values) {
    if (name == "rounded") side = comparison::TraceSide::kReference;
    if (name == "type") type = std::get<std::string>(value);
  }
  return std::pair(side, type);
}

std::uint64_t first_step_of(const std::vector<TensorComparison>& results) {
  std::uint64_t step = std::numeric_limits<std::uint64_t>::max();
  for (const TensorComparison& result : results) step = std::min(step, result.key.step);
  return step;
}

// Whether more than half of the elements differ, and some on every shard.
bool differs_throughout(const TensorComparison& result) {
  if (result.outcome != Outcome::kDiverged || !result.comparison) return false;
  const measure::Measurement& measured = result.comparison->measurement;
  const auto elements = tensor::element_count(result.shape);
  return elements && more_than_half(measured.total.unequal, *elements) &&
         std::all_of(measured.blocks.begin(), measured.blocks.end(),
                     [](const measure::BlockStats& block) { return block.stats.unequal > 0; });
}

std::optional<OtherStart> other_weights(std::uint64_t step,
                                        const std::vector<TensorComparison>& results,
                                        const std::vector<ComparedFinding>& findings) {
  Share all;
  Share of_matrices;
  for (const TensorComparison& result : results) {
    if (result.key.kind != Kind::kParam || result.key.step != step || !result.comparison) continue;
    const bool differs = result.outcome == Outcome::kDiverged;
    all.add(differs);
    if (result.shape.size() > 1) of_matrices.add(differs);
  }
  if (!all.is_most() && !of_matrices.is_most()) return std::nullopt;
  OtherStart start = starts_with(OtherStart::What::kWeights, step);
  start.differ = all.differ;
  start.of = all.of;
  std::uint64_t explained = 0;
  std::map<std::pair<comparison::TraceSide, std::string>, std::uint64_t> rounded;
  for (const ComparedFinding& finding : findings) {
    const TensorComparison& result = results[finding.result];
    if (result.key.kind != Kind::kParam || result.key.step != step) continue;
    if (const auto how = rounding_of(result, finding)) {
      ++rounded[*how];
    } else {
      explained += is_explained(finding) ? 1 : 0;
    }
  }
  for (const auto& [how, count] : rounded) {
    if (!more_than_half(count, all.differ)) continue;
    std::tie(start.rounded, start.rounded_to) = how;
    return start;
  }
  // A few parameters of another checkpoint look like a bug by chance.
  if (more_than_half(explained, all.differ)) return std::nullopt;
  return start;
}

std::optional<OtherStart> other_data(std::uint64_t step,
                                     const std::vector<TensorComparison>& results,
                                     const std::vector<ComparedFinding>& findings) {
  OtherStart start = starts_with(OtherStart::What::kData, step);
  std::set<std::uint64_t> microbatches;
  for (const ComparedFinding& finding : findings) {
    const TensorComparison& result = results[finding.result];
    if (result.key.step != step) continue;
    if (result.key.kind == Kind::kParam) return std::nullopt;
    if (phase_of(result.key) != Phase::kInput) continue;
    // One number is a setting, such as how many tokens the loss is divided by.
    if (tensor::element_count(result.shape) == std::uint64_t{1}) continue;
    if (!differs_throughout(result) || is_explained(finding)) return std::nullopt;
    ++start.differ;
    if (result.key.microbatch) microbatches.insert(*result.key.microbatch);
  }
  if (start.differ == 0) return std::nullopt;
  start.microbatches.assign(microbatches.begin(), microbatches.end());
  return start;
}

// A finding of another module is no consequence of a draw.
std::optional<OtherStart> other_draws(std::uint64_t step,
                                      const std::vector<TensorComparison>& results,
                                      const std::vector<ComparedFinding>& findings) {
  OtherStart start = starts_with(OtherStart::What::kDraws, step);
  std::set<std::string> modules;
  for (const TensorComparison& result : results) {
    if (result.key.step != step || !comparison::is_random_draw(result.key)) continue;
    const bool both = result.reference != nullptr && result.candidate != nullptr;
    if (!both || result.outcome != Outcome::kNotJudged) continue;
    ++start.differ;
    modules.insert(drawing_module_of(result.key.name));
  }
  const auto follows = [&](const ComparedFinding& finding) {
    const trace::TensorKey& key = results[finding.result].key;
    return key.step != step || modules.contains(module_of(key));
  };
  if (modules.empty() || !std::all_of(findings.begin(), findings.end(), follows)) {
    return std::nullopt;
  }
  start.modules.assign(modules.begin(), modules.end());
  return start;
}

// Masks of other random numbers change what comes out of dropout and not what goes in.
std::optional<OtherStart> other_masks(std::uint64_t step,
                                      const std::vector<TensorComparison>& results,
                                      const std::vector<ComparedFinding>& findings) {
  const ComparedFinding& first = findings.front();
  const auto is_dropout = [](const ComparedFinding& finding) {
    return finding.class_name.find("Dropout") != std::string::npos;
  };
  const trace::TensorKey& key = results[first.result].key;
  if (key.step != step || key.kind != Kind::kOutput || !is_dropout(first)) return std::nullopt;
  if (results[first.result].outcome != Outcome::kDiverged || is_explained(first)) {
    return std::nullopt;
  }
  std::set<std::string> modules;
  OtherStart start = starts_with(OtherStart::What::kDropout, step);
  for (const ComparedFinding& finding : findings) {
    const trace::TensorKey& of = results[finding.result].key;
    if (of.step != step || of.kind != Kind::kOutput || !is_dropout(finding)) continue;
    ++start.differ;
    modules.insert(module_of(of));
  }
  start.modules.assign(modules.begin(), modules.end());
  return start;
}

}  // namespace

std::optional<OtherStart> find_other_start(const std::vector<TensorComparison>& results,
                                           const std::vector<ComparedFinding>& findings) {
  if (results.empty() || findings.empty()) return std::nullopt;
  const std::uint64_t step = first_step_of(results);
  if (auto weights = other_weights(step, results, findings)) return weights;
  if (auto data = other_data(step, results, findings)) return data;
  if (auto draws = other_draws(step, results, findings)) return draws;
  return other_masks(step, results, findings);
}

std::string_view name_of(OtherStart::What what) {
  switch (what) {
    case OtherStart::What::kWeights:
      return "weights";
    case OtherStart::What::kData:
      return "data";
    case OtherStart::What::kDraws:
      return "draws";
    case OtherStart::What::kDropout:
      break;
  }
  return "dropout";
}

base::Message describe_start(const OtherStart& start) {
  if (!start.rounded_to.empty()) {
    const bool candidate = start.rounded == comparison::TraceSide::kCandidate;
    return {candidate
                ? "the candidate's weights are the reference's rounded to {type} ({differ} of "
                  "{of:parameter} differ): load one checkpoint, stored in one type, in both"
                : "the reference's weights are the candidate's rounded to {type} ({differ} of "
                  "{of:parameter} differ): load one checkpoint, stored in one type, in both",
            {{"type", start.rounded_to}, {"differ", start.differ}, {"of", start.of}}};
  }
  if (start.what == OtherStart::What::kWeights) {
    return {
        "the runs do not start from the same weights ({differ} of {of:parameter} differ): same "
        "checkpoint, same seed before wrapping, or consistent_init",
        {{"differ", start.differ}, {"of", start.of}}};
  }
  if (start.what == OtherStart::What::kDraws) {
    return {
        "the runs drew other random numbers in {modules}: seed both alike before the step, give "
        "the "
        "numbers as arguments, or draw none",
        {{"modules", in_words(start.modules)}}};
  }
  if (start.what == OtherStart::What::kDropout) {
    return {
        "dropout is active in {modules}, and no two runs draw the same masks: set it to 0 in both",
        {{"modules", in_words(start.modules)}}};
  }
  if (start.microbatches.empty()) {
    return {"the runs were given other data ({differ:input} of step {step})",
            {{"differ", start.differ}, {"step", start.step}}};
  }
  const std::uint64_t batches = start.microbatches.size();
  return {"the runs were given other data (input of {batches?micro-batch|micro-batches} {numbers})",
          {{"batches", batches}, {"numbers", base::numbers_in_words(start.microbatches)}}};
}

}  // namespace ttrace::localize
