#include "specification/evaluate/sample.h"

#include <algorithm>

#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

// A result of fewer elements is not sampled: it is cheap, and its sample would be too small.
constexpr std::uint64_t kFewestToSample = std::uint64_t{1} << 15U;
constexpr std::uint64_t kFewestSampled = 4096;
constexpr std::uint64_t kMostWays = 16;  // ways to cut a dimension that are tried
constexpr double kWorthwhile = 0.6;      // a sample may take this share of the work of the whole

double work_of(const Shape& shape) {
  double count = 1;
  for (const std::uint64_t extent : shape) count *= static_cast<double>(extent);
  return count;
}

class Sampler {
 public:
  explicit Sampler(const Expression& expression)
      : expression_(expression), leaves_(expression.leaves.size()) {}

  bool has_open_shapes() const {
    for (std::uint32_t v = 0; v < leaves_ + expression_.steps.size(); ++v) {
      if (is_open(shape_of(v))) return true;
    }
    return false;
  }

  const Shape& shape_of(std::uint32_t value) const {
    return value < leaves_
               ? expression_.specification->tensors[expression_.leaves[value].tensor].shape
               : expression_.steps[value - leaves_].node->shape;
  }

  // From the result back to the leaves.
  Sample sample(const std::optional<Cut>& cut) const {
    const std::size_t values = leaves_ + expression_.steps.size();
    Sample sample;
    if (cut) sample.result = *cut;
    sample.computed.resize(values);
    sample.taken.resize(expression_.steps.size());
    std::vector<std::vector<std::optional<Cut>>> wanted(values);
    wanted[expression_.result].push_back(cut);
    for (std::size_t v = values; v-- > 0;) {
      if (wanted[v].empty()) continue;
      const std::optional<Cut>& first = wanted[v].front();
      const bool alike =
          std::all_of(wanted[v].begin(), wanted[v].end(),
                      [&](const std::optional<Cut>& other) { return other == first; });
      if (alike) sample.computed[v] = first;
      if (v < leaves_) continue;
      const Step& step = expression_.steps[v - leaves_];
      const Node& node = *step.node;
      std::optional<ArgumentCuts> taken;
      if (sample.computed[v] && node.primitive->cut != nullptr) {
        const std::vector<const Shape*> shapes = argument_shapes(step);
        taken = node.primitive->cut({node.attributes, node.shape, shapes, *sample.computed[v]});
      }
      if (!taken) sample.computed[v].reset();
      sample.taken[v - leaves_] =
          taken ? std::move(*taken) : ArgumentCuts(step.arguments.size(), std::nullopt);
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
        const Cut& cut = *sample.computed[v];
        own *= static_cast<double>(cut.count) / static_cast<double>(shape_of(v)[cut.dim]);
      }
      if (v >= leaves_) own *= work_per_element(expression_.steps[v - leaves_]);
      work += own;
    }
    return work;
  }

 private:
  std::vector<const Shape*> argument_shapes(const Step& step) const {
    std::vector<const Shape*> shapes;
    for (const std::uint32_t argument : step.arguments) shapes.push_back(&shape_of(argument));
    return shapes;
  }

  double work_per_element(const Step& step) const {
    const Primitive& primitive = *step.node->primitive;
    return primitive.work == nullptr ? 1 : primitive.work(argument_shapes(step));
  }

  const Expression& expression_;
  std::size_t leaves_;
};

// Returns cuts of indices spread over the dimension, and of adjacent ones for steps that merge
// dimensions.
std::vector<Cut> cuts_of(std::size_t dim, std::uint64_t extent) {
  std::vector<Cut> cuts;
  for (std::uint64_t ways = 2; ways <= std::min(kMostWays, extent); ++ways) {
    if (ways == kMostWays / 2) cuts.push_back({dim, ways / 2, ways, extent / ways});
    if (extent % ways == 0) cuts.push_back({dim, ways / 2 * (extent / ways), 1, extent / ways});
  }
  return cuts;
}

}  // namespace

std::optional<Sample> sample_of(const Expression& expression, const Cut& cut) {
  Sample sample = Sampler(expression).sample(cut);
  if (!sample.computed[expression.result]) return std::nullopt;
  return sample;
}

std::optional<Sample> sample_of(const Expression& expression) {
  if (expression.result < expression.leaves.size()) return std::nullopt;
  const Sampler sampler(expression);
  if (sampler.has_open_shapes()) return std::nullopt;
  const Shape& shape = sampler.shape_of(expression.result);
  const double elements = work_of(shape);
  if (elements < kFewestToSample) return std::nullopt;
  std::optional<Sample> best;
  double least = kWorthwhile * sampler.work(sampler.sample(std::nullopt));
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    for (const Cut& cut : cuts_of(dim, shape[dim])) {
      const double sampled =
          elements * static_cast<double>(cut.count) / static_cast<double>(shape[dim]);
      if (sampled < kFewestSampled) continue;
      Sample sample = sampler.sample(cut);
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
