#include "mapping/match_parameters.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "mapping/map_starter.h"
#include "mapping/name_match.h"
#include "measure/fingerprints.h"

namespace ttrace::mapping {
namespace {

using measure::SliceHashes;
using measure::TensorRef;

// A parameter to be matched.
struct Candidate {
  const TensorRef* tensor = nullptr;
  std::optional<SliceHashes> hashes;  // nothing if it cannot be read
  bool matched = false;

  const std::string& name() const { return tensor->view->key.name; }
  const tensor::Shape& shape() const { return tensor->view->shape; }
};
using Candidates = std::vector<Candidate>;

tensor::DType coarsest_of(const std::vector<TensorRef>& a, const std::vector<TensorRef>& b) {
  tensor::DType coarsest = tensor::DType::kFloat64;
  for (const auto* side : {&a, &b}) {
    for (const TensorRef& tensor : *side) {
      const tensor::DType dtype = tensor.view->dtype;
      if (!tensor::is_floating(dtype)) continue;
      if (tensor::epsilon(dtype) > tensor::epsilon(coarsest)) coarsest = dtype;
    }
  }
  return coarsest;
}

Candidates hashed(const std::vector<TensorRef>& tensors, tensor::DType precision,
                  unsigned threads) {
  Candidates all(tensors.size());
  base::parallel_for(tensors.size(), threads, [&](std::size_t i) {
    all[i].tensor = &tensors[i];
    try {
      all[i].hashes = measure::slice_hashes(tensors[i], precision);
    } catch (const base::InputError&) {
      all[i].hashes.reset();  // a comparison will report the error
    }
  });
  return all;
}

// Pairs parameters with the same key on both sides, in order, if both sides have equally many of
// them.
template <typename KeyOf>
void pair_by(Candidates& reference, Candidates& candidate, KeyOf key_of, const NameMatch& form,
             std::vector<NameMatch>& matches) {
  using Key = typename decltype(key_of(reference.front(), true))::value_type;
  struct Bucket {
    std::vector<Candidate*> reference;
    std::vector<Candidate*> candidate;
  };
  std::map<Key, Bucket> buckets;
  for (Candidate& one : reference) {
    if (one.matched) continue;
    if (auto key = key_of(one, true)) buckets[*key].reference.push_back(&one);
  }
  for (Candidate& one : candidate) {
    if (one.matched) continue;
    if (auto key = key_of(one, false)) buckets[*key].candidate.push_back(&one);
  }
  for (auto& [key, bucket] : buckets) {
    if (bucket.reference.size() != bucket.candidate.size()) continue;
    for (std::size_t i = 0; i < bucket.reference.size(); ++i) {
      NameMatch match = form;
      match.reference = {bucket.reference[i]->name()};
      match.candidate = {bucket.candidate[i]->name()};
      match.by_values = form.by_values && bucket.reference.size() == 1;
      bucket.reference[i]->matched = bucket.candidate[i]->matched = true;
      matches.push_back(std::move(match));
    }
  }
}

// Whether all slices differ. Equal ones (a bias of zeros) do not identify a parameter.
bool are_distinct(const std::vector<std::uint64_t>& slices) {
  return std::set(slices.begin(), slices.end()).size() == slices.size();
}

// Matches parameters of the candidate that begin with one of the reference and are longer in the
// first dimension (a padded vocabulary).
void match_padded(Candidates& reference, Candidates& candidate, std::vector<NameMatch>& matches) {
  for (Candidate& one : reference) {
    if (one.matched || !one.hashes || one.shape().empty() || one.shape()[0] < 2) continue;
    const std::vector<std::uint64_t>& rows = one.hashes->by_dim[0];
    if (!are_distinct(rows)) continue;
    for (Candidate& other : candidate) {
      if (other.matched || !other.hashes || other.shape().size() != one.shape().size()) continue;
      if (!std::equal(one.shape().begin() + 1, one.shape().end(), other.shape().begin() + 1)) {
        continue;
      }
      const std::vector<std::uint64_t>& longer = other.hashes->by_dim[0];
      if (longer.size() <= rows.size() || !std::equal(rows.begin(), rows.end(), longer.begin())) {
        continue;
      }
      one.matched = other.matched = true;
      matches.push_back({{one.name()}, {other.name()}});
      break;
    }
  }
}

// The position of a slice: which part, dimension and index.
struct Place {
  std::size_t part = 0;
  std::size_t dim = 0;
  std::size_t index = 0;

  bool operator==(const Place&) const = default;
};
using Places = std::unordered_multimap<std::uint64_t, Place>;

Places places_of(const Candidates& parts) {
  Places places;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].matched || !parts[p].hashes) continue;
    for (std::size_t d = 0; d < parts[p].hashes->by_dim.size(); ++d) {
      const std::vector<std::uint64_t>& slices = parts[p].hashes->by_dim[d];
      for (std::size_t i = 0; i < slices.size(); ++i) places.emplace(slices[i], Place{p, d, i});
    }
  }
  return places;
}

// Consecutive slices of the whole that are consecutive in one part.
struct Run {
  Place begin;
  std::size_t length = 0;
};

// Splits the slices of the whole into runs of slices of the parts, or returns nothing.
std::optional<std::vector<Run>> runs_of(const std::vector<std::uint64_t>& slices,
                                        const Candidates& parts, const Places& places) {
  std::vector<Run> runs;
  std::map<std::size_t, std::size_t> used;  // the number of slices used of each part
  for (const std::uint64_t slice : slices) {
    if (!runs.empty()) {
      Run& run = runs.back();
      const auto& of_part = parts[run.begin.part].hashes->by_dim[run.begin.dim];
      const std::size_t next = run.begin.index + run.length;
      if (next < of_part.size() && of_part[next] == slice) {
        ++run.length;
        ++used[run.begin.part];
        continue;
      }
    }
    const auto [first, last] = places.equal_range(slice);
    const Place* found = nullptr;
    for (auto at = first; at != last; ++at) {
      const Place& place = at->second;
      const bool follows = place.index == used[place.part];
      const bool same_way = runs.empty() || place.dim == runs.front().begin.dim;
      if (!follows || !same_way || parts[place.part].matched) continue;
      if (found == nullptr || place.part < found->part) found = &place;
    }
    if (found == nullptr) return std::nullopt;
    ++used[found->part];
    runs.push_back({*found, 1});
  }
  return runs;
}

// How parts make up a whole: in this order, along dimension `dim` of the parts, in `groups` groups.
struct Joined {
  std::vector<std::size_t> parts;
  std::size_t dim = 0;
  std::uint64_t groups = 1;
};

std::optional<Joined> joined_of(const std::vector<Run>& runs, const Candidates& parts) {
  Joined joined;
  joined.dim = runs.front().begin.dim;
  for (const Run& run : runs) {
    const std::size_t part = run.begin.part;
    if (std::find(joined.parts.begin(), joined.parts.end(), part) == joined.parts.end()) {
      joined.parts.push_back(part);
    }
  }
  const std::size_t count = joined.parts.size();
  if (count < 2 || runs.size() % count != 0) return std::nullopt;
  joined.groups = runs.size() / count;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::size_t part = joined.parts[r % count];
    const std::uint64_t extent = parts[part].shape()[joined.dim];
    if (runs[r].begin.part != part || runs[r].length * joined.groups != extent) return std::nullopt;
  }
  return joined;
}

// Matches each of `wholes` that consists of several of `parts`.
void match_joined(Candidates& wholes, Candidates& parts, bool whole_is_candidate,
                  std::vector<NameMatch>& matches) {
  const Places places = places_of(parts);
  for (Candidate& whole : wholes) {
    if (whole.matched || !whole.hashes) continue;
    for (std::size_t d = 0; d < whole.hashes->by_dim.size() && !whole.matched; ++d) {
      const std::vector<std::uint64_t>& slices = whole.hashes->by_dim[d];
      if (slices.empty() || !are_distinct(slices)) continue;
      const auto runs = runs_of(slices, parts, places);
      if (!runs) continue;
      const auto joined = joined_of(*runs, parts);
      if (!joined) continue;
      NameMatch match;
      match.dim = joined->dim;
      match.groups = joined->groups;
      if (joined->dim != d) match.transpose = {1, 0};
      std::vector<std::string> names;
      for (const std::size_t part : joined->parts) {
        names.push_back(parts[part].name());
        match.sizes.push_back(parts[part].shape()[joined->dim]);
        parts[part].matched = true;
      }
      whole.matched = true;
      (whole_is_candidate ? match.candidate : match.reference) = {whole.name()};
      (whole_is_candidate ? match.reference : match.candidate) = std::move(names);
      matches.push_back(std::move(match));
    }
  }
}

// "a.weight" -> "a.", "weight".
std::pair<std::string, std::string> owner_and_leaf(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot + 1), name.substr(dot + 1)};
}

using ByName = std::map<std::string, Candidate*>;

ByName unmatched_by_name(Candidates& all) {
  ByName names;
  for (Candidate& one : all) {
    if (!one.matched && one.shape().size() == 1) names.emplace(one.name(), &one);
  }
  return names;
}

// The parameters `leaf` of the modules that own the parameters `names`, or nothing if one lacks it.
std::vector<Candidate*> siblings_of(const std::vector<std::string>& names, const std::string& leaf,
                                    const ByName& unmatched) {
  std::vector<Candidate*> siblings;
  for (const std::string& name : names) {
    const auto found = unmatched.find(owner_and_leaf(name).first + leaf);
    if (found == unmatched.end() || found->second->matched) return {};
    siblings.push_back(found->second);
  }
  return siblings;
}

std::vector<std::string> names_of(const std::vector<Candidate*>& all) {
  std::vector<std::string> names;
  for (Candidate* one : all) names.push_back(one->name());
  return names;
}

std::vector<std::uint64_t> extents_of(const std::vector<Candidate*>& all) {
  std::vector<std::uint64_t> extents;
  for (Candidate* one : all) extents.push_back(one->shape()[0]);
  return extents;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

// Matches the other parameters of a module, such as its bias, like its weight.
void match_by_owner(Candidates& reference, Candidates& candidate, std::vector<NameMatch>& matches) {
  const ByName of_reference = unmatched_by_name(reference);
  const ByName of_candidate = unmatched_by_name(candidate);
  if (of_reference.empty() || of_candidate.empty()) return;
  const std::vector<NameMatch> of_weights = matches;
  for (const NameMatch& of_weight : of_weights) {
    const std::string owner = owner_and_leaf(of_weight.candidate.front()).first;
    for (auto at = of_candidate.lower_bound(owner);
         at != of_candidate.end() && at->first.starts_with(owner); ++at) {
      const std::string leaf = at->first.substr(owner.size());
      const auto here = siblings_of(of_weight.reference, leaf, of_reference);
      const auto there = siblings_of(of_weight.candidate, leaf, of_candidate);
      if (here.empty() || there.empty()) continue;
      if (sum_of(extents_of(here)) != sum_of(extents_of(there))) continue;
      NameMatch match{names_of(here), names_of(there)};
      match.groups = of_weight.groups;
      match.by_values = false;
      if (here.size() > 1 || there.size() > 1) {
        match.sizes = extents_of(here.size() > 1 ? here : there);
      }
      for (Candidate* one : here) one->matched = true;
      for (Candidate* one : there) one->matched = true;
      matches.push_back(std::move(match));
    }
  }
}

}  // namespace

ParameterMatches match_parameters(const std::vector<TensorRef>& reference,
                                  const std::vector<TensorRef>& candidate, unsigned threads) {
  const tensor::DType precision = coarsest_of(reference, candidate);
  Candidates references = hashed(reference, precision, threads);
  Candidates candidates = hashed(candidate, precision, threads);
  ParameterMatches found;

  using ByHash = std::optional<std::pair<tensor::Shape, std::uint64_t>>;
  pair_by(
      references, candidates,
      [](const Candidate& one, bool) {
        return one.hashes ? ByHash({one.shape(), one.hashes->whole}) : ByHash();
      },
      {}, found.matches);
  NameMatch transposed;
  transposed.transpose = {1, 0};
  pair_by(
      references, candidates,
      [](const Candidate& one, bool is_reference) -> ByHash {
        if (!one.hashes || one.shape().size() != 2) return std::nullopt;
        const tensor::Shape& shape = one.shape();
        if (is_reference) return ByHash({shape, measure::hash_of(one.hashes->by_dim[0])});
        return ByHash({{shape[1], shape[0]}, measure::hash_of(one.hashes->by_dim[1])});
      },
      transposed, found.matches);
  match_joined(candidates, references, true, found.matches);
  match_joined(references, candidates, false, found.matches);
  match_padded(references, candidates, found.matches);
  match_by_owner(references, candidates, found.matches);
  NameMatch by_order;
  by_order.by_values = false;
  pair_by(
      references, candidates,
      [](const Candidate& one, bool) { return std::optional<tensor::Shape>(one.shape()); },
      by_order, found.matches);

  for (const Candidate& one : references) {
    if (one.matched) continue;
    for (const Candidate& other : candidates) {
      if (other.matched || other.shape() != one.shape()) continue;
      found.ambiguous[one.name()].push_back(other.name());
    }
  }
  return found;
}

}  // namespace ttrace::mapping
