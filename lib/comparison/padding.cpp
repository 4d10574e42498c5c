#include "comparison/padding.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/message.h"
#include "comparison/kept_padding.h"
#include "comparison/padded_values.h"
#include "tensor/dtype.h"

namespace ttrace::comparison {
namespace {

using base::render;
using trace::Kind;

constexpr std::string_view kWithGradient = "padding_with_gradient";
constexpr std::string_view kWithValues = "padding_with_values";

bool is_gradient(Kind kind) { return kind == Kind::kParamGrad || kind == Kind::kMainGrad; }

bool is_of_parameter(Kind kind) {
  return is_gradient(kind) || kind == Kind::kParam || kind == Kind::kOptimizerState ||
         kind == Kind::kParamAfterStep;
}

std::string describe_rows(const std::string& parameter, const Excess& excess) {
  return render({excess.dim == 0
                     ? "{parameter} has {count:row} more in the {side}, from {from} on"
                     : "{parameter} has {count:column} more in the {side}, from {from} on",
                 {{"parameter", parameter},
                  {"count", excess.longer - excess.shorter},
                  {"side", excess.of_candidate ? "candidate" : "reference"},
                  {"from", excess.shorter}}});
}

// Finds and trims the padding of one comparison.
class Trimming {
 public:
  Trimming(const trace::Source& reference, const trace::Source& candidate,
           const std::vector<trace::Module>& modules, std::vector<Pair>& pairs)
      : reference_(reference), candidate_(candidate), modules_(modules), pairs_(pairs) {}

  Padding run() {
    std::set<std::string> looked_at;  // the pairs are in the order of their keys
    for (const Pair& pair : pairs_) {
      if (pair.key.kind != Kind::kParam) continue;
      const auto excess = excess_of(pair);
      if (!excess || !looked_at.insert(pair.key.name).second) continue;
      try {
        look_at(pair, *excess);
      } catch (const base::InputError&) {
        continue;  // the comparison reports what cannot be read
      }
    }
    if (!padded_.empty()) trim();
    return std::move(out_);
  }

 private:
  // Parameters with the same extents, and the values computed from their padding.
  struct Group {
    Excess excess;
    PaddedValues values;
  };

  const trace::Source& longer(const Excess& excess) const {
    return excess.of_candidate ? candidate_ : reference_;
  }

  // Returns the token numbers that address the further rows of the parameter; null if none do.
  const Pair* addressed_by(const std::string& parameter, const Excess& excess) const {
    for (const trace::Module& module : modules_) {
      const auto& params = module.params;
      const bool of_parameter = std::find(params.begin(), params.end(), parameter) != params.end();
      if (!of_parameter || !looks_up(module) || excess.dim != 0) continue;
      for (const Pair& pair : pairs_) {
        if (pair.key.kind != Kind::kInput || pair.key.name != module.name) continue;
        const layout::ViewPtr& ids = excess.of_candidate ? pair.candidate : pair.reference;
        if (ids == nullptr || tensor::is_floating(ids->dtype)) continue;
        if (addresses(longer(excess), *ids, excess)) return &pair;
      }
    }
    return nullptr;
  }

  void look_at(const Pair& parameter, const Excess& excess) {
    const FurtherRows beyond = rows_beyond(longer(excess), parameter, excess);
    const bool constant = beyond.are_constant();
    std::uint64_t gradients = 0;
    std::vector<trace::TensorKey> carrying;
    for (const Pair& pair : pairs_) {
      if (!is_gradient(pair.key.kind) || pair.key.name != parameter.key.name) continue;
      const auto own = excess_of(pair);
      if (!own || !own->is_like(excess) || own->dim != excess.dim) continue;
      ++gradients;
      if (!rows_beyond(longer(excess), pair, excess).are_zero()) carrying.push_back(pair.key);
    }
    const std::string& name = parameter.key.name;
    if (!constant && !carrying.empty()) out_.in_use.emplace(name, excess);
    if (gradients == 0 || out_.in_use.contains(name)) return;
    const std::string rows = describe_rows(name, excess);
    if (const Pair* ids = addressed_by(name, excess)) {
      out_.refused[parameter.key] = {kWithValues,
                                     render({"{rows}: no padding, as {tensor} addresses them",
                                             {{"rows", rows}, {"tensor", to_string(ids->key)}}})};
      return;
    }
    padded_.push_back(
        {name, excess, rows, constant, !carrying.empty(), beyond.first, parameter.key.step});
    for (const trace::TensorKey& key : carrying) {
      out_.refused[key] = {
          kWithGradient,
          render({"{rows}: padding, which carries a gradient; mask it where the loss is computed",
                  {{"rows", rows}}})};
    }
    if (!carrying.empty()) {
      out_.told.push_back(out_.refused.at(carrying.front()).told);
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
                {{"rows", rows}, {"other", excess.of_candidate ? "reference" : "candidate"}}});
  }

  // The padded parameter that a tensor is of, by its own name or that of a state of the optimizer.
  PaddedParameter* owner_of(const Pair& pair, const Excess& own) {
    if (!is_of_parameter(pair.key.kind)) return nullptr;
    const bool is_state = pair.key.kind == Kind::kOptimizerState;
    for (PaddedParameter& one : padded_) {
      const bool named =
          pair.key.name == one.name || (is_state && pair.key.name.starts_with(one.name + "."));
      // A state may have fewer dimensions, and the rows in another one.
      if (named && own.is_like(one.excess) && (is_state || own.dim == one.excess.dim)) return &one;
    }
    return nullptr;
  }

  // The one whose padding a value was computed from.
  PaddedParameter* source_of(const Pair& pair, const Excess& own,
                             const std::vector<Group>& groups) {
    for (const Group& group : groups) {
      const std::string* name = group.values.parameter_of(pair, own, group.excess);
      if (name == nullptr) continue;
      return &*std::find_if(padded_.begin(), padded_.end(),
                            [name](const PaddedParameter& one) { return one.name == *name; });
    }
    return nullptr;
  }

  std::vector<Group> groups() const {
    std::vector<Group> found;
    std::vector<std::vector<std::string>> names;
    for (const PaddedParameter& one : padded_) {
      const auto same = std::find_if(found.begin(), found.end(), [&one](const Group& group) {
        return group.excess.is_like(one.excess);
      });
      const auto at = static_cast<std::size_t>(same - found.begin());
      if (same == found.end()) {
        found.push_back({one.excess, {}});
        names.emplace_back();
      }
      names[at].push_back(one.name);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].values = padded_values(names[i], found[i].excess, modules_, pairs_);
    }
    return found;
  }

  void refuse(const PaddedParameter& one, const Pair& pair, const FurtherRows& rows) {
    out_.refused[pair.key] = {
        kWithValues,
        render({!rows.finite ? "{rows}: padding, but {tensor} is not finite there"
                : rows.one_value
                    ? "{rows}: padding, but {tensor} is {value} there"
                    : "{rows}: padding, but {tensor} has values of up to {value} there",
                {{"rows", one.rows}, {"tensor", to_string(pair.key)}, {"value", rows.largest}}})};
  }

  void trim() {
    const std::vector<Group> known = groups();
    for (Pair& pair : pairs_) {
      const auto own = excess_of(pair);
      if (!own || out_.refused.contains(pair.key)) continue;
      PaddedParameter* const owner = owner_of(pair, *own);
      PaddedParameter* const source = owner == nullptr ? source_of(pair, *own, known) : nullptr;
      if (owner == nullptr && source == nullptr) continue;
      try {
        const FurtherRows rows = rows_beyond(longer(*own), pair, *own);
        const bool fits = owner != nullptr ? is_kept(longer(*own), pair, rows, *owner)
                                           : is_left_by(*source, pair, rows);
        if (!fits) {
          refuse(owner != nullptr ? *owner : *source, pair, rows);
          continue;
        }
      } catch (const base::InputError&) {
        // The comparison reports what cannot be read.
      }
      trim(pair, *own);
    }
  }

  static void trim(Pair& pair, const Excess& excess) {
    layout::ViewPtr& view = excess.of_candidate ? pair.candidate : pair.reference;
    view = layout::trimmed(view, excess.dim, excess.shorter);
    if (excess.of_candidate) return;
    for (measure::TensorRef& noise : pair.noise) {
      noise.view = layout::trimmed(noise.view, excess.dim, excess.shorter);
    }
  }

  const trace::Source& reference_;
  const trace::Source& candidate_;
  const std::vector<trace::Module>& modules_;
  std::vector<Pair>& pairs_;
  std::vector<PaddedParameter> padded_;
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
                     const std::vector<trace::Module>& modules, std::vector<Pair>& pairs) {
  return Trimming(reference, candidate, modules, pairs).run();
}

}  // namespace ttrace::comparison
