// The specification of a training step: which recorded tensors each other one is computed from, and
// by which formula. Format: schemas/specification-v1.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "specification/primitives/primitive.h"
#include "tensor/box.h"
#include "tensor/dtype.h"
#include "trace/key.h"

namespace ttrace::specification {

inline constexpr std::string_view kSpecificationSchema = "ttrace.specification/1";

// The limits of a file; checked before anything is built from it.
struct SpecificationLimits {
  std::uint64_t nodes = 10'000'000;  // of all patterns
  std::uint64_t tensors = 1'000'000;
  // Memory while the file is read: the text, its JSON, and what is built from it.
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
};

// One operation of a pattern.
struct Node {
  const Primitive* primitive = nullptr;
  std::vector<std::uint32_t> arguments;  // numbers of earlier values
  Attributes attributes;
  tensor::DType dtype = tensor::DType::kFloat32;  // to which the operation rounds its result
  tensor::Shape shape;                            // may hold kAnyExtent
};

// An expression that many tensors share. Values 0 ... inputs - 1 are the inputs, value inputs + i
// is the i-th node; the last node is the result.
struct Pattern {
  std::uint32_t inputs = 0;
  std::vector<Node> nodes;
};

struct SpecifiedTensor {
  trace::Kind kind = trace::Kind::kOutput;
  std::string name;
  std::uint64_t call = 0;
  std::uint64_t copy = 0;
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Shape shape;  // of the logical tensor, in one micro-batch; may hold kAnyExtent

  // At most one of these three is there. Without any, the tensor is given.
  std::optional<std::uint32_t> pattern;
  std::optional<std::uint32_t> same;  // an earlier tensor with the same bits
  std::string opaque;                 // the operation that no primitive expresses

  // In an item of `updates`: the micro-batch of the step whose tensor it is.
  std::optional<std::uint64_t> microbatch;

  std::vector<std::uint32_t> from;  // earlier tensors: inputs of the pattern, or of `opaque`
  std::string module_class;         // for people, may be empty
  std::string called_at;
  std::vector<double> values;  // the elements of a small buffer, or none
  bool uniform = false;        // a given number that all micro-batches of a step have in common
  // The Python number that the model read from it, a constant for all that follows; no trace
  // records such a tensor.
  std::optional<double> number;
};

// What follows the backward pass.
struct AfterBackward {
  bool mean = false;  // main gradient = factor · mean over micro-batches instead of sum
  double factor = 1;
  bool has_main_grad = false;
  std::string given;  // scalar of the step that the main gradient is multiplied by too, or empty
  // Parameter -> the micro-batches whose raw gradients its main gradient takes, where it does not
  // take all of the step, as where a generator and its critic take turns. Empty: it is no such sum.
  std::map<std::string, std::set<std::uint64_t>> taken;

  // Whether the main gradient of a parameter takes the raw gradients of these micro-batches.
  bool takes(const std::string& parameter, const std::set<std::uint64_t>& microbatches) const;
  std::vector<std::vector<std::string>> tied;  // names of one parameter
  std::optional<double> clip_norm;
};

// The step whose updates the patterns follow, and the settings of the optimizer in it, whose
// numbers are constants in them.
struct SpecifiedUpdate {
  struct Settings {
    std::string type;
    std::map<std::string, double> numbers;
  };
  std::uint64_t step = 0;
  std::map<std::string, Settings> settings;  // by parameter
  // Parameters that the first step trained, and that this one froze.
  std::set<std::string> frozen;
  // Parameters that the step changed by hand: before or behind its optimizers, or without any.
  std::set<std::string> rewritten;
};

struct Specification {
  std::map<std::string, std::string> source;  // facts for people
  std::optional<tensor::DType> precision;
  std::vector<Pattern> patterns;
  std::vector<SpecifiedTensor> tensors;  // in an order of computation
  // The tensors of micro-batches of other sizes, each with patterns of its own and nothing else;
  // empty if all micro-batches have the same sizes. Those of the first one are among them.
  std::vector<Specification> variants;
  // Whether values of the step decide on sizes or on which elements are taken, so that other steps
  // may have other sizes.
  bool decided_by_values = false;
  // Set for a variant that holds for a single micro-batch: its number, in any step.
  std::optional<std::uint64_t> microbatch;
  AfterBackward after_backward;
  // What the updates of a step read and leave, one for each step that is followed. Each has
  // patterns and tensors of its own, and `update`.
  std::vector<Specification> updates;
  std::optional<SpecifiedUpdate> update;
  std::map<std::string, std::uint64_t> opaque;  // operation -> tensors
  std::uint64_t bytes = 0;                      // of memory, at most

  // The tensor's number, or nothing. The step of the key does not matter, and its micro-batch only
  // in an item of `updates`.
  std::optional<std::size_t> find(const trace::TensorKey& key) const;
  // The tensor at the end of the chain of `same`; `tensor` itself if it is no other's name.
  std::size_t original(std::size_t tensor) const;
  // All tensors with the same bits as `tensor` by their chains of `same`, itself included, in
  // order.
  const std::vector<std::uint32_t>& names_of_value(std::size_t tensor) const;
  // Whether the specification says that the step froze a parameter that the first one trained.
  bool is_frozen(std::uint64_t step, const std::string& parameter) const;
  // Whether the reference changed a parameter by hand in that step; in any one, where the
  // specification does not follow the step's updates.
  bool is_rewritten(std::uint64_t step, const std::string& parameter) const;
  // All patterns, those of variants too.
  std::vector<const Pattern*> all_patterns() const;
  // Key of a tensor, without step, and without micro-batch unless the tensor has one.
  trace::TensorKey key_of(std::size_t tensor) const;

  // Builds what find(), original() and names_of_value() use, of variants and updates too. The
  // reader calls it.
  void index();

 private:
  using Key = std::tuple<trace::Kind, std::string, std::uint64_t, std::uint64_t,
                         std::optional<std::uint64_t>>;
  std::map<Key, std::uint32_t> by_key_;
  std::vector<std::uint32_t> originals_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> names_;  // by original
};

// Reads and validates a file. Throws an input error in one sentence, with the JSON pointer, for
// anything that violates the schema: unknown keys, primitives and attributes, arguments that do not
// stand before their user (so there are no cycles), shapes that contradict each other in any use of
// a pattern, more nodes or tensors than the limits; and for what may need more memory than they
// allow.
Specification read_specification(const std::string& path, const SpecificationLimits& limits = {});
// The same of a text; `file` is used in messages only.
Specification parse_specification(std::string_view text, const std::string& file,
                                  const SpecificationLimits& limits = {});

}  // namespace ttrace::specification
