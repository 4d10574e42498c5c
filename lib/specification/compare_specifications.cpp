#include "specification/compare_specifications.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "specification/describe.h"
#include "specification/expression.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using base::concat;
using base::render;

// What each side has in the same place.
std::string both(const std::string& reference, const std::string& candidate) {
  return render({"{reference} in the reference and {candidate} in the candidate",
                 {{"reference", reference}, {"candidate", candidate}}});
}

// Numbers values so that equal expressions have equal numbers, in both specifications.
class Numbering {
 public:
  std::size_t of(const std::string& text) {
    return numbers_.emplace(text, numbers_.size()).first->second;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

// The values of one expression: leaves first, then steps.
class NumberedExpression {
 public:
  NumberedExpression(const Expression& expression, const std::vector<std::string>& leaves,
                     bool with_dtypes, Numbering& numbering)
      : expression_(expression), with_dtypes_(with_dtypes), numbering_(numbering) {
    for (const std::string& leaf : leaves) {
      numbers_.push_back(numbering_.of(concat("leaf ", leaf)));
      terms_.push_back({});
    }
    for (const Step& step : expression.steps) add(step);
  }

  std::size_t number(std::uint32_t value) const { return numbers_[value]; }
  std::size_t result() const { return numbers_[expression_.result]; }

  // Null for a leaf.
  const Step* step(std::uint32_t value) const {
    const std::size_t leaves = expression_.leaves.size();
    return value < leaves ? nullptr : &expression_.steps[value - leaves];
  }

  // The value below all reshapes of `value`.
  std::uint32_t below_reshapes(std::uint32_t value) const {
    const Step* found = step(value);
    while (found != nullptr && is_transparent(*found)) {
      value = found->arguments.front();
      found = step(value);
    }
    return value;
  }

  std::string describe(std::uint32_t value) const {
    const Step* found = step(value);
    if (found != nullptr) {
      const Node& node = *found->node;
      const std::string_view attribute = node.primitive->described_by;
      if (!attribute.empty()) return describe_attribute(*node.attributes.find(attribute));
      return std::string(node.primitive->name);
    }
    return describe_tensor(*expression_.specification, expression_.leaves[value].tensor);
  }

  std::uint32_t root() const { return expression_.result; }

 private:
  static constexpr std::size_t kMostTerms = 64;

  // Whether nothing but the shape changes.
  static bool is_transparent(const Step& step) {
    const Primitive& primitive = *step.node->primitive;
    return primitive.move == Move::kInOrder && primitive.rounding == Rounding::kExact;
  }

  void add(const Step& step) {
    const Node& node = *step.node;
    const Primitive& primitive = *node.primitive;
    const std::string_view name = primitive.name;
    std::vector<std::size_t> terms;
    if (is_transparent(step)) {
      numbers_.push_back(numbers_[step.arguments.front()]);
      terms_.push_back(terms_[step.arguments.front()]);
      return;
    }
    const std::string type = with_dtypes_ ? std::string(dtype_short_name(node.dtype)) : "";
    for (const std::uint32_t argument : step.arguments) {
      const Terms& inner = terms_[argument];
      if (primitive.associates && inner.operation == concat(name, type) &&
          terms.size() + inner.terms.size() < kMostTerms) {
        terms.insert(terms.end(), inner.terms.begin(), inner.terms.end());
      } else {
        terms.push_back(numbers_[argument]);
      }
    }
    if (primitive.commutes) std::sort(terms.begin(), terms.end());
    std::string text = concat(name, " ", type);
    if (!primitive.shape_is_layout) text += concat(" ", describe_shape(node.shape));
    for (const AttributeRule& rule : primitive.attributes) {
      const Attributes::Content* content = node.attributes.find(rule.name);
      if (content == nullptr) continue;
      text += concat(" ", rule.name, " ", describe_attribute(*content, kEveryItem));
    }
    for (const std::size_t term : terms) text += concat(" #", term);
    numbers_.push_back(numbering_.of(text));
    terms_.push_back({primitive.associates ? concat(name, type) : std::string(), terms});
  }

  static constexpr std::size_t kEveryItem = 1'000'000;

  struct Terms {
    std::string operation;
    std::vector<std::size_t> terms;
  };

  const Expression& expression_;
  bool with_dtypes_;
  Numbering& numbering_;
  std::vector<std::size_t> numbers_;
  std::vector<Terms> terms_;
};

class Comparison {
 public:
  Comparison(const Specification& reference, const std::string& reference_file,
             const Specification& candidate, const std::string& candidate_file)
      : reference_(reference),
        candidate_(candidate),
        with_dtypes_(reference.precision == candidate.precision) {
    candidate_of_.resize(reference.tensors.size());
    common_in_candidate_.resize(candidate.tensors.size());
    std::size_t common = 0;
    for (std::size_t i = 0; i < reference.tensors.size(); ++i) {
      const auto other = candidate.find(reference.key_of(i));
      if (!other) continue;
      ++common;
      const tensor::Shape& shape = reference.tensors[i].shape;
      if (shape != candidate.tensors[*other].shape) {
        throw base::input_error(candidate_file, ": is of another model or batch than ",
                                reference_file, ": ", describe_tensor(reference, i), " is ",
                                describe_shape(candidate.tensors[*other].shape), " instead of ",
                                describe_shape(shape),
                                "; make both with the same sizes and micro-batch");
      }
      candidate_of_[i] = *other;
      common_in_candidate_[*other] = i;
    }
    if (common == 0) {
      throw base::input_error(candidate_file, ": has no tensor of ", reference_file,
                              "; make one with the candidate's code for the same model");
    }
    if (!with_dtypes_) {
      out_.warnings.push_back(render(
          {"{reference} and {candidate} are of different precisions: roundings are not compared",
           {{"reference", reference_file}, {"candidate", candidate_file}}}));
    }
  }

  CodeComparison compare() {
    for (std::size_t i = 0; i < reference_.tensors.size(); ++i) {
      if (candidate_of_[i]) compare(i, *candidate_of_[i]);
    }
    report_one_sided();
    return std::move(out_);
  }

 private:
  void compare(std::size_t of_reference, std::size_t of_candidate) {
    const auto a = expression_of(reference_, of_reference, [this](std::size_t tensor) {
      return candidate_of_[tensor].has_value();
    });
    const auto b = expression_of(candidate_, of_candidate, [this](std::size_t tensor) {
      return common_in_candidate_[tensor].has_value();
    });
    const auto* none_a = std::get_if<NoExpression>(&a);
    const auto* none_b = std::get_if<NoExpression>(&b);
    if (none_a != nullptr && none_b != nullptr && none_a->why == none_b->why) return;
    ++out_.compared;
    if (none_a != nullptr || none_b != nullptr) {
      add(both(describe(none_a, a), describe(none_b, b)), of_reference);
      return;
    }
    const auto& ours = std::get<Expression>(a);
    const auto& theirs = std::get<Expression>(b);
    const NumberedExpression left(ours, leaf_names(ours, false), with_dtypes_, numbering_);
    const NumberedExpression right(theirs, leaf_names(theirs, true), with_dtypes_, numbering_);
    if (left.result() != right.result()) add(first_difference(left, right), of_reference);
  }

  static std::string describe(const NoExpression* none,
                              const std::variant<Expression, NoExpression>& found) {
    if (none == nullptr) return describe_expression(std::get<Expression>(found));
    return none->reason;
  }

  // Names of one value are one leaf, by its first name in the reference.
  std::vector<std::string> leaf_names(const Expression& expression, bool of_candidate) const {
    std::vector<std::string> names;
    for (const Leaf& leaf : expression.leaves) {
      std::optional<std::size_t> tensor = leaf.tensor;
      if (of_candidate) tensor = common_in_candidate_[leaf.tensor];
      if (tensor) {
        names.push_back(describe_tensor(reference_, reference_.original(*tensor)));
        continue;
      }
      // A constant that only the candidate has.
      std::string text = "constant";
      for (const double value : candidate_.tensors[leaf.tensor].values) {
        text += concat(" ", base::exact_number(value));
      }
      names.push_back(text);
    }
    return names;
  }

  // Follows the two expressions from their results to where they part.
  static std::string first_difference(const NumberedExpression& left,
                                      const NumberedExpression& right) {
    std::uint32_t a = left.below_reshapes(left.root());
    std::uint32_t b = right.below_reshapes(right.root());
    while (true) {
      const Step* ours = left.step(a);
      const Step* theirs = right.step(b);
      if (const auto only = extra_step(left, a, right, b, "reference")) return *only;
      if (const auto only = extra_step(right, b, left, a, "candidate")) return *only;
      if (ours == nullptr || theirs == nullptr ||
          ours->node->primitive != theirs->node->primitive) {
        return both(left.describe(a), right.describe(b));
      }
      const auto attribute = attribute_difference(*ours->node, *theirs->node);
      if (attribute) return *attribute;
      const auto next = first_other_argument(left, *ours, right, *theirs);
      if (!next) {
        return render({"the order of the operations around {operation}",
                       {{"operation", std::string(ours->node->primitive->name)}}});
      }
      a = left.below_reshapes(next->first);
      b = right.below_reshapes(next->second);
    }
  }

  // Describes a step that only one side has, "multiply by 0.125 only in the reference": one of its
  // arguments is what the other side has in its place.
  static std::optional<std::string> extra_step(const NumberedExpression& with, std::uint32_t value,
                                               const NumberedExpression& without,
                                               std::uint32_t other, std::string_view side) {
    const Step* step = with.step(value);
    if (step == nullptr) return std::nullopt;
    const auto& arguments = step->arguments;
    const auto kept = std::find_if(arguments.begin(), arguments.end(), [&](std::uint32_t argument) {
      return with.number(argument) == without.number(other);
    });
    if (kept == arguments.end()) return std::nullopt;
    std::vector<std::string> others;
    for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
      if (argument != kept) others.push_back(with.describe(with.below_reshapes(*argument)));
    }
    return render({"{operation}[ with {others}] only in the {side}",
                   {{"operation", std::string(step->node->primitive->name)},
                    {"others", list_some(others, 4, ", ")},
                    {"side", std::string(side)}}});
  }

  static std::optional<std::string> attribute_difference(const Node& ours, const Node& theirs) {
    const std::string name(ours.primitive->name);
    for (const AttributeRule& rule : ours.primitive->attributes) {
      const Attributes::Content* a = ours.attributes.find(rule.name);
      const Attributes::Content* b = theirs.attributes.find(rule.name);
      const std::string one = a == nullptr ? "absent" : describe_attribute(*a);
      const std::string other = b == nullptr ? "absent" : describe_attribute(*b);
      if (one == other) continue;
      return render(
          {"{attribute} of {operation} is {reference} in the reference and {candidate} in the "
           "candidate",
           {{"attribute", std::string(rule.name)},
            {"operation", name},
            {"reference", one},
            {"candidate", other}}});
    }
    if (ours.dtype != theirs.dtype) {
      return render(
          {"{operation} is rounded to {reference} in the reference and to {candidate} in the "
           "candidate",
           {{"operation", name},
            {"reference", std::string(dtype_short_name(ours.dtype))},
            {"candidate", std::string(dtype_short_name(theirs.dtype))}}});
    }
    if (ours.shape != theirs.shape && !ours.primitive->shape_is_layout) {
      return render(
          {"{operation} gives {reference} in the reference and {candidate} in the candidate",
           {{"operation", name},
            {"reference", describe_shape(ours.shape)},
            {"candidate", describe_shape(theirs.shape)}}});
    }
    if (ours.arguments.size() != theirs.arguments.size()) {
      return render(
          {"{operation} takes {reference:argument} in the reference and {candidate} in the "
           "candidate",
           {{"operation", name},
            {"reference", ours.arguments.size()},
            {"candidate", theirs.arguments.size()}}});
    }
    return std::nullopt;
  }

  // The first arguments that are not equal; those of a commutative operation in any order.
  static std::optional<std::pair<std::uint32_t, std::uint32_t>> first_other_argument(
      const NumberedExpression& left, const Step& ours, const NumberedExpression& right,
      const Step& theirs) {
    std::vector<std::uint32_t> open(theirs.arguments.begin(), theirs.arguments.end());
    std::vector<std::uint32_t> unmatched;
    for (std::size_t i = 0; i < ours.arguments.size(); ++i) {
      const std::size_t number = left.number(ours.arguments[i]);
      if (!ours.node->primitive->commutes) {
        if (number != right.number(theirs.arguments[i])) {
          return std::pair(ours.arguments[i], theirs.arguments[i]);
        }
        continue;
      }
      const auto same = std::find_if(open.begin(), open.end(), [&](std::uint32_t argument) {
        return right.number(argument) == number;
      });
      if (same != open.end()) {
        open.erase(same);
      } else {
        unmatched.push_back(ours.arguments[i]);
      }
    }
    if (unmatched.empty()) return std::nullopt;
    return std::pair(unmatched.front(), open.front());
  }

  void report_one_sided() {
    for (std::size_t i = 0; i < reference_.tensors.size(); ++i) {
      if (!candidate_of_[i]) add(render({"only the reference has it", {}}), i);
    }
    for (std::size_t i = 0; i < candidate_.tensors.size(); ++i) {
      if (!common_in_candidate_[i]) {
        add(render({"only the candidate has it", {}}), candidate_.key_of(i), candidate_.tensors[i]);
      }
    }
  }

  void add(const std::string& what, std::size_t tensor) {
    add(what, reference_.key_of(tensor), reference_.tensors[tensor]);
  }

  void add(const std::string& what, const trace::TensorKey& key, const SpecifiedTensor& about) {
    const auto [known, added] = by_what_.emplace(what, out_.differences.size());
    if (added) out_.differences.push_back({what, {}, about.module_class, about.called_at});
    out_.differences[known->second].tensors.push_back(key);
  }

  const Specification& reference_;
  const Specification& candidate_;
  bool with_dtypes_;
  std::vector<std::optional<std::size_t>> candidate_of_;         // by number in the reference
  std::vector<std::optional<std::size_t>> common_in_candidate_;  // the inverse
  Numbering numbering_;
  std::map<std::string, std::size_t> by_what_;
  CodeComparison out_;
};

}  // namespace

CodeComparison compare_specifications(const Specification& reference,
                                      const std::string& reference_file,
                                      const Specification& candidate,
                                      const std::string& candidate_file) {
  return Comparison(reference, reference_file, candidate, candidate_file).compare();
}

}  // namespace ttrace::specification
