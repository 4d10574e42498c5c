#include "trace/key.h"

#include <cstdio>

#include "base/text.h"

namespace ttrace::trace {
namespace {

std::string padded(std::string_view prefix, std::uint64_t number, int digits) {
  std::array<char, 48> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%0*llu", digits,
                static_cast<unsigned long long>(number));
  return base::concat(prefix, buffer.data());
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kParam:
      return "param";
    case Kind::kBuffer:
      return "buffer";
    case Kind::kInput:
      return "input";
    case Kind::kOutput:
      return "output";
    case Kind::kLoss:
      return "loss";
    case Kind::kGradOutput:
      return "grad_output";
    case Kind::kGradInput:
      return "grad_input";
    case Kind::kParamGrad:
      return "param_grad";
    case Kind::kMainGrad:
      return "main_grad";
    case Kind::kGradNorm:
      return "grad_norm";
    case Kind::kOptimizerState:
      return "optimizer_state";
    case Kind::kBufferAfterStep:
      return "buffer_after_step";
    case Kind::kParamAfterStep:
      return "param_after_step";
    case Kind::kScalar:
      return "scalar";
    case Kind::kIndex:
      return "index";
  }
  return "";
}

std::optional<Kind> parse_kind(std::string_view name) {
  for (const Kind kind : kAllKinds) {
    if (kind_name(kind) == name) return kind;
  }
  return std::nullopt;
}

bool is_module_value(Kind kind) {
  return kind == Kind::kInput || kind == Kind::kOutput || kind == Kind::kGradOutput ||
         kind == Kind::kGradInput;
}

bool is_factor_of_loss(const TensorKey& key) {
  return key.kind == Kind::kGradOutput && (key.name == "loss" || key.name == "(loss)");
}

bool is_inner_factor_of_loss(const TensorKey& key) {
  return key.kind == Kind::kScalar && (key.name == "loss.factor" || key.name == "(loss).factor");
}

bool is_factor_of_gradients(const TensorKey& key) {
  return key.kind == Kind::kScalar && key.name == "main_grad.factor";
}

std::string to_string(const TensorKey& key) {
  std::string text = base::concat(key.name, " · ", kind_name(key.kind), " · step ", key.step);
  if (key.microbatch) text += base::concat(" · mb ", *key.microbatch);
  if (key.call != 0) text += base::concat(" · call ", key.call);
  if (key.copy != 0) text += base::concat(" · copy ", key.copy);
  return text;
}

std::string id_of(const TensorKey& key) {
  const std::string microbatch = key.microbatch ? std::to_string(*key.microbatch) : "-";
  return base::concat(key.step, "/", microbatch, "/", kind_name(key.kind), "/", key.name, "/",
                      key.call, "/", key.copy);
}

std::optional<std::string> name_problem(std::string_view name) {
  if (name.empty()) return "a name is empty";
  if (name.size() > 512) return "a name is longer than 512 bytes";
  if (name == "." || name == "..") return "\".\" and \"..\" leave the trace";
  unsigned char before = 0;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/') return "a name with \"/\" leaves its place in the trace";
    // In UTF-8, c2 80 to c2 9f are the control characters U+0080 to U+009F.
    if (byte < 0x20 || byte == 0x7f || (before == 0xc2 && byte < 0xa0)) {
      return "a name has a control character";
    }
    before = byte;
  }
  return std::nullopt;
}

std::string_view module_of_value(std::string_view name) {
  while (name.ends_with(']')) {
    const std::size_t bracket = name.find_last_of("[]", name.size() - 2);
    const bool group = bracket != std::string_view::npos && name[bracket] == '[' && bracket > 0 &&
                       bracket + 2 < name.size();
    if (!group) break;
    name = name.substr(0, bracket);
  }
  return name;
}

std::string_view owner_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? kWholeModel : name.substr(0, dot);
}

bool is_inside(std::string_view module, std::string_view container) {
  if (container == kWholeModel) return module != container;
  return module.size() > container.size() && module.starts_with(container) &&
         module[container.size()] == '.';
}

std::string module_of(const TensorKey& key) {
  switch (key.kind) {
    case Kind::kParam:
    case Kind::kBuffer:
    case Kind::kBufferAfterStep:
    case Kind::kParamGrad:
    case Kind::kMainGrad:
    case Kind::kParamAfterStep:
      return std::string(owner_of(key.name));
    case Kind::kOptimizerState: {  // "<parameter>.<state>"
      const std::string_view parameter = owner_of(key.name);
      return std::string(parameter == kWholeModel ? parameter : owner_of(parameter));
    }
    default:
      return std::string(module_of_value(key.name));
  }
}

std::string dataset_path(const TensorKey& key) {
  std::string path = padded("/step_", key.step, 6);
  if (key.microbatch) path += padded("/mb_", *key.microbatch, 4);
  if (key.call != 0) path += padded("/call_", key.call, 4);
  if (key.copy != 0) path += padded("/copy_", key.copy, 4);
  path += '/';
  path += kind_name(key.kind);
  path += '/';
  return path + key.name;
}

}  // namespace ttrace::trace
