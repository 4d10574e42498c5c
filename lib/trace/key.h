// The identity of a tensor in a trace. Two traces are paired by it alone.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ttrace::trace {

enum class Kind {
  kParam,
  kBuffer,
  kInput,
  kOutput,
  kLoss,
  kGradOutput,
  kGradInput,
  kParamGrad,
  kMainGrad,
  kGradNorm,
  kOptimizerState,
  kParamAfterStep,
  kBufferAfterStep,
  kScalar,
  kIndex,
};

inline constexpr std::array kAllKinds{
    Kind::kParam,           Kind::kBuffer,         Kind::kInput,
    Kind::kOutput,          Kind::kLoss,           Kind::kGradOutput,
    Kind::kGradInput,       Kind::kParamGrad,      Kind::kMainGrad,
    Kind::kGradNorm,        Kind::kOptimizerState, Kind::kParamAfterStep,
    Kind::kBufferAfterStep, Kind::kScalar,         Kind::kIndex};

std::string_view kind_name(Kind kind);
std::optional<Kind> parse_kind(std::string_view name);
// Whether it is an input or output of a module, or the gradient of one.
bool is_module_value(Kind kind);

struct TensorKey {
  std::uint64_t step = 0;
  std::optional<std::uint64_t> microbatch;
  Kind kind = Kind::kOutput;
  std::string name;
  std::uint64_t call = 0;
  std::uint64_t copy = 0;

  auto operator<=>(const TensorKey&) const = default;
};

// Whether it is the gradient of a loss: what a script multiplies the loss by before its backward,
// which nothing in the step computes. It is `(loss)` where a module is named `loss`.
bool is_factor_of_loss(const TensorKey& key);

// Whether it is the scalar that says what a script multiplied a loss by before it was recorded:
// `loss.factor`.
bool is_inner_factor_of_loss(const TensorKey& key);

// Whether it is the scalar that says what a script multiplied the gradients of a step by.
bool is_factor_of_gradients(const TensorKey& key);

// "decoder.layers.3.mlp · output · step 0 · mb 1", call and copy only where they are not 0.
std::string to_string(const TensorKey& key);

// The id of a tensor, "step/mb/kind/name/call/copy", with "-" for a tensor without micro-batch, for
// example "0/-/main_grad/fc.weight/0/0". The name is as in the trace and may contain "/"; the three
// fields before it and the two after it do not.
std::string id_of(const TensorKey& key);

// Why `name` cannot name a tensor (it would leave its place in the file, or break a line of the
// report), or nothing.
std::optional<std::string> name_problem(std::string_view name);

// The name of the outermost module.
inline constexpr std::string_view kWholeModel = "(model)";

// The module around a module, or that of a parameter or buffer: "a.b" of "a.b.weight", the whole
// model of "weight".
std::string_view owner_of(std::string_view name);

// Whether a module is another one's part, at any depth. All others are the whole model's.
bool is_inside(std::string_view module, std::string_view container);

// The module that a value belongs to: "a.b" of "a.b[1]", "a.b[mask]" and "a.b[cache][0]".
std::string_view module_of_value(std::string_view name);

// The module that a tensor belongs to: "layers.0.norm1" of "layers.0.norm1.weight" (a parameter),
// of "layers.0.norm1.weight.exp_avg" (its optimizer state) and of "layers.0.norm1[1]" (a value). Of
// a loss, norm, scalar or index, which belong to no module, the name.
std::string module_of(const TensorKey& key);

// "/step_000000/mb_0001/output/decoder.layers.3.mlp"
std::string dataset_path(const TensorKey& key);

}  // namespace ttrace::trace
