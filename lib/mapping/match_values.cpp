#include "mapping/match_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "mapping/map_starter.h"
#include "mapping/name_match.h"
#include "measure/fingerprints.h"

namespace ttrace::mapping {
namespace {

using measure::TensorRef;
using trace::Kind;

// Modules with the same parameters: one on each side, or one on one side and several on the other.
struct Relation {
  std::vector<std::string> reference;
  std::vector<std::string> candidate;
  std::uint64_t groups = 1;
  std::vector<std::uint64_t> sizes;
};

std::string owner_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

std::vector<std::string> owners_of(const std::vector<std::string>& parameters) {
  std::vector<std::string> owners;
  for (const std::string& name : parameters) {
    std::string owner = owner_of(name);
    if (owner.empty() || std::find(owners.begin(), owners.end(), owner) != owners.end()) return {};
    owners.push_back(std::move(owner));
  }
  return owners;
}

std::vector<Relation> relations_of(const std::vector<NameMatch>& parameters) {
  std::vector<Relation> relations;
  std::set<std::string> of_reference;
  std::set<std::string> of_candidate;
  for (const NameMatch& match : parameters) {
    Relation relation{owners_of(match.reference), owners_of(match.candidate), match.groups,
                      match.sizes};
    bool fresh = !relation.reference.empty() && !relation.candidate.empty();
    for (const std::string& name : relation.reference)
      fresh = fresh && !of_reference.contains(name);
    for (const std::string& name : relation.candidate)
      fresh = fresh && !of_candidate.contains(name);
    if (!fresh) continue;
    of_reference.insert(relation.reference.begin(), relation.reference.end());
    of_candidate.insert(relation.candidate.begin(), relation.candidate.end());
    relations.push_back(std::move(relation));
  }
  return relations;
}

bool has_kind(const ModuleValues& values, const std::string& module, Kind kind) {
  const auto found = values.find(module);
  return found != values.end() && found->second.contains({kind, ""});
}

using Permutation = std::vector<std::size_t>;

// The permutation of dimensions that turns shape `b` into `a`: none, or an exchange of the first
// two (one framework has samples first, another tokens); nothing if neither is enough.
std::optional<Permutation> permutation_between(const tensor::Shape& a, const tensor::Shape& b) {
  if (a == b) return Permutation{};
  if (a.size() != b.size() || a.size() < 2) return std::nullopt;
  tensor::Shape exchanged = b;
  std::swap(exchanged[0], exchanged[1]);
  if (exchanged != a) return std::nullopt;
  Permutation permutation(a.size());
  std::iota(permutation.begin(), permutation.end(), std::size_t{0});
  std::swap(permutation[0], permutation[1]);
  return permutation;
}

const tensor::Shape& shape_of(const ModuleValues& values, const std::string& module, Kind kind) {
  return values.at(module).at({kind, ""}).view->shape;
}

// Matches the outputs and inputs of one module with those of several modules on the other side.
void match_several(const Relation& relation, const ModuleValues& reference,
                   const ModuleValues& candidate, std::vector<NameMatch>& matches) {
  const bool one_is_candidate = relation.candidate.size() == 1;
  const ModuleValues& wholes = one_is_candidate ? candidate : reference;
  const ModuleValues& parts = one_is_candidate ? reference : candidate;
  const std::string& one =
      one_is_candidate ? relation.candidate.front() : relation.reference.front();
  const std::vector<std::string>& several =
      one_is_candidate ? relation.reference : relation.candidate;
  const auto all_have = [&](Kind kind) {
    return has_kind(wholes, one, kind) &&
           std::all_of(several.begin(), several.end(),
                       [&](const std::string& part) { return has_kind(parts, part, kind); });
  };
  std::map<std::pair<Permutation, std::vector<std::uint64_t>>, NameMatch> joined;
  for (const Kind kind : {Kind::kOutput, Kind::kGradOutput}) {
    if (!all_have(kind)) continue;
    std::vector<std::uint64_t> sizes;
    tensor::Shape sum = shape_of(parts, several.front(), kind);
    if (sum.empty()) continue;
    sum.back() = 0;
    for (const std::string& part : several) {
      const tensor::Shape& shape = shape_of(parts, part, kind);
      sizes.push_back(shape.empty() ? 0 : shape.back());
      sum.back() += sizes.back();
    }
    const auto permutation = permutation_between(sum, shape_of(wholes, one, kind));
    // With only two dimensions, the exchange would move the joined dimension.
    if (!permutation || (permutation->size() == 2)) continue;
    NameMatch& match = joined[{*permutation, sizes}];
    match.reference = relation.reference;
    match.candidate = relation.candidate;
    match.groups = relation.groups;
    match.dim = sum.size() - 1;
    match.sizes = sizes;
    match.transpose = *permutation;
    match.kinds.push_back(kind);
  }
  for (auto& [how, match] : joined) matches.push_back(std::move(match));
  if (!all_have(Kind::kInput)) return;
  const auto permutation = permutation_between(shape_of(parts, several.front(), Kind::kInput),
                                               shape_of(wholes, one, Kind::kInput));
  if (!permutation) return;
  NameMatch same{relation.reference, relation.candidate};
  same.kinds = {Kind::kInput};
  same.same = true;
  same.transpose = *permutation;
  matches.push_back(std::move(same));
}

// Matches all values of two modules.
void match_modules(const std::string& of_reference, const std::string& of_candidate,
                   const ModuleValues& reference, const ModuleValues& candidate, bool by_values,
                   std::vector<NameMatch>& matches) {
  const auto there = candidate.find(of_candidate);
  if (there == candidate.end()) return;
  const auto here = reference.find(of_reference);
  std::map<std::pair<Kind, std::string>, Permutation> permutations;  // of values that need one
  for (const auto& [which, tensor] : there->second) {
    if (here == reference.end() || !here->second.contains(which)) continue;
    const auto permutation =
        permutation_between(here->second.at(which).view->shape, tensor.view->shape);
    if (permutation && !permutation->empty()) permutations.emplace(which, *permutation);
  }
  std::map<Permutation, NameMatch> permuted;
  bool unchanged = false;
  for (const auto& [which, tensor] : there->second) {
    const auto& [kind, place] = which;
    const auto permutation = permutations.find(which);
    if (place.empty() && permutation != permutations.end()) {
      NameMatch& match = permuted[permutation->second];
      match.reference = {of_reference};
      match.candidate = {of_candidate};
      match.transpose = permutation->second;
      match.kinds.push_back(kind);
    } else if (permutation != permutations.end() ||
               (!place.empty() && permutations.contains({kind, ""}))) {
      // This value in brackets is permuted differently from the others.
      NameMatch match{{of_reference + place}, {of_candidate + place}};
      match.kinds = {kind};
      if (permutation != permutations.end()) match.transpose = permutation->second;
      matches.push_back(std::move(match));
    } else {
      unchanged = true;
    }
  }
  for (auto& [permutation, match] : permuted) matches.push_back(std::move(match));
  if (!unchanged) return;
  NameMatch match{{of_reference}, {of_candidate}};
  match.by_values = by_values;
  matches.push_back(std::move(match));
}

// A module that its own parameters do not identify.
struct Open {
  std::string name;
  std::set<std::size_t> relations;  // of the modules inside it
  std::map<std::pair<Kind, std::string>, measure::Sketch> sketches = {};
  bool matched = false;
};

std::vector<Open> open_modules(const ModuleValues& values, const ModuleValues& others,
                               const std::vector<Relation>& relations,
                               std::vector<std::string> Relation::*side) {
  std::set<std::string> known;
  for (const Relation& relation : relations) {
    known.insert((relation.*side).begin(), (relation.*side).end());
  }
  std::vector<Open> open;
  std::map<std::string, std::size_t> index;
  for (const auto& [name, of_module] : values) {
    if (known.contains(name) || others.contains(name)) continue;
    index[name] = open.size();
    open.push_back({name, {}});
  }
  for (std::size_t r = 0; r < relations.size(); ++r) {
    for (const std::string& name : relations[r].*side) {
      for (std::size_t dot = name.find('.'); dot != std::string::npos;
           dot = name.find('.', dot + 1)) {
        const auto found = index.find(name.substr(0, dot));
        if (found != index.end()) open[found->second].relations.insert(r);
      }
    }
  }
  return open;
}

void add_sketches(const ModuleValues& values, unsigned threads, std::vector<Open>& open) {
  base::parallel_for(open.size(), threads, [&](std::size_t i) {
    for (const auto& [which, tensor] : values.at(open[i].name)) {
      try {
        open[i].sketches.emplace(which, measure::sketch_of(tensor));
      } catch (const base::InputError&) {
        continue;  // a comparison will report the error
      }
    }
  });
}

// The number of kinds in which some value of both modules agrees up to rounding.
std::size_t agreeing(const Open& a, const ModuleValues& of_a, const Open& b,
                     const ModuleValues& of_b) {
  std::set<Kind> kinds;
  for (const auto& [which, sketch] : a.sketches) {
    for (const auto& [other, other_sketch] : b.sketches) {
      if (which.first != other.first) continue;
      const layout::View& view = *of_a.at(a.name).at(which).view;
      const layout::View& other_view = *of_b.at(b.name).at(other).view;
      if (view.shape != other_view.shape) continue;
      const double epsilon =
          std::max(tensor::is_floating(view.dtype) ? tensor::epsilon(view.dtype) : 0.0,
                   tensor::is_floating(other_view.dtype) ? tensor::epsilon(other_view.dtype) : 0.0);
      // Rounding errors grow with depth; in healthy runs they stay below the root of the precision.
      if (measure::sketch_distance(sketch, other_sketch) <= std::sqrt(epsilon)) {
        kinds.insert(which.first);
      }
    }
  }
  return kinds.size();
}

// Two modules that may be the same.
struct Likely {
  std::size_t reference = 0;
  std::size_t candidate = 0;
  double alike = 0;  // share of the modules inside that are the same
  std::size_t agreeing = 0;

  std::pair<double, std::size_t> score() const { return {alike, agreeing}; }
};

double share_in_common(const std::set<std::size_t>& a, const std::set<std::size_t>& b) {
  std::size_t common = 0;
  for (const std::size_t one : a) common += b.contains(one) ? 1 : 0;
  const std::size_t either = a.size() + b.size() - common;
  return either == 0 ? 0 : static_cast<double>(common) / static_cast<double>(either);
}

}  // namespace

ValueMatches match_values(const ModuleValues& reference, const ModuleValues& candidate,
                          const std::vector<NameMatch>& parameters, unsigned threads) {
  ValueMatches found;
  const std::vector<Relation> relations = relations_of(parameters);
  std::map<std::string, std::string> counterpart;  // by module of the candidate
  for (const Relation& relation : relations) {
    if (relation.reference.size() > 1 || relation.candidate.size() > 1) {
      match_several(relation, reference, candidate, found.matches);
    } else {
      counterpart[relation.candidate.front()] = relation.reference.front();
      match_modules(relation.reference.front(), relation.candidate.front(), reference, candidate,
                    true, found.matches);
    }
  }

  std::vector<Open> references =
      open_modules(reference, candidate, relations, &Relation::reference);
  std::vector<Open> candidates =
      open_modules(candidate, reference, relations, &Relation::candidate);
  add_sketches(reference, threads, references);
  add_sketches(candidate, threads, candidates);

  const auto take = [&](std::vector<Likely> likely) {
    std::stable_sort(likely.begin(), likely.end(),
                     [](const Likely& a, const Likely& b) { return a.score() > b.score(); });
    for (const Likely& one : likely) {
      Open& here = references[one.reference];
      Open& there = candidates[one.candidate];
      if (here.matched || there.matched) continue;
      // Ambiguous if another pair with one of these modules is equally likely.
      const bool tied = std::any_of(likely.begin(), likely.end(), [&](const Likely& other) {
        const bool same_here = other.reference == one.reference;
        const bool same_there = other.candidate == one.candidate;
        return same_here != same_there && other.score() == one.score() &&
               !references[other.reference].matched && !candidates[other.candidate].matched;
      });
      if (tied) {
        std::vector<std::string>& names = found.ambiguous[here.name];
        if (std::find(names.begin(), names.end(), there.name) == names.end()) {
          names.push_back(there.name);
        }
        continue;
      }
      here.matched = there.matched = true;
      counterpart[there.name] = here.name;
      found.ambiguous.erase(here.name);
      match_modules(here.name, there.name, reference, candidate, one.agreeing > 0, found.matches);
    }
  };

  std::vector<std::vector<std::size_t>> inside(relations.size());
  for (std::size_t r = 0; r < references.size(); ++r) {
    for (const std::size_t relation : references[r].relations) inside[relation].push_back(r);
  }
  std::vector<Likely> containers;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    std::set<std::size_t> sharing;
    for (const std::size_t relation : candidates[c].relations) {
      sharing.insert(inside[relation].begin(), inside[relation].end());
    }
    for (const std::size_t r : sharing) {
      Likely likely{r, c, share_in_common(references[r].relations, candidates[c].relations),
                    agreeing(references[r], reference, candidates[c], candidate)};
      if (likely.alike == 1 || (likely.alike >= 0.5 && likely.agreeing > 0)) {
        containers.push_back(likely);
      }
    }
  }
  take(std::move(containers));

  // Modules without parameters inside matched modules.
  std::map<std::string, std::vector<std::size_t>> below;
  for (std::size_t r = 0; r < references.size(); ++r) {
    if (references[r].matched || !references[r].relations.empty()) continue;
    below[owner_of(references[r].name)].push_back(r);
  }
  std::vector<Likely> leaves;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (candidates[c].matched || !candidates[c].relations.empty()) continue;
    const std::string parent = owner_of(candidates[c].name);
    const auto known = counterpart.find(parent);
    const auto there = below.find(known == counterpart.end() ? parent : known->second);
    if (there == below.end()) continue;
    for (const std::size_t r : there->second) {
      const std::size_t agree = agreeing(references[r], reference, candidates[c], candidate);
      if (agree > 0) leaves.push_back({r, c, 0, agree});
    }
  }
  take(std::move(leaves));
  return found;
}

}  // namespace ttrace::mapping
