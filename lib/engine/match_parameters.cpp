#include "engine/match_parameters.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "compare/slice_hashes.h"

namespace ttrace::engine {
namespace {

using compare::SliceHashes;
using compare::TensorRef;

// A parameter that is still without its match.
struct Candidate {
  const TensorRef* tensor = nullptr;
  std::optional<SliceHashes> hashes;  // nothing where it cannot be read
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
      all[i].hashes = compare::slice_hashes(tensors[i], precision);
    } catch (const base::Error&) {
      all[i].hashes.reset();  // a comparison says what is wrong with it
    }
  });
  return all;
}

// Pairs what `key_of` gives the same key on both sides: as many on the one as on the other, in
// order.
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

// The candidate's is longer in its first dimension, and begins with the reference's.
void match_trimmed(Candidates& reference, Candidates& candidate, std::vector<NameMatch>& matches) {
  for (Candidate& one : reference) {
    if (one.matched || !one.hashes || one.shape().empty() || one.shape()[0] < 2) continue;
    const std::vector<std::uint64_t>& rows = one.hashes->by_dim[0];
    for (Candidate& other : candidate) {
      if (other.matched || !other.hashes || other.shape().size() != one.shape().size()) continue;
      if (!std::equal(one.shape().begin() + 1, one.shape().end(), other.shape().begin() + 1)) {
        continue;
      }
      const std::vector<std::uint64_t>& longer = other.hashes->by_dim[0];
      if (longer.size() <= rows.size() || !std::equal(rows.begin(), rows.end(), longer.begin())) {
        continue;
      }
      NameMatch match{{one.name()}, {other.name()}};
      match.trim = layout::Resize{0, rows.size()};
      one.matched = other.matched = true;
      matches.push_back(std::move(match));
      break;
    }
  }
}

// Where a slice lies on the side of the several.
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

// Slices of the whole that follow each other in one part.
struct Run {
  Place begin;
  std::size_t length = 0;
};

// The runs that make up the whole, or nothing.
std::optional<std::vector<Run>> runs_of(const std::vector<std::uint64_t>& slices,
                                        const Candidates& parts, const Places& places) {
  std::vector<Run> runs;
  std::map<std::size_t, std::size_t> used;  // of each part, how many of its slices
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

// One whole that several make up: which, along which of their dimensions, in how many groups.
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

// Finds wholes among `wholes` that several of `parts` make up.
void match_joined(Candidates& wholes, Candidates& parts, bool whole_is_candidate,
                  std::vector<NameMatch>& matches) {
  const Places places = places_of(parts);
  for (Candidate& whole : wholes) {
    if (whole.matched || !whole.hashes) continue;
    for (std::size_t d = 0; d < whole.hashes->by_dim.size() && !whole.matched; ++d) {
      const std::vector<std::uint64_t>& slices = whole.hashes->by_dim[d];
      // Equal slices (a bias of zeros) do not say whose they are.
      if (slices.empty() || std::set(slices.begin(), slices.end()).size() < slices.size()) continue;
      const auto runs = runs_of(slices, parts, places);
      if (!runs) continue;
      const auto joined = joined_of(*runs, parts);
      if (!joined) continue;
      NameMatch match;
      match.dim = joined->dim;
      match.groups = joined->groups;
      match.transposed = joined->dim != d;
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

Candidate* find_unmatched(Candidates& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Candidate& one) {
    return !one.matched && one.name() == name;
  });
  return found == all.end() ? nullptr : &*found;
}

// A bias goes where the weight of its module goes.
void match_by_owner(Candidates& reference, Candidates& candidate, std::vector<NameMatch>& matches) {
  const std::vector<NameMatch> known = matches;
  for (const NameMatch& of_weight : known) {
    if (of_weight.trim) continue;
    for (Candidate& one : candidate) {
      const auto [owner, leaf] = owner_and_leaf(one.name());
      if (one.matched || owner != owner_and_leaf(of_weight.candidate.front()).first) continue;
      std::vector<Candidate*> of_reference;
      std::vector<Candidate*> of_candidate;
      for (const std::string& name : of_weight.reference) {
        of_reference.push_back(find_unmatched(reference, owner_and_leaf(name).first + leaf));
      }
      for (const std::string& name : of_weight.candidate) {
        of_candidate.push_back(find_unmatched(candidate, owner_and_leaf(name).first + leaf));
      }
      NameMatch match = of_weight;
      match.by_values = false;
      match.transposed = false;
      match.dim = 0;
      match.sizes.clear();
      std::uint64_t extents[2] = {0, 0};
      bool fits = true;
      const bool several_of_reference = of_reference.size() > 1;
      for (auto* side : {&of_reference, &of_candidate}) {
        std::vector<std::string>& names = side == &of_reference ? match.reference : match.candidate;
        names.clear();
        for (Candidate* part : *side) {
          fits = fits && part != nullptr && part->shape().size() == 1;
          if (!fits) break;
          names.push_back(part->name());
          extents[side == &of_reference ? 0 : 1] += part->shape()[0];
          if (several_of_reference == (side == &of_reference)) {
            match.sizes.push_back(part->shape()[0]);
          }
        }
      }
      if (!fits || extents[0] != extents[1]) continue;
      for (auto* side : {&of_reference, &of_candidate}) {
        for (Candidate* part : *side) part->matched = true;
      }
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
  transposed.transposed = true;
  pair_by(
      references, candidates,
      [](const Candidate& one, bool is_reference) -> ByHash {
        if (!one.hashes || one.shape().size() != 2) return std::nullopt;
        const tensor::Shape& shape = one.shape();
        if (is_reference) return ByHash({shape, compare::hash_of(one.hashes->by_dim[0])});
        return ByHash({{shape[1], shape[0]}, compare::hash_of(one.hashes->by_dim[1])});
      },
      transposed, found.matches);
  match_joined(candidates, references, true, found.matches);
  match_joined(references, candidates, false, found.matches);
  match_trimmed(references, candidates, found.matches);
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

}  // namespace ttrace::engine
