#include "comparison/truth.h"

#include <map>

#include "base/display_limits.h"
#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/pairing.h"
#include "comparison/run_facts.h"
#include "judge/tolerance.h"
#include "layout/map_apply.h"
#include "layout/map_rules.h"

namespace ttrace::comparison {
namespace {

using layout::View;
using layout::ViewPtr;

// Returns the rules that match a tensor of the truth, which may have fewer than the reference; a
// rule that matches nothing would be an error.
std::vector<layout::MapRule> rules_in_use(const std::vector<layout::MapRule>& rules,
                                          const std::vector<ViewPtr>& tensors) {
  std::vector<bool> used(rules.size(), false);
  for (const ViewPtr& view : tensors) {
    const auto match = layout::match_of(rules, view->key.name, {view->key.kind});
    if (match) used[match->rule] = true;
  }
  std::vector<layout::MapRule> in_use;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (used[i]) in_use.push_back(rules[i]);
  }
  return in_use;
}

// Finds the truth's tensor for the key of a pair.
class TruthTensors {
 public:
  explicit TruthTensors(const TruthInput& input) {
    std::vector<ViewPtr> tensors = tensors_of(input.truth.manifest());
    const std::vector<layout::MapRule> rules = rules_in_use(input.map, tensors);
    const Side truth{&input.truth, layout::apply_map(rules, "--map", tensors).tensors};
    // Pairs the truth in place of the reference, to get the keys of the candidate's further copies
    // and whole batches; then in place of the candidate, for those that only the reference has
    // whole.
    for (const Pair& pair : pair_traces(truth, input.candidate, {})) {
      if (pair.reference) views_.emplace(pair.key, pair.reference);
    }
    for (const Pair& pair : pair_traces(input.reference, truth, {})) {
      if (pair.candidate) views_.emplace(pair.key, pair.candidate);
    }
  }

  ViewPtr find(const trace::TensorKey& key) const {
    const auto found = views_.find(key);
    return found == views_.end() ? nullptr : found->second;
  }

 private:
  std::map<trace::TensorKey, ViewPtr> views_;
};

std::string described(const View& view) {
  return base::concat(tensor::to_string(view.shape), " ", tensor::dtype_short_name(view.dtype));
}

bool is_finer(const View& truth, const View& reference) {
  return judge::shared_epsilon(truth, truth) < judge::shared_epsilon(reference, reference);
}

// Names of tensors for a warning: the first few, and how many more.
class Names {
 public:
  void add(const std::string& text) {
    if (++count_ <= base::kShown.names) text_ += base::concat(count_ > 1 ? "; " : "", text);
  }
  std::uint64_t count() const { return count_; }
  std::string text() const {
    if (count_ <= base::kShown.names) return text_;
    return base::render(
        {"{names}; and {more} more", {{"names", text_}, {"more", count_ - base::kShown.names}}});
  }

 private:
  std::uint64_t count_ = 0;
  std::string text_;
};

FinishedTruth measured(const TruthInput& input, const Pair& pair, const ViewPtr& view) {
  FinishedTruth finished;
  try {
    finished.truth = {view->dtype,
                      measure::measure_truth(*input.execution.backend, {&input.truth, view},
                                             {input.reference.source, pair.reference},
                                             {input.candidate.source, pair.candidate})};
  } catch (const base::InputError& error) {
    finished.problem = error.what();
  }
  return finished;
}

void warn_of_run(const TruthInput& input, std::vector<std::string>& warnings) {
  const trace::Source& truth = input.truth;
  if (truth.manifest().run.noise) {
    warnings.push_back(
        base::render({"{run} is a perturbed run (seed {seed}); give a clean one as the truth",
                      {{"run", truth.path()}, {"seed", truth.manifest().run.noise->seed}}}));
  }
  for (std::string& warning : plan_warnings(*input.reference.source, truth, {})) {
    warnings.push_back(std::move(warning));
  }
}

}  // namespace

void add_truth(const TruthInput& input, CompareReport& out) {
  require_sound_layouts(input.truth);
  const TruthTensors tensors(input);
  TruthRun run;
  run.facts = facts_of(input.truth);
  warn_of_run(input, out.warnings);

  Names other_shapes;
  bool finer = false;
  std::vector<ViewPtr> views(out.results.size());
  for (std::size_t i = 0; i < out.results.size(); ++i) {
    if (!out.results[i].comparison || out.results[i].exact) continue;
    const ViewPtr& reference = out.results[i].reference;
    const ViewPtr view = tensors.find(out.results[i].key);
    if (view == nullptr) {
      ++run.without;
    } else if (view->shape != reference->shape || !tensor::is_floating(view->dtype)) {
      ++run.incomparable;
      other_shapes.add(base::render({"{tensor}: {truth}, and {reference} in the reference",
                                     {{"tensor", to_string(out.results[i].key)},
                                      {"truth", described(*view)},
                                      {"reference", described(*reference)}}}));
    } else {
      views[i] = view;
      finer = finer || is_finer(*view, *reference);
    }
  }

  std::vector<std::string> problems(views.size());
  input.execution.parallel_for(views.size(), [&](std::size_t i) {
    if (views[i] == nullptr) return;
    auto finished = input.work.take<FinishedTruth>(out.results[i].key);
    const bool again = finished.has_value();
    if (!again && input.hooks.stopped()) {
      problems[i] = base::concat(to_string(out.results[i].key), ": interrupted");
      return;
    }
    if (!again) finished = measured(input, out.results[i], views[i]);
    if (finished->problem.empty()) out.results[i].truth = finished->truth;
    problems[i] = finished->problem;
    if (!input.work.is_recorded()) return;
    const Finished entry{out.results[i].key, *std::move(finished)};
    again ? input.work.record_again(entry) : input.work.record(entry);
  });

  Names unreadable;
  bool measured = false;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (!problems[i].empty()) unreadable.add(problems[i]);
    if (!out.results[i].truth) continue;
    measured = true;
    out.environment.bytes_read += out.results[i].truth->errors.bytes_read;
  }
  run.unreadable = unreadable.count();
  if (other_shapes.count() > 0) {
    out.warnings.push_back(
        base::render({"{run}, the truth, has other shapes: {tensors}",
                      {{"run", input.truth.path()}, {"tensors", other_shapes.text()}}}));
  }
  if (unreadable.count() > 0) {
    out.warnings.push_back(
        base::render({"{count:tensor} of the truth cannot be held against the others: {tensors}",
                      {{"count", unreadable.count()}, {"tensors", unreadable.text()}}}));
  }
  if (measured && !finer) {
    out.warnings.push_back(base::render(
        {"{run}, the truth, is in no tensor more precise than the reference, so its ratios do not "
         "tell which of the two is nearer to the truth; give a run in higher precision",
         {{"run", input.truth.path()}}}));
  }
  if (!measured) {
    out.warnings.push_back(base::render(
        {"{run}, the truth, has none of the tensors compared", {{"run", input.truth.path()}}}));
  }
  out.truth = std::move(run);
}

}  // namespace ttrace::comparison
