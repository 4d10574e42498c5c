#include "comparison/pairing.h"

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "layout/map_rules.h"
#include "layout/view.h"
#include "trace/placement.h"

namespace ttrace::comparison {

std::vector<layout::ViewPtr> tensors_of(const trace::Manifest& manifest) {
  std::set<trace::TensorKey> indices;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    for (const auto& [axis, placement] : entry.placements) {
      if (const auto* rows = std::get_if<trace::Rows>(&placement)) {
        indices.insert(trace::index_key(entry.key, rows->index));
      }
    }
  }
  std::vector<layout::ViewPtr> tensors;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (!indices.contains(entry.key)) tensors.push_back(layout::view_of(entry));
  }
  return tensors;
}

namespace {

using layout::ViewPtr;
using ViewsByKey = std::map<trace::TensorKey, ViewPtr>;

// Returns the tensors of a side, under the reference's names of module values.
ViewsByKey by_key(const Side& side, const Side& reference) {
  const bool by_position = side.source->manifest().version == 1;
  const bool other_by_position = reference.source->manifest().version == 1;
  ViewsByKey views;
  for (const ViewPtr& view :
       layout::renamed_values(side.tensors, by_position, reference.tensors, other_by_position)) {
    views.emplace(view->key, view);
  }
  return views;
}

ViewPtr find(const ViewsByKey& views, const trace::TensorKey& key) {
  const auto found = views.find(key);
  return found == views.end() ? nullptr : found->second;
}

std::string describe_type(const layout::View& view) {
  return base::concat(tensor::to_string(view.shape), " ", tensor::dtype_short_name(view.dtype));
}

std::string describe_microbatches(const layout::View& view) {
  if (!view.microbatches) return "of no micro-batch in particular";
  using How = trace::Microbatches::How;
  const How how = view.microbatches->how;
  std::string text = how == How::kSum ? "the sum of" : how == How::kMean ? "the mean of" : "all of";
  text += " micro-batches";
  for (std::size_t i = 0; i < view.microbatches->numbers.size(); ++i) {
    text += base::concat(i > 0 ? ", " : " ", view.microbatches->numbers[i]);
  }
  return text;
}

void require_same_reference(const layout::View& reference, const layout::View& noise,
                            const trace::Source& run) {
  if (noise.shape == reference.shape && noise.dtype == reference.dtype) return;
  throw base::input_error(run.path(), ": ", to_string(noise.key), ": ", describe_type(noise),
                          " in this noise run, ", describe_type(reference),
                          " in the reference; a noise run is the reference itself, run again with "
                          "its first activation perturbed");
}

// Merges those of `views` that are the micro-batches of `whole`.
layout::Composed composed_of(const ViewsByKey& views, const layout::View& whole) {
  std::vector<ViewPtr> parts;
  std::string lacking;
  for (const trace::TensorKey& key : layout::part_keys(whole)) {
    if (ViewPtr part = find(views, key)) {
      parts.push_back(std::move(part));
    } else {
      lacking += base::concat(lacking.empty() ? "" : ", ", *key.microbatch);
    }
  }
  if (parts.empty()) return {};
  if (!lacking.empty()) {
    return {nullptr, base::concat("it is ", describe_microbatches(whole),
                                  ", and the other side lacks micro-batch ", lacking)};
  }
  return layout::compose_microbatches(whole, parts);
}

// Pairs the tensors of one side that stand for several micro-batches with the other side's tensors
// of single ones.
class MicrobatchPairing {
 public:
  MicrobatchPairing(std::map<trace::TensorKey, Pair>& pairs, const ViewsByKey& wholes,
                    const ViewsByKey& others, ViewPtr Pair::*whole_side, ViewPtr Pair::*other_side)
      : pairs_(pairs),
        wholes_(wholes),
        others_(others),
        whole_side_(whole_side),
        other_side_(other_side) {}

  void run() {
    for (const auto& [key, whole] : wholes_) {
      if (!whole->microbatches) continue;
      Pair& pair = pairs_.at(key);  // not erased: its key has no micro-batch
      if (pair.*other_side_ == nullptr) {
        pair.note = compose(*whole, pair);
        pair.has_parts = !pair.note.empty();
      }
      if (key.copy == 0) pair_further_copies(whole);
    }
    for (const trace::TensorKey& key : used_) {
      // A part with a partner of its own is compared with that as well.
      const auto part = pairs_.find(key);
      if (part != pairs_.end() && part->second.*whole_side_ == nullptr) pairs_.erase(part);
    }
  }

 private:
  // Merges the other side's micro-batches of `whole` into `pair`, or returns why it cannot.
  std::string compose(const layout::View& whole, Pair& pair) {
    layout::Composed composed = composed_of(others_, whole);
    if (composed.view) {
      pair.*other_side_ = std::move(composed.view);
      for (const trace::TensorKey& part : layout::part_keys(whole)) used_.insert(part);
    } else if (composed.problem.empty() && whole.key.copy != 0 && is_candidate()) {
      // The reference has one copy of a tied parameter, the candidate several.
      layout::View first = whole;
      first.key.copy = 0;
      pair.*other_side_ = composed_of(others_, first).view;
    }
    return composed.problem;
  }

  // Pairs the candidate's further copies of a tied parameter with the reference's only copy.
  void pair_further_copies(const ViewPtr& whole) {
    if (is_candidate()) return;
    layout::View copy = *whole;
    for (copy.key.copy = 1;; ++copy.key.copy) {
      if (wholes_.contains(copy.key) || !composed_of(others_, copy).view) return;
      Pair& pair = pairs_[copy.key];
      if (pair.*other_side_ != nullptr) return;
      pair.*whole_side_ = whole;
      compose(copy, pair);
    }
  }

  bool is_candidate() const { return whole_side_ == &Pair::candidate; }

  std::map<trace::TensorKey, Pair>& pairs_;
  std::set<trace::TensorKey> used_;
  const ViewsByKey& wholes_;
  const ViewsByKey& others_;
  ViewPtr Pair::*whole_side_;
  ViewPtr Pair::*other_side_;
};

void add_noise(const Side& run, const ViewsByKey& views, Pair& pair) {
  ViewPtr view = find(views, pair.reference->key);
  if (view == nullptr && pair.reference->microbatches) {
    view = composed_of(views, *pair.reference).view;
  }
  if (view == nullptr) return;
  require_same_reference(*pair.reference, *view, *run.source);
  pair.noise.emplace_back(run.source, std::move(view));
}

// Identifies the inputs, outputs or their gradients of one call of a module.
using Call = std::tuple<trace::Kind, std::string, std::uint64_t, std::optional<std::uint64_t>,
                        std::uint64_t>;

Call call_of(const trace::TensorKey& key) {
  return {key.kind, std::string(trace::module_of_value(key.name)), key.step, key.microbatch,
          key.call};
}

// Adds a note to values that one side lacks although their module ran there.
void note_other_values(std::map<trace::TensorKey, Pair>& pairs) {
  std::map<Call, std::pair<bool, bool>> ran;  // in the reference, in the candidate
  for (const auto& [key, pair] : pairs) {
    const bool one_sided = pair.reference == nullptr || pair.candidate == nullptr;
    if (one_sided && pair.note.empty() && trace::is_module_value(key.kind)) ran[call_of(key)];
  }
  if (ran.empty()) return;
  for (const auto& [key, pair] : pairs) {
    if (!trace::is_module_value(key.kind)) continue;
    const auto call = ran.find(call_of(key));
    if (call == ran.end()) continue;
    call->second.first |= pair.reference != nullptr;
    call->second.second |= pair.candidate != nullptr;
  }
  for (auto& [key, pair] : pairs) {
    const bool in_reference = pair.reference != nullptr;
    if (in_reference == (pair.candidate != nullptr) || !pair.note.empty() ||
        !trace::is_module_value(key.kind)) {
      continue;
    }
    const auto& [reference_ran, candidate_ran] = ran.at(call_of(key));
    if (!(in_reference ? candidate_ran : reference_ran)) continue;
    const char* const lacks = key.kind == trace::Kind::kInput    ? "argument"
                              : key.kind == trace::Kind::kOutput ? "result"
                                                                 : "gradient";
    pair.note = base::concat(trace::module_of_value(key.name), " ran in the ",
                             in_reference ? "candidate" : "reference", " without this ", lacks);
  }
}

}  // namespace

std::vector<Pair> pair_traces(const Side& reference, const Side& candidate,
                              const std::vector<Side>& noise) {
  const ViewsByKey references = by_key(reference, reference);
  const ViewsByKey candidates = by_key(candidate, reference);
  std::vector<ViewsByKey> noise_views;
  for (const Side& run : noise) noise_views.push_back(by_key(run, reference));

  std::map<trace::TensorKey, Pair> pairs;
  for (const auto& [key, view] : references) pairs[key].reference = view;
  for (const auto& [key, view] : candidates) {
    Pair& pair = pairs[key];
    pair.candidate = view;
    if (pair.reference == nullptr && key.copy != 0) {
      trace::TensorKey first_copy = key;
      first_copy.copy = 0;
      pair.reference = find(references, first_copy);
    }
  }
  MicrobatchPairing(pairs, references, candidates, &Pair::reference, &Pair::candidate).run();
  MicrobatchPairing(pairs, candidates, references, &Pair::candidate, &Pair::reference).run();

  note_other_values(pairs);

  std::vector<Pair> result;
  result.reserve(pairs.size());
  for (auto& [key, pair] : pairs) {
    pair.key = key;
    for (std::size_t i = 0; i < noise.size() && pair.reference != nullptr; ++i) {
      add_noise(noise[i], noise_views[i], pair);
    }
    result.push_back(std::move(pair));
  }
  return result;
}

std::string incomparable_reason(const Pair& pair) {
  const layout::View& reference = *pair.reference;
  const layout::View& candidate = *pair.candidate;
  const bool same_class =
      tensor::is_floating(reference.dtype) == tensor::is_floating(candidate.dtype);
  if (reference.shape != candidate.shape || !same_class) {
    return base::concat("reference ", describe_type(reference), ", candidate ",
                        describe_type(candidate));
  }
  return "";
}

std::string microbatches_apart(const Pair& pair) {
  const layout::View& reference = *pair.reference;
  const layout::View& candidate = *pair.candidate;
  if (reference.microbatches && candidate.microbatches &&
      reference.microbatches != candidate.microbatches) {
    return base::concat("the reference is ", describe_microbatches(reference), ", the candidate ",
                        describe_microbatches(candidate));
  }
  return "";
}

}  // namespace ttrace::comparison
