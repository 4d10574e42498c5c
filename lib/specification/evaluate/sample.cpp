#include "specification/evaluate/sample.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;
using TakenParts = std::vector<std::optional<Cut>>;

// A result of fewer elements is cheap, and a sample of it would scatter.
constexpr std::uint64_t kFewestToSample = std::uint64_t{1} << 15U;
constexpr std::uint64_t kFewestSampled = 4096;
constexpr std::uint64_t kMostParts = 16;  // into which a dimension is cut
constexpr double kWorthwhile = 0.6;       // of the work of the whole

double work_of(const Shape& shape) {
  double count = 1;
  for (const std::uint64_t extent : shape) count *= static_cast<double>(extent);
  return count;
}

Cut at(const Cut& part, std::size_t dim) { return {dim, part.start, part.step, part.count}; }

// What a step needs for a part of its result.
class PartRule {
 public:
  PartRule(const Node& node, std::vector<const Shape*> arguments, const Cut& part)
      : node_(node), arguments_(std::move(arguments)), part_(part) {}

  // Returns nothing if the step can only be computed as a whole.
  std::optional<TakenParts> apply() const {
    static const std::set<std::string_view> kLines{
        "softmax", "log_softmax", "softmax_grad", "log_softmax_grad",
        "cumsum",  "concat",      "slice",        "place"};
    const std::string_view name = node_.primitive->name;
    if (node_.primitive->shape == broadcast_rule || name == "expand") return of_broadcast();
    if (node_.primitive->shape == like_first_rule) return same_of_all();
    if (kLines.contains(name)) return along_others({integer("dim")});
    if (name == "flip") return along_others(dims("dims"));
    if (name == "windows") return along_others({integer("dim"), node_.shape.size() - 1});
    if (name == "reshape") return of_reshape();
    if (name == "permute") return TakenParts{at(part_, dims("dims")[part_.dim])};
    if (name == "matmul") return of_matmul();
    if (name == "embedding") return of_embedding();
    if (name.starts_with("attention")) return of_attention();
    if (name == "layer_norm" || name == "rms_norm" || name.ends_with("norm_grad_input")) {
      return of_norm();
    }
    if (node_.attributes.has("keep")) return of_reduction();
    return std::nullopt;
  }

 private:
  std::size_t integer(std::string_view name) const {
    return static_cast<std::size_t>(node_.attributes.integer(name));
  }
  const std::vector<std::size_t>& dims(std::string_view name) const {
    return node_.attributes.dims(name);
  }

  TakenParts same_of_all() const { return TakenParts(arguments_.size(), part_); }

  // Lines along `closed` dimensions are computed as a whole.
  std::optional<TakenParts> along_others(const std::vector<std::size_t>& closed) const {
    if (std::find(closed.begin(), closed.end(), part_.dim) != closed.end()) return std::nullopt;
    return same_of_all();
  }

  // Of an argument whose dimensions broadcast to those of the result.
  std::optional<Cut> broadcast_part(const Shape& shape, const Cut& part) const {
    const std::size_t added = node_.shape.size() - shape.size();
    if (part.dim < added || shape[part.dim - added] == 1) return std::nullopt;
    return at(part, part.dim - added);
  }

  TakenParts of_broadcast() const {
    TakenParts taken;
    for (const Shape* shape : arguments_) taken.push_back(broadcast_part(*shape, part_));
    return taken;
  }

  // Of the dimension that begins at the same element: that part of it, if it ends at whole indices.
  std::optional<TakenParts> of_reshape() const {
    const Shape& from = *arguments_[0];
    const std::uint64_t before = volume(node_.shape, 0, part_.dim);
    const std::uint64_t length = volume(node_.shape, part_.dim + 1, node_.shape.size());
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (from[d] == 1 || volume(from, 0, d) != before) continue;
      const std::uint64_t own = volume(from, d + 1, from.size());
      if (own == length) return TakenParts{at(part_, d)};
      if (part_.step != 1 || part_.start * length % own != 0 || part_.count * length % own != 0) {
        return std::nullopt;
      }
      return TakenParts{Cut{d, part_.start * length / own, 1, part_.count * length / own}};
    }
    return std::nullopt;
  }

  static std::uint64_t volume(const Shape& shape, std::size_t from, std::size_t to) {
    std::uint64_t count = 1;
    for (std::size_t d = from; d < to; ++d) count *= shape[d];
    return count;
  }

  std::optional<TakenParts> of_matmul() const {
    const std::size_t last = node_.shape.size() - 1;
    const Shape& x = *arguments_[0];
    const Shape& y = *arguments_[1];
    if (part_.dim == last - 1) return TakenParts{at(part_, x.size() - 2), std::nullopt};
    if (part_.dim == last) return TakenParts{std::nullopt, at(part_, y.size() - 1)};
    return of_broadcast();
  }

  std::optional<TakenParts> of_embedding() const {
    const std::size_t ids = arguments_[1]->size();
    if (part_.dim < ids) return TakenParts{std::nullopt, part_};
    return TakenParts{at(part_, part_.dim - ids + 1), std::nullopt};
  }

  std::optional<TakenParts> of_norm() const {
    const std::size_t count = integer("count");
    if (part_.dim >= node_.shape.size() - count) return std::nullopt;
    TakenParts taken;
    for (const Shape* shape : arguments_) {
      const bool is_weight = shape->size() < node_.shape.size();
      taken.push_back(is_weight ? std::nullopt : std::optional(part_));
    }
    return taken;
  }

  std::optional<TakenParts> of_reduction() const {
    const std::vector<std::size_t>& reduced = dims("dims");
    const bool keep = node_.attributes.flag("keep");
    std::size_t to = 0;
    for (std::size_t d = 0; d < arguments_[0]->size(); ++d) {
      const bool gone = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
      if (!gone && to == part_.dim) return TakenParts{at(part_, d)};
      if (!gone || keep) ++to;
    }
    return std::nullopt;
  }

  // Batches, and heads: some of one group that shares k and v, or whole groups.
  std::optional<TakenParts> of_attention() const {
    const bool forward = node_.primitive->name == "attention";
    const std::size_t q = forward ? 0 : 1;
    const std::size_t heads_dim = node_.shape.size() - 3;
    if (part_.dim > heads_dim || (part_.dim == heads_dim && part_.step != 1)) return std::nullopt;
    const bool masked = arguments_.size() > q + 3;
    if (part_.dim < heads_dim) {
      TakenParts taken = same_of_all();
      if (masked) taken.back() = broadcast_part(*arguments_.back(), part_);
      return taken;
    }
    const std::uint64_t groups = (*arguments_[q + 1])[heads_dim];
    const std::uint64_t shared = (*arguments_[q])[heads_dim] / groups;
    Cut heads = part_;
    Cut held = part_;
    if (node_.primitive->name == "attention_grad_key" ||
        node_.primitive->name == "attention_grad_value") {
      heads.start *= shared;
      heads.count *= shared;
    } else {
      held.start /= shared;
      held.count = (part_.start + part_.count - 1) / shared - held.start + 1;
      const bool whole = part_.start % shared == 0 && part_.count % shared == 0;
      if (!whole && held.count > 1) return std::nullopt;
    }
    TakenParts taken(arguments_.size(), heads);
    taken[q + 1] = held;
    taken[q + 2] = held;
    if (masked) taken.back() = broadcast_part(*arguments_.back(), heads);
    return taken;
  }

  const Node& node_;
  std::vector<const Shape*> arguments_;
  const Cut& part_;
};

class Sampler {
 public:
  explicit Sampler(const Expression& expression)
      : expression_(expression), leaves_(expression.leaves.size()) {}

  bool is_open() const {
    for (std::uint32_t v = 0; v < leaves_ + expression_.steps.size(); ++v) {
      const Shape& shape = shape_of(v);
      if (std::find(shape.begin(), shape.end(), kAnyExtent) != shape.end()) return true;
    }
    return false;
  }

  const Shape& shape_of(std::uint32_t value) const {
    return value < leaves_
               ? expression_.specification->tensors[expression_.leaves[value].tensor].shape
               : expression_.steps[value - leaves_].node->shape;
  }

  // From the result back to the leaves.
  Sample sample(const std::optional<Cut>& part) const {
    const std::size_t values = leaves_ + expression_.steps.size();
    Sample sample;
    if (part) sample.result = *part;
    sample.computed.resize(values);
    sample.taken.resize(expression_.steps.size());
    std::vector<std::vector<std::optional<Cut>>> wanted(values);
    wanted[expression_.result].push_back(part);
    for (std::size_t v = values; v-- > 0;) {
      if (wanted[v].empty()) continue;
      const std::optional<Cut>& first = wanted[v].front();
      const bool alike =
          std::all_of(wanted[v].begin(), wanted[v].end(),
                      [&](const std::optional<Cut>& other) { return other == first; });
      if (alike) sample.computed[v] = first;
      if (v < leaves_) continue;
      const Step& step = expression_.steps[v - leaves_];
      std::optional<TakenParts> taken;
      if (sample.computed[v]) {
        std::vector<const Shape*> shapes;
        for (const std::uint32_t argument : step.arguments) shapes.push_back(&shape_of(argument));
        taken = PartRule(*step.node, std::move(shapes), *sample.computed[v]).apply();
      }
      if (!taken) sample.computed[v].reset();
      sample.taken[v - leaves_] =
          taken ? std::move(*taken) : TakenParts(step.arguments.size(), std::nullopt);
      for (std::size_t i = 0; i < step.arguments.size(); ++i) {
        wanted[step.arguments[i]].push_back(sample.taken[v - leaves_][i]);
      }
    }
    return sample;
  }

  // Multiplications, or elements that are touched.
  double work(const Sample& sample) const {
    double work = 0;
    for (std::uint32_t v = 0; v < leaves_ + expression_.steps.size(); ++v) {
      double own = work_of(shape_of(v));
      if (sample.computed[v]) {
        const Cut& part = *sample.computed[v];
        own *= static_cast<double>(part.count) / static_cast<double>(shape_of(v)[part.dim]);
      }
      if (v >= leaves_) own *= work_per_element(expression_.steps[v - leaves_]);
      work += own;
    }
    return work;
  }

 private:
  double work_per_element(const Step& step) const {
    const std::string_view name = step.node->primitive->name;
    if (name == "reshape" || name == "permute" || name == "cast" || name == "full") return 0;
    if (name == "matmul") return static_cast<double>(shape_of(step.arguments[0]).back()) / 4;
    if (name.starts_with("attention")) {
      const Shape& k = shape_of(step.arguments[name == "attention" ? 1 : 2]);
      return static_cast<double>(k[k.size() - 2]);
    }
    return 1;
  }

  const Expression& expression_;
  std::size_t leaves_;
};

// Parts that are spread over the dimension, and, for what merges dimensions, parts in one piece.
std::vector<Cut> parts_of(std::size_t dim, std::uint64_t extent) {
  std::vector<Cut> parts;
  for (std::uint64_t cut = 2; cut <= std::min(kMostParts, extent); ++cut) {
    if (cut == kMostParts / 2) parts.push_back({dim, cut / 2, cut, extent / cut});
    if (extent % cut == 0) parts.push_back({dim, cut / 2 * (extent / cut), 1, extent / cut});
  }
  return parts;
}

}  // namespace

Value Cut::of(const Value& whole) const {
  return whole.sliced(dim, start, start + (count - 1) * step + 1, step);
}

std::optional<Sample> sample_of(const Expression& expression, const Cut& part) {
  Sample sample = Sampler(expression).sample(part);
  if (!sample.computed[expression.result]) return std::nullopt;
  return sample;
}

std::optional<Sample> sample_of(const Expression& expression) {
  if (expression.result < expression.leaves.size()) return std::nullopt;
  const Sampler sampler(expression);
  if (sampler.is_open()) return std::nullopt;
  const Shape& shape = sampler.shape_of(expression.result);
  const double elements = work_of(shape);
  if (elements < kFewestToSample) return std::nullopt;
  std::optional<Sample> best;
  double least = kWorthwhile * sampler.work(sampler.sample(std::nullopt));
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    for (const Cut& part : parts_of(dim, shape[dim])) {
      const double sampled =
          elements * static_cast<double>(part.count) / static_cast<double>(shape[dim]);
      if (sampled < kFewestSampled) continue;
      Sample sample = sampler.sample(part);
      if (!sample.computed[expression.result]) continue;
      const double work = sampler.work(sample);
      if (work >= least) continue;
      least = work;
      best = std::move(sample);
    }
  }
  return best;
}

}  // namespace ttrace::specification
