#include "comparison/padding.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "base/message.h"
#include "measure/sections.h"
#include "tensor/box.h"

namespace ttrace::comparison {
namespace {

using base::render;
using trace::Kind;

enum class Rows { kZero, kOneValue, kOthers };

// Returns the content of the rows beyond the shorter side's.
Rows rows_beyond(const trace::Source& source, const layout::ViewPtr& view, const Excess& excess) {
  tensor::Box box = tensor::whole(view->shape);
  box.origin[excess.dim] = excess.shorter;
  box.extent[excess.dim] = excess.longer - excess.shorter;
  const auto reader = measure::make_reader(source, *view, measure::Replicas::kFirstOnly);
  std::vector<double> values;
  std::optional<double> first;
  bool one_value = true;
  tensor::for_each_sub_box(box, measure::kReadElements, [&](const tensor::Box& part) {
    values.resize(tensor::volume(part));
    reader->read(part, values);
    if (!first && !values.empty()) first = values.front();
    one_value = one_value && std::all_of(values.begin(), values.end(),
                                         [&first](double value) { return value == *first; });
  });
  if (!one_value) return Rows::kOthers;
  return first.value_or(0) == 0 ? Rows::kZero : Rows::kOneValue;
}

bool is_gradient(Kind kind) { return kind == Kind::kParamGrad || kind == Kind::kMainGrad; }

// Finds and trims the padding of one comparison.
class Trimming {
 public:
  Trimming(const trace::Source& reference, const trace::Source& candidate, std::vector<Pair>& pairs)
      : reference_(reference), candidate_(candidate), pairs_(pairs) {}

  Padding run() {
    for (const Pair& pair : pairs_) {
      if (pair.key.kind != Kind::kParam) continue;
      const auto excess = excess_of(pair);
      if (!excess) continue;
      if (!known_.insert(pair.key.name).second) continue;
      try {
        look_at(pair, *excess);
      } catch (const base::InputError&) {
        continue;  // the comparison reports what cannot be read
      }
    }
    if (!trimmed_.empty()) trim();
    return std::move(out_);
  }

 private:
  const trace::Source& longer(const Excess& excess) const {
    return excess.of_candidate ? candidate_ : reference_;
  }
  static const layout::ViewPtr& longer(const Pair& pair, const Excess& excess) {
    return excess.of_candidate ? pair.candidate : pair.reference;
  }

  void look_at(const Pair& parameter, const Excess& excess) {
    const bool constant =
        rows_beyond(longer(excess), longer(parameter, excess), excess) != Rows::kOthers;
    std::uint64_t gradients = 0;
    std::vector<trace::TensorKey> carrying;
    for (const Pair& pair : pairs_) {
      if (!is_gradient(pair.key.kind) || pair.key.name != parameter.key.name) continue;
      const auto own = excess_of(pair);
      if (!own || !own->is_like(excess) || own->dim != excess.dim) continue;
      ++gradients;
      if (rows_beyond(longer(excess), longer(pair, excess), excess) != Rows::kZero) {
        carrying.push_back(pair.key);
      }
    }
    if (gradients == 0 || (!constant && !carrying.empty())) return;
    const std::string& name = parameter.key.name;
    const std::uint64_t more = excess.longer - excess.shorter;
    const char* const other = excess.of_candidate ? "reference" : "candidate";
    const std::string rows = render(
        {excess.dim == 0 ? "{parameter} has {count:row} more in the {side}, from {from} on"
                         : "{parameter} has {count:column} more in the {side}, from {from} on",
         {{"parameter", name},
          {"count", more},
          {"side", excess.of_candidate ? "candidate" : "reference"},
          {"from", excess.shorter}}});
    trimmed_.emplace(name, excess);
    for (const trace::TensorKey& key : carrying) {
      out_.with_gradient[key] =
          render({"{rows}: padding, which carries a gradient; mask it where the loss is computed",
                  {{"rows", rows}}});
    }
    if (!carrying.empty()) {
      out_.told.push_back(out_.with_gradient.at(carrying.front()));
      return;
    }
    if (constant) {
      out_.told.push_back(
          render({"{rows}: padding, of one value and without a gradient; it is left out, and the "
                  "rest is compared",
                  {{"rows", rows}}}));
      return;
    }
    out_.told.push_back(
        render({"{rows}: without a gradient; they are left out", {{"rows", rows}}}));
    if (!out_.in_doubt.empty()) return;
    out_.in_doubt =
        render({"{rows}, without a gradient and not of one value: padding, or rows that this batch "
                "does not address and the {other} lacks; a rule with \"trim\" in --map says that "
                "they are padding",
                {{"rows", rows}, {"other", other}}});
  }

  // The parameter that a tensor belongs to: itself, or that of an optimizer's state.
  const std::string* parameter_of(const trace::TensorKey& key) const {
    const auto found = known_.find(key.name);
    if (found != known_.end()) return &*found;
    if (key.kind != Kind::kOptimizerState) return nullptr;
    const auto state = known_.find(key.name.substr(0, key.name.rfind('.')));
    return state == known_.end() ? nullptr : &*state;
  }

  void trim() {
    for (Pair& pair : pairs_) {
      const auto excess = excess_of(pair);
      if (!excess || out_.with_gradient.contains(pair.key)) continue;
      const std::string* parameter = parameter_of(pair.key);
      const bool fits = std::any_of(trimmed_.begin(), trimmed_.end(), [&](const auto& one) {
        return excess->is_like(one.second) && (parameter == nullptr || *parameter == one.first);
      });
      if (!fits) continue;
      layout::ViewPtr& view = excess->of_candidate ? pair.candidate : pair.reference;
      view = layout::trimmed(view, excess->dim, excess->shorter);
      if (excess->of_candidate) continue;
      for (measure::TensorRef& noise : pair.noise) {
        noise.view = layout::trimmed(noise.view, excess->dim, excess->shorter);
      }
    }
  }

  const trace::Source& reference_;
  const trace::Source& candidate_;
  std::vector<Pair>& pairs_;
  std::set<std::string> known_;            // parameters that were looked at
  std::map<std::string, Excess> trimmed_;  // parameter -> its rows too many
  Padding out_;
};

}  // namespace

std::optional<Excess> excess_of(const Pair& pair) {
  if (pair.reference == nullptr || pair.candidate == nullptr) return std::nullopt;
  const tensor::Shape& reference = pair.reference->shape;
  const tensor::Shape& candidate = pair.candidate->shape;
  if (reference.size() != candidate.size()) return std::nullopt;
  std::optional<Excess> found;
  for (std::size_t d = 0; d < reference.size(); ++d) {
    if (reference[d] == candidate[d]) continue;
    if (found) return std::nullopt;
    found = Excess{d, std::min(reference[d], candidate[d]), std::max(reference[d], candidate[d]),
                   candidate[d] > reference[d]};
  }
  if (found && found->longer - found->shorter >= found->shorter) return std::nullopt;
  return found;
}

Padding trim_padding(const trace::Source& reference, const trace::Source& candidate,
                     std::vector<Pair>& pairs) {
  return Trimming(reference, candidate, pairs).run();
}

}  // namespace ttrace::comparison
