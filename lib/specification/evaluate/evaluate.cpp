#include "specification/evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"
#include "specification/check_shapes.h"
#include "specification/evaluate/evaluation.h"
#include "specification/evaluate/exact_integers.h"
#include "specification/evaluate/shared_values.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

// Random streams of simulated roundings: a leaf has that of its tensor, so that it is off by the
// same in every expression of one seed; steps have those from here on.
constexpr std::uint64_t kStepStreams = std::uint64_t{1} << 32U;

// The steps that `wanted` needs, as one flag per step.
std::vector<char> needed_steps(const Expression& expression,
                               std::span<const std::uint32_t> wanted) {
  const std::size_t leaves = expression.leaves.size();
  std::vector<char> needed(expression.steps.size(), 0);
  for (const std::uint32_t value : wanted) {
    if (value >= leaves) needed[value - leaves] = 1;
  }
  for (std::size_t s = expression.steps.size(); s-- > 0;) {
    if (needed[s] == 0) continue;
    for (const std::uint32_t argument : expression.steps[s].arguments) {
      if (argument >= leaves) needed[argument - leaves] = 1;
    }
  }
  return needed;
}

constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();

std::uint64_t added(std::uint64_t a, std::uint64_t b) {
  return base::checked_add(a, b).value_or(kEndless);
}

std::uint64_t bytes_of(const tensor::Shape& shape) {
  std::uint64_t count = sizeof(double);
  for (const std::uint64_t extent : shape) {
    if (extent != kAnyExtent && __builtin_mul_overflow(count, extent, &count)) return kEndless;
  }
  return count;
}

std::uint64_t leaf_bytes(const Expression& expression) {
  std::uint64_t bytes = 0;
  for (const Leaf& leaf : expression.leaves) {
    bytes = added(bytes, bytes_of(expression.specification->tensors[leaf.tensor].shape));
  }
  return bytes;
}

class Evaluation {
 public:
  Evaluation(const Expression& expression, const std::optional<Perturbation>& perturbation,
             const measure::ExecutionContext& context, const Sample* sample,
             const ValueSharing* sharing)
      : expression_(expression), context_(context), sample_(sample) {
    const bool shares =
        std::any_of(expression.steps.begin(), expression.steps.end(),
                    [](const Step& step) { return step.node->primitive->worth_sharing; });
    if (sharing != nullptr && !perturbation && sample == nullptr && shares) {
      shared_ = sharing->values;
      shared_->make_room();
      for (const std::string& leaf : sharing->leaves) {
        numbers_.push_back(shared_->number_of_leaf(leaf));
      }
      for (const Step& step : expression.steps) {
        const Node& node = *step.node;
        numbers_.push_back(number_of(step, *node.primitive, node.shape));
      }
    }
    if (!perturbation) return;
    ties_ = perturbation->ties.value_or(0);
    if (!perturbation->ties) noise_.emplace(perturbation->seed);
    keeps_exact_leaves_ = perturbation->keeps_exact_leaves;
  }

  std::vector<Value> run(std::span<const Value> leaves, std::span<const std::uint32_t> wanted) {
    const std::size_t first = expression_.leaves.size();
    const std::vector<char> needed = needed_steps(expression_, wanted);
    values_.assign(first + expression_.steps.size(), {});
    uses_.assign(values_.size(), 0);
    for (const std::uint32_t value : wanted) ++uses_[value];
    for (std::size_t s = 0; s < needed.size(); ++s) {
      if (needed[s] == 0) continue;
      for (const std::uint32_t argument : expression_.steps[s].arguments) ++uses_[argument];
    }
    for (std::size_t l = 0; l < first; ++l) {
      if (uses_[l] > 0) values_[l] = leaf(l, leaves[l]);
    }
    for (std::size_t s = 0; s < needed.size(); ++s) {
      if (needed[s] == 0) continue;
      values_[first + s] = shared_step(s);
      for (const std::uint32_t argument : expression_.steps[s].arguments) {
        if (--uses_[argument] == 0) values_[argument].reset();
      }
    }
    std::vector<Value> found;
    for (const std::uint32_t value : wanted) found.push_back(*values_[value]);
    return found;
  }

 private:
  Value leaf(std::size_t number, const Value& value) const {
    const SpecifiedTensor& tensor =
        expression_.specification->tensors[expression_.leaves[number].tensor];
    if (!fits(value.shape(), tensor.shape)) {
      throw base::input_error(trace::kind_name(tensor.kind), " of ", tensor.name, " is ",
                              describe_shape(value.shape()), ", the specification says ",
                              describe_shape(tensor.shape));
    }
    const Value taken = cut_of(computed_cut(number), value);
    const tensor::DType dtype = dtype_of_value(expression_, static_cast<std::uint32_t>(number));
    require_exact_integers(taken, dtype);
    if (!noise_ || (keeps_exact_leaves_ && expression_.leaves[number].exact)) return taken;
    return rounded(taken, dtype, noise_->stream(expression_.leaves[number].tensor), context_);
  }

  std::optional<Cut> computed_cut(std::size_t value) const {
    return sample_ != nullptr ? sample_->computed[value] : std::nullopt;
  }

  static Value cut_of(const std::optional<Cut>& cut, const Value& value) {
    return cut ? cut->of(value) : value;
  }

  // Returns the arguments of a step, or the cuts of them that the sample takes.
  std::vector<Value> arguments_of(std::size_t number) const {
    const Step& step = expression_.steps[number];
    std::vector<Value> taken;
    for (std::size_t i = 0; i < step.arguments.size(); ++i) {
      const std::uint32_t argument = step.arguments[i];
      const Value& value = *values_[argument];
      // If only a cut of the value is computed, it is the cut that this step takes.
      const bool whole = sample_ != nullptr && !sample_->computed[argument];
      taken.push_back(whole ? cut_of(sample_->taken[number][i], value) : value);
    }
    return taken;
  }

  std::uint32_t number_of(const Step& step, const Primitive& primitive,
                          const tensor::Shape& shape) const {
    std::vector<std::uint32_t> arguments;
    for (const std::uint32_t argument : step.arguments) arguments.push_back(numbers_[argument]);
    return shared_->number_of_step(primitive, *step.node, shape, arguments);
  }

  // Calls evaluate(call) with the arguments of a step.
  template <typename Evaluate>
  auto call(std::size_t number, const Evaluate& evaluate) const {
    const Step& step = expression_.steps[number];
    std::optional<Node> sampled;
    if (const auto cut = computed_cut(expression_.leaves.size() + number)) {
      sampled = *step.node;
      sampled->shape[cut->dim] = cut->count;
    }
    const Node& node = sampled ? *sampled : *step.node;
    const Primitive& primitive = *node.primitive;
    try {
      const std::vector<Value> given = arguments_of(number);
      std::vector<const tensor::Shape*> shapes;
      for (const Value& argument : given) shapes.push_back(&argument.shape());
      const tensor::Shape shape = shape_of(node, shapes);
      if (std::find(shape.begin(), shape.end(), kAnyExtent) != shape.end()) {
        throw shape_error("the shape ", describe_shape(shape), " stays open");
      }
      const auto slots = argument_slots(primitive, node.attributes, step.arguments.size());
      const std::size_t count = primitive.variadic ? slots.size() : primitive.arguments.size();
      std::vector<const Value*> arguments(count, nullptr);
      std::vector<tensor::DType> dtypes(count, node.dtype);
      for (std::size_t i = 0; i < slots.size(); ++i) {
        arguments[slots[i]] = &given[i];
        dtypes[slots[i]] = dtype_of_value(expression_, step.arguments[i]);
      }
      std::optional<Noise> noise;
      if (noise_) noise = noise_->stream(kStepStreams + number);
      return evaluate(EvaluationCall{node.attributes, arguments, dtypes, shape, node.dtype,
                                     context_, noise ? &*noise : nullptr, ties_});
    } catch (const ShapeProblem& problem) {
      throw base::input_error(primitive.name, ": ", problem.reason);
    } catch (const base::InputError& error) {
      throw error.in(primitive.name);
    }
  }

  Value evaluated(std::size_t number) const {
    const Primitive& primitive = *expression_.steps[number].node->primitive;
    return call(number, [&](const EvaluationCall& found) {
      const Value value = primitive.evaluate(found);
      require_exact_integers(value, found.dtype);
      const double argument = unit_roundoff(found.dtypes.empty() ? found.dtype : found.dtypes[0]);
      const bool narrower =
          primitive.rounding == Rounding::kWhereNarrower && unit_roundoff(found.dtype) > argument;
      if (found.noise == nullptr) return value;
      if (primitive.rounding == Rounding::kOnce) {
        return rounded(value, found.dtype, *found.noise, context_);
      }
      if (!narrower) return value;
      // Whole numbers become floating-point ones without a rounding, up to a size: counts of tokens
      // that a router makes, or a mask.
      const bool whole = !tensor::is_floating(found.dtypes[0]);
      const double exact = whole ? 1 / unit_roundoff(found.dtype) : 0;
      return rounded(value, found.dtype, *found.noise, context_, exact);
    });
  }

  Value shared_step(std::size_t number) const {
    const Step& step = expression_.steps[number];
    const Primitive& primitive = *step.node->primitive;
    if (shared_ == nullptr || !primitive.worth_sharing) return evaluated(number);
    const std::uint32_t own = numbers_[expression_.leaves.size() + number];
    if (auto known = shared_->find(own)) return *known;
    if (primitive.together != nullptr) {
      std::optional<Value> wanted;
      for (const auto& [name, value] : call(number, primitive.together)) {
        const Primitive& made = *find_primitive(name);
        shared_->add(number_of(step, made, value.shape()), value);
        if (&made == &primitive) wanted = value;
      }
      if (wanted) return *wanted;
    }
    const Value value = evaluated(number);
    shared_->add(own, value);
    return value;
  }

  const Expression& expression_;
  const measure::ExecutionContext& context_;
  const Sample* sample_;
  SharedValues* shared_ = nullptr;
  std::vector<std::uint32_t> numbers_;  // of all values, where they are shared
  std::optional<Noise> noise_;
  bool keeps_exact_leaves_ = false;
  double ties_ = 0;
  std::vector<std::optional<Value>> values_;
  std::vector<std::uint32_t> uses_;
};

}  // namespace

tensor::DType dtype_of_value(const Expression& expression, std::uint32_t value) {
  const std::size_t leaves = expression.leaves.size();
  if (value < leaves) {
    const Leaf& leaf = expression.leaves[value];
    return leaf.rounded_to.value_or(expression.specification->tensors[leaf.tensor].dtype);
  }
  return expression.steps[value - leaves].node->dtype;
}

Value rounded(const Value& value, tensor::DType dtype, const Noise& noise,
              const measure::ExecutionContext& context, double exact) {
  const double unit = unit_roundoff(dtype);
  if (unit == 0) return value;
  const Value dense = value.to_dense();
  Value result = Value::uninitialised(value.shape());
  const double* in = dense.data();
  double* out = result.fresh();
  for_ranges(context, result.size(), kElementsPerCall, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      out[i] = std::abs(in[i]) <= exact ? in[i] : in[i] * (1 + unit * noise.at(i));
    }
  });
  return result;
}

std::vector<Value> evaluate_values(const Expression& expression, std::span<const Value> leaves,
                                   std::span<const std::uint32_t> wanted,
                                   const std::optional<Perturbation>& perturbation,
                                   const measure::ExecutionContext& context, const Sample* sample,
                                   const ValueSharing* sharing) {
  if (leaves.size() != expression.leaves.size()) {
    throw base::internal_error("an expression of ", expression.leaves.size(), " inputs got ",
                               leaves.size());
  }
  return Evaluation(expression, perturbation, context, sample, sharing).run(leaves, wanted);
}

Value evaluate(const Expression& expression, std::span<const Value> leaves,
               const std::optional<Perturbation>& perturbation,
               const measure::ExecutionContext& context, const ValueSharing* sharing) {
  const std::uint32_t wanted[] = {expression.result};
  return evaluate_values(expression, leaves, wanted, perturbation, context, nullptr, sharing)[0];
}

Value constant_value(const SpecifiedTensor& tensor) {
  return Value::of(tensor.shape, tensor.values);
}

Value read_value(const measure::TensorRef& tensor) {
  const auto reader = tensor.open(measure::Replicas::kFirstOnly);
  Value value = Value::uninitialised(tensor.view->shape);
  const tensor::Box box = tensor::whole(tensor.view->shape);
  const std::span<double> elements(value.fresh(), static_cast<std::size_t>(value.size()));
  if (tensor::is_floating(tensor.view->dtype)) {
    reader->read(box, elements);
    return value;
  }
  std::vector<std::int64_t> integers(elements.size());
  reader->read_integers(box, integers);
  std::transform(integers.begin(), integers.end(), elements.begin(),
                 [](std::int64_t integer) { return static_cast<double>(integer); });
  return value;
}

std::uint64_t peak_bytes(const Expression& expression, std::span<const std::uint32_t> wanted) {
  const std::size_t leaves = expression.leaves.size();
  const std::size_t end = expression.steps.size();
  const std::vector<char> needed = needed_steps(expression, wanted);
  std::vector<std::size_t> last(leaves + end, 0);  // the step that takes a value last
  for (std::size_t s = 0; s < end; ++s) {
    if (needed[s] == 0) continue;
    for (const std::uint32_t argument : expression.steps[s].arguments) last[argument] = s;
  }
  for (const std::uint32_t value : wanted) last[value] = end;
  std::uint64_t held = leaf_bytes(expression);
  std::uint64_t peak = held;
  for (std::size_t s = 0; s < end; ++s) {
    if (needed[s] == 0) continue;
    held = added(held, bytes_of(expression.steps[s].node->shape));
    if (held >= kEndless) return kEndless;
    peak = std::max(peak, held);
    for (const std::uint32_t argument : expression.steps[s].arguments) {
      if (argument < leaves || last[argument] != s) continue;
      held -= bytes_of(expression.steps[argument - leaves].node->shape);
      last[argument] = end;  // it may be taken twice
    }
  }
  return peak;
}

std::uint64_t judging_bytes(const Expression& expression) {
  const std::uint32_t wanted[] = {expression.result};
  const std::size_t leaves = expression.leaves.size();
  const std::uint64_t result = bytes_of(
      expression.result < leaves
          ? expression.specification->tensors[expression.leaves[expression.result].tensor].shape
          : expression.steps[expression.result - leaves].node->shape);
  std::uint64_t bytes = added(peak_bytes(expression, wanted), leaf_bytes(expression));
  for (int i = 0; i < 3; ++i) bytes = added(bytes, result);  // E, E' and C
  return bytes;
}

}  // namespace ttrace::specification
