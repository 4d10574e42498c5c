#include "comparison/pairing.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/message.h"
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

// Views sorted by key, each key once. A trace may have a million.
class ViewsByKey {
 public:
  // If several views have the same key, the first one counts.
  explicit ViewsByKey(std::vector<ViewPtr> views) : views_(std::move(views)) {
    std::stable_sort(views_.begin(), views_.end(),
                     [](const ViewPtr& a, const ViewPtr& b) { return a->key < b->key; });
    const auto same = [](const ViewPtr& a, const ViewPtr& b) { return a->key == b->key; };
    views_.erase(std::unique(views_.begin(), views_.end(), same), views_.end());
  }

  auto begin() const { return views_.begin(); }
  auto end() const { return views_.end(); }
  std::size_t size() const { return views_.size(); }

  // Returns null if there is none.
  ViewPtr find(const trace::TensorKey& key) const {
    const auto at = std::lower_bound(
        views_.begin(), views_.end(), key,
        [](const ViewPtr& view, const trace::TensorKey& sought) { return view->key < sought; });
    return at == views_.end() || (*at)->key != key ? nullptr : *at;
  }

 private:
  std::vector<ViewPtr> views_;
};

bool is_empty(const Pair& pair) { return pair.reference == nullptr && pair.candidate == nullptr; }

// The pairs while they are made, by key.
class PairTable {
 public:
  // Pairs the views of equal keys.
  PairTable(const ViewsByKey& references, const ViewsByKey& candidates) {
    pairs_.reserve(std::max(references.size(), candidates.size()));
    auto candidate = candidates.begin();
    for (const ViewPtr& reference : references) {
      for (; candidate != candidates.end() && (*candidate)->key < reference->key; ++candidate) {
        add(nullptr, *candidate);
      }
      const bool both = candidate != candidates.end() && (*candidate)->key == reference->key;
      add(reference, both ? *candidate++ : nullptr);
    }
    for (; candidate != candidates.end(); ++candidate) add(nullptr, *candidate);
  }

  // Calls visit(pair) for all pairs, in the order of their keys; call it before find_or_add().
  template <typename Visit>
  void for_each(Visit visit) {
    for (Pair& pair : pairs_) visit(pair);
  }

  // Returns null if there is none.
  Pair* find(const trace::TensorKey& key) {
    const auto at = std::lower_bound(
        pairs_.begin(), pairs_.end(), key,
        [](const Pair& pair, const trace::TensorKey& sought) { return pair.key < sought; });
    if (at != pairs_.end() && at->key == key) return is_empty(*at) ? nullptr : &*at;
    const auto added = added_.find(key);
    return added == added_.end() || is_empty(added->second) ? nullptr : &added->second;
  }
  Pair& find_or_add(const trace::TensorKey& key) {
    if (Pair* const known = find(key)) return *known;
    Pair& pair = added_[key];
    pair.key = key;
    return pair;
  }
  // A removed pair has no view on either side.
  static void remove(Pair& pair) { pair = Pair{pair.key, nullptr, nullptr, {}}; }

  // Returns all pairs, sorted by key.
  std::vector<Pair> take() {
    std::erase_if(pairs_, is_empty);
    for (auto& [key, pair] : added_) {
      if (!is_empty(pair)) pairs_.push_back(std::move(pair));
    }
    if (!added_.empty()) {
      std::sort(pairs_.begin(), pairs_.end(),
                [](const Pair& a, const Pair& b) { return a.key < b.key; });
    }
    return std::move(pairs_);
  }

 private:
  void add(const ViewPtr& reference, const ViewPtr& candidate) {
    const layout::View& view = reference != nullptr ? *reference : *candidate;
    pairs_.push_back(Pair{view.key, reference, candidate, {}});
  }

  std::vector<Pair> pairs_;  // sorted by key
  std::map<trace::TensorKey, Pair> added_;
};

std::string describe_type(const layout::View& view) {
  return base::concat(tensor::to_string(view.shape), " ", tensor::dtype_short_name(view.dtype));
}

std::string describe_microbatches(const layout::View& view) {
  if (!view.microbatches) return base::render({"of no micro-batch in particular", {}});
  using How = trace::Microbatches::How;
  const How how = view.microbatches->how;
  std::string numbers;
  for (const std::uint64_t number : view.microbatches->numbers) {
    numbers += base::concat(numbers.empty() ? "" : ", ", number);
  }
  return base::render({how == How::kSum    ? "the sum of micro-batches {numbers}"
                       : how == How::kMean ? "the mean of micro-batches {numbers}"
                                           : "all of micro-batches {numbers}",
                       {{"numbers", numbers}}});
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
    if (ViewPtr part = views.find(key)) {
      parts.push_back(std::move(part));
    } else {
      lacking += base::concat(lacking.empty() ? "" : ", ", *key.microbatch);
    }
  }
  if (parts.empty()) return {};
  if (!lacking.empty()) {
    return {nullptr,
            base::render({"it is {what}, and the other side lacks micro-batch {lacking}",
                          {{"what", describe_microbatches(whole)}, {"lacking", lacking}}})};
  }
  return layout::compose_microbatches(whole, parts);
}

// Pairs the tensors of one side that stand for several micro-batches with the other side's tensors
// of single ones.
class MicrobatchPairing {
 public:
  MicrobatchPairing(PairTable& pairs, const ViewsByKey& wholes, const ViewsByKey& others,
                    ViewPtr Pair::*whole_side, ViewPtr Pair::*other_side)
      : pairs_(pairs),
        wholes_(wholes),
        others_(others),
        whole_side_(whole_side),
        other_side_(other_side) {}

  void run() {
    for (const ViewPtr& whole : wholes_) {
      if (!whole->microbatches) continue;
      Pair& pair = pairs_.find_or_add(whole->key);  // not removed: its key has no micro-batch
      if (pair.*other_side_ == nullptr) {
        pair.note = compose(*whole, pair);
        pair.has_parts = !pair.note->empty();
      }
      if (whole->key.copy == 0) pair_further_copies(whole);
    }
    for (const trace::TensorKey& key : used_) {
      // Parts of a whole need no pair of their own. If a part has a partner, that pair stays, too.
      Pair* const part = pairs_.find(key);
      if (part != nullptr && part->*whole_side_ == nullptr) PairTable::remove(*part);
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
      if (wholes_.find(copy.key) || !composed_of(others_, copy).view) return;
      Pair& pair = pairs_.find_or_add(copy.key);
      if (pair.*other_side_ != nullptr) return;
      pair.*whole_side_ = whole;
      compose(copy, pair);
    }
  }

  bool is_candidate() const { return whole_side_ == &Pair::candidate; }

  PairTable& pairs_;
  std::set<trace::TensorKey> used_;
  const ViewsByKey& wholes_;
  const ViewsByKey& others_;
  ViewPtr Pair::*whole_side_;
  ViewPtr Pair::*other_side_;
};

void add_noise(const Side& run, const ViewsByKey& views, Pair& pair) {
  ViewPtr view = views.find(pair.reference->key);
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
void note_other_values(std::vector<Pair>& pairs) {
  std::map<Call, std::pair<bool, bool>> ran;  // in the reference, in the candidate
  for (const Pair& pair : pairs) {
    const bool one_sided = pair.reference == nullptr || pair.candidate == nullptr;
    if (one_sided && pair.note->empty() && trace::is_module_value(pair.key.kind)) {
      ran[call_of(pair.key)];
    }
  }
  if (ran.empty()) return;
  for (const Pair& pair : pairs) {
    if (!trace::is_module_value(pair.key.kind)) continue;
    const auto call = ran.find(call_of(pair.key));
    if (call == ran.end()) continue;
    call->second.first |= pair.reference != nullptr;
    call->second.second |= pair.candidate != nullptr;
  }
  for (Pair& pair : pairs) {
    const trace::TensorKey& key = pair.key;
    const bool in_reference = pair.reference != nullptr;
    if (in_reference == (pair.candidate != nullptr) || !pair.note->empty() ||
        !trace::is_module_value(key.kind)) {
      continue;
    }
    const auto& [reference_ran, candidate_ran] = ran.at(call_of(key));
    if (!(in_reference ? candidate_ran : reference_ran)) continue;
    const char* const lacks = key.kind == trace::Kind::kInput    ? "argument"
                              : key.kind == trace::Kind::kOutput ? "result"
                                                                 : "gradient";
    pair.note = base::render({"{module} ran in the {side} without this {value}",
                              {{"module", std::string(trace::module_of_value(key.name))},
                               {"side", in_reference ? "candidate" : "reference"},
                               {"value", lacks}}});
  }
}

}  // namespace

std::vector<Pair> pair_traces(const Side& reference, const Side& candidate,
                              const std::vector<Side>& noise) {
  const ViewsByKey references(reference.tensors);
  const ViewsByKey candidates(candidate.tensors);
  std::vector<ViewsByKey> noise_views;
  for (const Side& run : noise) noise_views.emplace_back(run.tensors);

  PairTable table(references, candidates);
  table.for_each([&references](Pair& pair) {
    if (pair.reference != nullptr || pair.key.copy == 0) return;
    trace::TensorKey first_copy = pair.key;
    first_copy.copy = 0;
    pair.reference = references.find(first_copy);
  });
  MicrobatchPairing(table, references, candidates, &Pair::reference, &Pair::candidate).run();
  MicrobatchPairing(table, candidates, references, &Pair::candidate, &Pair::reference).run();

  std::vector<Pair> pairs = table.take();
  note_other_values(pairs);
  for (Pair& pair : pairs) {
    for (std::size_t i = 0; i < noise.size() && pair.reference != nullptr; ++i) {
      add_noise(noise[i], noise_views[i], pair);
    }
  }
  return pairs;
}

namespace {

// Whether the two differ in the number of rows of one module's value, and neither number is a
// multiple of the other, as it is where a layout lacks an axis.
bool rows_may_be_routed(const Pair& pair) {
  const tensor::Shape& reference = pair.reference->shape;
  const tensor::Shape& candidate = pair.candidate->shape;
  const bool of_module = pair.key.kind == trace::Kind::kInput ||
                         pair.key.kind == trace::Kind::kOutput ||
                         pair.key.kind == trace::Kind::kGradOutput;
  if (!of_module || reference.size() != candidate.size() || reference.size() < 2) return false;
  const auto [r, c] = std::pair(reference[0], candidate[0]);
  return std::equal(reference.begin() + 1, reference.end(), candidate.begin() + 1) && r != 0 &&
         c != 0 && r % c != 0 && c % r != 0;
}

}  // namespace

std::string incomparable_reason(const Pair& pair) {
  const layout::View& reference = *pair.reference;
  const layout::View& candidate = *pair.candidate;
  const bool same_class =
      tensor::is_floating(reference.dtype) == tensor::is_floating(candidate.dtype);
  if (reference.shape != candidate.shape || !same_class) {
    return base::render(
        {rows_may_be_routed(pair) ? "reference {reference}, candidate {candidate}; if a router "
                                    "deals out the rows, tt.Rows "
                                    "in the layout says which a rank has"
                                  : "reference {reference}, candidate {candidate}",
         {{"reference", describe_type(reference)}, {"candidate", describe_type(candidate)}}});
  }
  return "";
}

std::string microbatches_apart(const Pair& pair) {
  const layout::View& reference = *pair.reference;
  const layout::View& candidate = *pair.candidate;
  if (reference.microbatches && candidate.microbatches &&
      reference.microbatches != candidate.microbatches) {
    return base::render({"the reference is {reference}, the candidate {candidate}",
                         {{"reference", describe_microbatches(reference)},
                          {"candidate", describe_microbatches(candidate)}}});
  }
  return "";
}

}  // namespace ttrace::comparison
