#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/display_limits.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "localize/causes/replicas_along_axis.h"
#include "localize/causes/trial.h"
#include "measure/sections.h"

namespace ttrace::localize {
namespace {

constexpr std::size_t kMostTerms = 16;
// Elements that are read of a shard, and of all shards together.
constexpr std::uint64_t kMostRead = std::uint64_t{1} << 17;
constexpr std::uint64_t kMostReadOfAll = std::uint64_t{1} << 21;
// Where there are more, too little of each would be read.
constexpr std::size_t kMostShards = 1024;
// How near a weight must be to 0 to count as 0, and to the right weight to count as right.
constexpr double kNone = 0.02;
// A fit over fewer elements for each term proves nothing.
constexpr std::uint64_t kElementsPerTerm = 4;

// Sums over the elements of some tensors x_0, x_1, ... and y.
struct FitSums {
  explicit FitSums(std::size_t unknowns) : xx(unknowns * unknowns, 0.0), xy(unknowns, 0.0) {}

  void add(const std::vector<double>& x, double y);

  std::vector<double> xx;  // row-major
  std::vector<double> xy;
  double yy = 0;
};

struct LinearFit {
  std::vector<double> weights;
  double residual2 = 0;
};

void FitSums::add(const std::vector<double>& x, double y) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) xx[i * n + j] += x[i] * x[j];
    xy[i] += x[i] * y;
  }
  yy += y * y;
}

// The weights w with the least ‖y - Σ w_i·x_i‖²; nothing if the x are not independent.
std::optional<LinearFit> fit(const FitSums& sums) {
  // Cholesky: xx = L·Lᵀ.
  constexpr double kLeastIndependent = 1e-9;  // share of ‖x_i‖² that no other x has
  const std::size_t n = sums.xy.size();
  std::vector<double> lower(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double value = sums.xx[j * n + i];
      for (std::size_t k = 0; k < j; ++k) value -= lower[i * n + k] * lower[j * n + k];
      if (i != j) {
        lower[i * n + j] = value / lower[j * n + j];
      } else if (value > kLeastIndependent * sums.xx[i * n + i]) {
        lower[i * n + i] = std::sqrt(value);
      } else {
        return std::nullopt;
      }
    }
  }
  std::vector<double> w = sums.xy;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) w[i] -= lower[i * n + k] * w[k];
    w[i] /= lower[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) w[i] -= lower[k * n + i] * w[k];
    w[i] /= lower[i * n + i];
  }
  double explained = 0;
  for (std::size_t i = 0; i < n; ++i) explained += w[i] * sums.xy[i];
  return LinearFit{std::move(w), std::max(0.0, sums.yy - explained)};
}

// A raw gradient that goes into a main gradient.
struct Term {
  measure::TensorRef tensor;
  std::string words;              // "micro-batch 1", "tp 0"
  std::string axis;               // over which it is one of the coordinates' terms, or empty
  std::set<std::uint64_t> ranks;  // that have it
};

bool is_of(const trace::Mesh& mesh, std::uint64_t rank) {
  if (mesh.ranks.empty()) return rank < layout::mesh_size(mesh);
  return std::find(mesh.ranks.begin(), mesh.ranks.end(), rank) != mesh.ranks.end();
}

// The axis along which the ranks of a term lie elsewhere than those of a shard, or empty.
std::string axis_between(const trace::Mesh& mesh, const std::set<std::uint64_t>& of_term,
                         const std::set<std::uint64_t>& of_shard) {
  const auto unknown = [&](std::uint64_t rank) { return !is_of(mesh, rank); };
  for (const auto* ranks : {&of_term, &of_shard}) {
    if (std::any_of(ranks->begin(), ranks->end(), unknown)) return "";
  }
  const auto along = [&](std::size_t axis, const std::set<std::uint64_t>& ranks) {
    std::set<std::uint64_t> coordinates;
    for (const std::uint64_t rank : ranks) {
      coordinates.insert(layout::coordinates_of(mesh, rank)[axis]);
    }
    return coordinates;
  };
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    if (along(a, of_term) != along(a, of_shard)) return mesh.axes[a].name;
  }
  return "";
}

// The main gradient of the step before: what a buffer that is not zeroed adds to.
std::optional<Term> earlier_main_gradient(const Case& the_case) {
  const trace::TensorKey& key = the_case.result->key;
  for (const auto* record :
       the_case.related->alike(trace::Kind::kMainGrad, the_case.result->shape)) {
    if (record->key.name != key.name || record->key.step + 1 != key.step) continue;
    if (record->candidate == nullptr) return std::nullopt;
    return Term{the_case.related->candidate(*record),
                base::render({"the main gradient of step {step}", {{"step", record->key.step}}}),
                "",
                {}};
  }
  return std::nullopt;
}

// The raw gradients of the same parameter: one per micro-batch, and per coordinate of an axis over
// which it is a sum.
std::vector<Term> terms_of(const Case& the_case) {
  std::vector<Term> terms;
  const trace::TensorKey& key = the_case.result->key;
  for (const auto* record :
       the_case.related->alike(trace::Kind::kParamGrad, the_case.result->shape)) {
    if (record->key.name != key.name || record->key.step != key.step) continue;
    if (record->candidate == nullptr) return {};
    const measure::TensorRef whole = the_case.related->candidate(*record);
    const trace::TensorEntry& entry = *layout::stored_in(*record->candidate).front();
    const trace::Mesh& mesh = whole.source->manifest().meshes.at(entry.mesh);
    const std::string microbatch =
        record->key.microbatch ? base::concat("micro-batch ", *record->key.microbatch) : "";
    bool split = false;
    for (const trace::MeshAxis& axis : mesh.axes) {
      const auto placed = entry.placements.find(axis.name);
      if (split || axis.size < 2 || axis.size > kMostTerms) continue;
      if (placed == entry.placements.end()) continue;
      if (!std::holds_alternative<trace::Partial>(placed->second)) continue;
      split = true;
      for (std::uint64_t c = 0; c < axis.size; ++c) {
        Term term{at_coordinate(whole, axis.name, c), "", axis.name, {}};
        term.words = base::concat(microbatch, microbatch.empty() ? "" : " of ", axis.name, " ", c);
        terms.push_back(std::move(term));
      }
    }
    if (!split) terms.push_back({whole, microbatch, "", {}});
  }
  if (terms.empty()) return {};
  if (terms.size() > kMostTerms) return {};
  for (Term& term : terms) term.ranks = ranks_with(term.tensor);
  return terms;
}

// Over the first `most` elements of `boxes`; the residual is that of all of them, if they are
// alike.
std::optional<LinearFit> fit_in(const std::vector<Term>& terms, const measure::TensorRef& tensor,
                                const std::vector<tensor::Box>& boxes, std::uint64_t most) {
  FitSums sums(terms.size());
  std::vector<std::unique_ptr<measure::TensorReader>> readers;
  for (const Term& term : terms) readers.push_back(term.tensor.open(measure::Replicas::kFirstOnly));
  const auto of_tensor = tensor.open(measure::Replicas::kFirstOnly);
  std::vector<std::vector<double>> values(terms.size());
  std::vector<double> y;
  std::vector<double> x(terms.size());
  std::uint64_t read = 0;
  std::uint64_t elements = 0;
  for (const tensor::Box& whole : boxes) {
    elements += tensor::volume(whole);
    const std::uint64_t at_once = std::min(measure::kReadElements, most);
    tensor::for_each_sub_box(whole, at_once, [&](const tensor::Box& box) {
      if (read >= most) return;
      y.resize(tensor::volume(box));
      read += y.size();
      of_tensor->read(box, y);
      for (std::size_t t = 0; t < terms.size(); ++t) {
        values[t].resize(y.size());
        readers[t]->read(box, values[t]);
      }
      for (std::size_t i = 0; i < y.size(); ++i) {
        for (std::size_t t = 0; t < terms.size(); ++t) x[t] = values[t][i];
        sums.add(x, y[i]);
      }
    });
  }
  if (read < kElementsPerTerm * terms.size() || !std::isfinite(sums.yy)) return std::nullopt;
  auto found = fit(sums);
  if (found) found->residual2 *= static_cast<double>(elements) / static_cast<double>(read);
  return found;
}

struct Shard {
  std::string words;
  measure::TensorRef tensor;
  std::vector<tensor::Box> boxes;
  std::set<std::uint64_t> ranks;
};

std::vector<Shard> shards_of(const Case& the_case) {
  std::vector<Shard> shards;
  const tensor::Box whole = tensor::whole(the_case.reference.view->shape);
  if (the_case.conflict) {
    for (const CopyOfAxis& copy : copies_that_differ(the_case)) {
      shards.push_back({copy.words(), copy.tensor, {whole}, ranks_with(copy.tensor)});
    }
    return shards;
  }
  for (const measure::BlockStats& block : the_case.measurement->blocks) {
    shards.push_back({layout::describe_ranks(block.owner->ranks),
                      the_case.candidate,
                      block.owner->boxes,
                      {block.owner->ranks.begin(), block.owner->ranks.end()}});
  }
  return shards;
}

struct Weights {
  std::vector<std::size_t> lacking;   // terms
  std::vector<std::size_t> too_much;  // with another weight than is due, and not none
  std::vector<std::size_t> extra;     // that are not due at all

  bool are_right() const { return lacking.empty() && too_much.empty() && extra.empty(); }
};

Weights compared(const std::vector<double>& weights, const std::vector<double>& due) {
  Weights found;
  // A mean over the wrong number scales all weights by one factor. So a term is lacking where its
  // weight is small beside the largest one.
  double common = 0;
  double most = 0;
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (due[i] != 0) common = std::max(common, weights[i] / due[i]);
    most = std::max(most, std::abs(due[i]));
  }
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (due[i] == 0) {
      if (std::abs(weights[i]) > kNone * most) found.extra.push_back(i);
      continue;
    }
    const double share = weights[i] / due[i];
    if (std::abs(share) <= kNone * common) {
      found.lacking.push_back(i);
    } else if (std::abs(share - 1) > kNone) {
      found.too_much.push_back(i);
    }
  }
  return found;
}

// Whether a weight is what code could have written: a ratio of numbers up to 16, times sizes of the
// mesh or their inverses, or times the number of terms.
bool is_simple(double weight, const std::vector<double>& sizes) {
  constexpr int kMost = 16;
  constexpr double kNear = 1e-3;
  std::vector<double> factors{1};
  for (const double size : sizes) {
    for (std::size_t i = 0, end = factors.size(); i < end; ++i) {
      factors.push_back(factors[i] * size);
      factors.push_back(factors[i] / size);
    }
  }
  for (const double factor : factors) {
    for (int denominator = 1; denominator <= kMost; ++denominator) {
      const double numerator = std::abs(weight) / factor * denominator;
      const double nearest = std::round(numerator);
      if (nearest < 1 || nearest > kMost) continue;
      if (std::abs(numerator - nearest) <= kNear * nearest) return true;
    }
  }
  return false;
}

const trace::Mesh& mesh_of_case(const Case& the_case) {
  const trace::TensorEntry& entry = *layout::stored_in(*the_case.candidate.view).front();
  return the_case.candidate.source->manifest().meshes.at(entry.mesh);
}

// Numbers that may be a factor of a weight, beside small integers: the number of terms, and the
// sizes of mesh axes.
std::vector<double> sizes_of(const Case& the_case, std::size_t terms) {
  constexpr std::size_t kMostAxes = 4;
  std::vector<double> sizes{static_cast<double>(terms)};
  for (const trace::MeshAxis& axis : mesh_of_case(the_case).axes) {
    if (axis.size > 1 && sizes.size() <= kMostAxes) {
      sizes.push_back(static_cast<double>(axis.size));
    }
  }
  return sizes;
}

std::string named(const std::vector<Term>& terms, const std::vector<std::size_t>& which) {
  std::string text;
  for (std::size_t i = 0; i < which.size() && i < base::kShown.names; ++i) {
    text += base::concat(i > 0 ? ", " : "", terms[which[i]].words);
  }
  return which.size() > base::kShown.names ? text + " ..." : text;
}

// `weight`: how many times the shard has what it has too much of, if that is a simple number.
std::string describe_sum(const std::string& shard, const std::vector<Term>& terms,
                         const Weights& weights, const std::optional<double>& weight) {
  std::vector<std::string> clauses;
  if (!weights.lacking.empty()) {
    clauses.push_back(
        base::render({"lacks {lacking}", {{"lacking", named(terms, weights.lacking)}}}));
  }
  if (!weights.too_much.empty()) {
    const std::string too_much = named(terms, weights.too_much);
    clauses.push_back(
        weight ? base::render({"has {weight} times {too_much}",
                               {{"weight", *weight}, {"too_much", too_much}}})
               : base::render({"has another multiple of {too_much}", {{"too_much", too_much}}}));
  }
  if (!weights.extra.empty()) {
    clauses.push_back(base::render({"has {extra} too, which is not in the reference's",
                                    {{"extra", named(terms, weights.extra)}}}));
  }
  std::string text;
  for (const std::string& clause : clauses) text += (text.empty() ? "" : " and ") + clause;
  return base::render({"on {shard} it {clauses}", {{"shard", shard}, {"clauses", text}}});
}

bool shares(const std::set<std::uint64_t>& a, const std::set<std::uint64_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](std::uint64_t rank) { return b.count(rank) > 0; });
}

std::vector<Cause> find_wrong_sum_of(const Case& the_case, const std::vector<Term>& terms) {
  if (terms.size() < 2) return {};
  const tensor::Box whole = tensor::whole(the_case.reference.view->shape);
  auto healthy = fit_in(terms, the_case.reference, {whole}, kMostRead);
  const double allowed2 = the_case.tolerance.allowed_norm() * the_case.tolerance.allowed_norm();
  if (!healthy || healthy->residual2 > allowed2) return {};
  // The reference leaves out gradients that its script drops, as those that a generator leaves to
  // its critic.
  double most_due = 0;
  for (const double weight : healthy->weights) most_due = std::max(most_due, std::abs(weight));
  if (most_due < 1e-12) return {};
  for (double& weight : healthy->weights) {
    if (std::abs(weight) <= kNone * most_due) weight = 0;
  }
  double left2 = 0;
  std::string text;
  bool others_lack = false;  // a shard has all of its rank's own terms and none of the others
  bool mixed = false;        // something else
  std::string axis;
  const trace::Mesh& mesh = mesh_of_case(the_case);
  const std::vector<Shard> shards = shards_of(the_case);
  if (shards.empty() || shards.size() > kMostShards) return {};
  const std::uint64_t most = std::min(kMostRead, kMostReadOfAll / shards.size());
  for (const Shard& shard : shards) {
    const auto found = fit_in(terms, shard.tensor, shard.boxes, most);
    if (!found) return {};
    left2 += found->residual2;
    const Weights weights = compared(found->weights, healthy->weights);
    if (weights.are_right()) continue;
    bool own_alone = !weights.lacking.empty() && weights.extra.empty();
    for (std::size_t t = 0; t < terms.size(); ++t) {
      const bool lacks = std::count(weights.lacking.begin(), weights.lacking.end(), t) > 0;
      const bool own = shares(terms[t].ranks, shard.ranks);
      own_alone = own_alone && lacks != own;
      if (!lacks || !axis.empty()) continue;
      axis =
          terms[t].axis.empty() ? axis_between(mesh, terms[t].ranks, shard.ranks) : terms[t].axis;
    }
    (own_alone ? others_lack : mixed) = true;
    if (!text.empty()) text += "; ";
    std::optional<double> weight;
    if (!weights.too_much.empty()) {
      const std::size_t first = weights.too_much.front();
      weight = found->weights[first] / healthy->weights[first];
      if (!is_simple(*weight, sizes_of(the_case, terms.size()))) weight.reset();
    }
    text += describe_sum(shard.words, terms, weights, weight);
  }
  const double left = std::sqrt(left2);
  const std::string first = text.substr(0, text.find("; "));
  if (text.empty() || !explains(the_case, left)) {
    reject(the_case, "missing_reduction", left);
    return {};
  }
  const char* name = others_lack && !mixed ? "missing_reduction"
                     : the_case.conflict   ? "replica_conflict"
                                           : "wrong_sum";
  return {cause_that_leaves(the_case, left, name, axis,
                            {"a sum of raw gradients: {sums}", {{"sums", text}}},
                            {{"lacks", first}})};
}

}  // namespace

std::vector<Cause> find_wrong_sum(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.exact) return {};
  if (the_case.result->key.kind != trace::Kind::kMainGrad) return {};
  if (the_case.measurement->total.nonfinite_different > 0) return {};
  std::vector<Term> terms = terms_of(the_case);
  std::vector<Cause> found = find_wrong_sum_of(the_case, terms);
  if (!found.empty() || terms.empty()) return found;
  // A further term may be a multiple of the others, and then hides what they tell alone.
  if (auto earlier = earlier_main_gradient(the_case)) terms.push_back(*std::move(earlier));
  return find_wrong_sum_of(the_case, terms);
}

}  // namespace ttrace::localize
