// The table of primitives: operations from which the expressions of a specification are made. Their
// formulas: schemas/specification-v1.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.h"
#include "measure/backend.h"
#include "specification/primitives/cut.h"
#include "specification/primitives/noise.h"
#include "specification/primitives/value.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::specification {

// An extent that depends on data and is known only when a value is there.
inline constexpr std::uint64_t kAnyExtent = std::numeric_limits<std::uint64_t>::max();

enum class AttributeType {
  kFlag,     // true or false
  kNumber,   // a number, or "nan", "inf", "-inf"
  kInteger,  // a whole number, also below 0
  kNumbers,  // a list of numbers
  kDims,     // a list of whole numbers >= 0
  kWord,     // a string
  kWords,    // a list of strings
};

struct AttributeRule {
  std::string_view name;
  AttributeType type;
  bool required = true;
};

// The attributes of one node, of the types that the primitive's rules name.
class Attributes {
 public:
  using Content = std::variant<bool, double, std::int64_t, std::vector<double>,
                               std::vector<std::size_t>, std::string, std::vector<std::string>>;

  // `name` must outlive this, as the names in a table of rules do.
  void set(std::string_view name, Content content);
  bool has(std::string_view name) const;
  // Null if it is not there.
  const Content* find(std::string_view name) const;

  // The attribute must be there and of that type, unless there is a default.
  bool flag(std::string_view name) const;
  double number(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer_or(std::string_view name, std::int64_t absent) const;
  const std::vector<double>& numbers(std::string_view name) const;
  const std::vector<std::size_t>& dims(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  // Empty if it is not there.
  const std::vector<std::string>& words(std::string_view name) const;

 private:
  std::vector<std::pair<std::string_view, Content>> contents_;
};

// What the rule of a primitive's shape knows. Extents may be kAnyExtent.
struct ShapeCall {
  const Attributes& attributes;
  std::span<const tensor::Shape* const> arguments;  // by Primitive::arguments; absent ones are null
  const tensor::Shape& declared;                    // of the node
};

// Thrown by rules of shapes: why the arguments do not fit. No error of the program, since the
// caller knows where in the file it is.
struct ShapeProblem {
  std::string reason;
};

// Makes one whose reason is the parts one after the other.
template <typename... Parts>
ShapeProblem shape_error(const Parts&... parts) {
  return {base::concat(parts...)};
}

// What the evaluation of a primitive gets. Shapes have passed the primitive's rule.
struct EvaluationCall {
  const Attributes& attributes;
  std::span<const Value* const> arguments;  // by Primitive::arguments; absent ones are null
  std::span<const tensor::DType> dtypes;    // of the arguments; of absent ones without meaning
  const tensor::Shape& shape;               // of the result; no kAnyExtent
  tensor::DType dtype;                      // of the result
  const measure::ExecutionContext& context;
  const Noise* noise;  // roundings to simulate inside the operation, or null
  // Which of equal elements is chosen: the first one from this share of their line on.
  double ties = 0;
};

enum class Rounding {
  kExact,          // moves, selects or compares elements
  kOnce,           // every element of the result is rounded once; the evaluator adds that
  kWhereNarrower,  // rounded where the result's type is narrower than the argument's
};

// Whether every element of a result is one of the first argument's.
enum class Move {
  kNone,
  kInOrder,  // all of them, one after the other in row-major order
  kAnyhow,   // some of them, in another order or several times
};

// One term of a result that is a sum: an argument, or the product of two. Result and arguments are
// seen as matrices whose columns are the last dimension.
struct MatrixTerm {
  std::size_t left = 0;                             // the argument; of a product the left factor
  std::optional<std::size_t> right = std::nullopt;  // the right factor
  double coefficient = 1;
  bool transposed = false;  // the term is the transpose of the argument
  bool broadcast = false;   // the argument is expanded to the shape of the result
};

struct TermsCall {
  const Attributes& attributes;
  const tensor::Shape& shape;                       // of the result
  std::span<const tensor::Shape* const> arguments;  // that are given
  tensor::DType dtype;                              // of the result
  bool transposed;                                  // its transpose is wanted, of a matrix
};

// Everything about a primitive: no file outside its family knows one by its name. A member that is
// left out says what is safe, not what is fast.
struct Primitive {
  std::string_view name;
  std::vector<std::string_view> arguments;  // names; of a variadic primitive one
  std::size_t required = 0;                 // how many of them, from the first, must be given
  bool variadic = false;                    // any number >= 1 of arguments
  std::vector<AttributeRule> attributes;
  Rounding rounding = Rounding::kExact;
  tensor::Shape (*shape)(const ShapeCall& call) = nullptr;  // throws ShapeProblem
  Value (*evaluate)(const EvaluationCall& call) = nullptr;

  // Computes all primitives that take the same arguments and share most of their work, without
  // simulated roundings, to the bits of evaluate(). Null for others.
  using Named = std::pair<std::string_view, Value>;
  std::vector<Named> (*together)(const EvaluationCall& call) = nullptr;

  // How it is cut; null: the result can only be computed as a whole.
  CutRule cut = nullptr;
  // Multiplications, or elements that are touched, for one element of the result; null: one.
  double (*work)(std::span<const tensor::Shape* const> arguments) = nullptr;
  // Null, or nothing: the result is no sum of its arguments.
  std::optional<std::vector<MatrixTerm>> (*terms)(const TermsCall& call) = nullptr;

  Move move = Move::kNone;
  bool commutes = false;         // arguments may be given in any order
  bool associates = false;       // (x, (y, z)) is ((x, y), z), up to roundings
  bool shape_is_layout = false;  // the shape of the result says no more than how rows are laid out
  bool finds_equals = false;   // tells which numbers are equal: inputs off by a rounding never are
  bool names_places = false;   // tells places of elements by size; equal ones in any order
  bool worth_sharing = false;  // takes much longer than its arguments took
  bool told_to_people = true;  // in a summary of an expression
  std::string_view described_by = {};  // an attribute that says all; empty: the name does
};

// An entry with what every primitive has.
Primitive entry(std::string_view name, std::vector<std::string_view> arguments,
                std::size_t required, std::vector<AttributeRule> attributes, Rounding rounding,
                tensor::Shape (*shape)(const ShapeCall&), Value (*evaluate)(const EvaluationCall&));

// Primitive::work of a primitive that only shows values in another way.
double no_work(std::span<const tensor::Shape* const> arguments);

// Whether the attributes list elements of the result, which somebody has written down.
bool lists_elements(const Primitive& primitive);

// Returns the primitive of that name, or null.
const Primitive* find_primitive(std::string_view name);
// All names, for messages and tests.
std::vector<std::string> primitive_names();

// The position in Primitive::arguments of each of `count` given arguments: what the attribute
// `arguments` names, or the first ones if it is absent. Throws ShapeProblem if that cannot be.
std::vector<std::size_t> argument_slots(const Primitive& primitive, const Attributes& attributes,
                                        std::size_t count);

}  // namespace ttrace::specification
