#include <algorithm>
#include <set>

#include "base/strict_json.h"
#include "base/text.h"
#include "specification/check_shapes.h"
#include "specification/pattern_json.h"
#include "specification/specification.h"

namespace ttrace::specification {
namespace {

using base::concat;
using base::JsonCursor;

constexpr std::size_t kMostValuesOfBuffer = 65536;
// Each is checked on its own. A step has fewer micro-batches of different sizes.
constexpr std::size_t kMostVariants = 64;
constexpr std::size_t kMostUpdates = 16;

// Bytes of the longest string of a JSON text.
std::uint64_t longest_string(std::string_view text) {
  std::uint64_t longest = 0;
  bool inside = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (inside && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      if (inside) longest = std::max<std::uint64_t>(longest, i - begin);
      inside = !inside;
      begin = i;
    }
  }
  return longest;
}

// Bounds the memory that reading a file needs, before the file is parsed.
class MemoryNeeded {
 public:
  MemoryNeeded(std::string_view text, const std::string& file, const SpecificationLimits& limits)
      : file_(file), most_(limits.bytes), text_(text.size()), longest_(longest_string(text)) {
    values_ = static_cast<std::uint64_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return c == ',' || c == '[' || c == '{'; }));
    require(json());
  }

  // Returns the bytes of the specification.
  std::uint64_t require_for(std::uint64_t nodes, std::uint64_t tensors) const {
    // The texts themselves are kept once more.
    const std::uint64_t made =
        nodes * kNodeBytes + tensors * kTensorBytes + values_ * kBytesOfItem + text_;
    require(json() + made);
    return made;
  }

 private:
  // Measured with files of as many nodes and tensors as fit; tests/faults has them.
  static constexpr std::uint64_t kNodeBytes = 320;
  static constexpr std::uint64_t kTensorBytes = 900;
  static constexpr std::uint64_t kBytesOfItem = 16;  // of lists of numbers
  static constexpr std::uint64_t kBytesOfJson = 32;  // per value, with the list that has it

  // The parser has the string that it reads in two buffers that grow twofold.
  std::uint64_t json() const { return 2 * text_ + 4 * longest_ + values_ * kBytesOfJson; }

  void require(std::uint64_t bytes) const {
    if (bytes <= most_) return;
    throw base::input_error(file_, ": reading it needs up to ", base::human_bytes(bytes),
                            " of memory, and ", base::human_bytes(most_),
                            " are allowed; allow more with --memory");
  }

  const std::string& file_;
  std::uint64_t most_;
  std::uint64_t text_;
  std::uint64_t longest_;
  std::uint64_t values_ = 0;
};

// Counts patterns, nodes and tensors before anything is built. `parts` are the document and its
// variants, which have patterns and tensors. Returns the memory that all of it takes.
std::uint64_t check_counts(const std::vector<JsonCursor>& parts, const SpecificationLimits& limits,
                           const MemoryNeeded& memory) {
  std::uint64_t nodes = 0;
  std::uint64_t patterns = 0;
  std::uint64_t count = 0;
  for (const JsonCursor& part : parts) {
    for (const JsonCursor& pattern : part.require("patterns").items()) {
      ++patterns;
      nodes += pattern.require("nodes").items().size();
      if (nodes > limits.nodes) throw pattern.error("more than ", limits.nodes, " nodes in all");
    }
    const JsonCursor tensors = part.require("tensors");
    count += tensors.items().size();
    if (count > limits.tensors) throw tensors.error("more than ", limits.tensors, " tensors");
  }
  return memory.require_for(nodes + patterns, count);
}

void read_origin(const JsonCursor& cursor, const Specification& specification,
                 SpecifiedTensor& tensor) {
  const std::size_t number = specification.tensors.size();
  if (const auto from = cursor.find("from")) tensor.from = references_from(*from, number, "tensor");
  const auto pattern = cursor.find("pattern");
  const auto same = cursor.find("same");
  const auto opaque = cursor.find("opaque");
  if (pattern.has_value() + same.has_value() + opaque.has_value() > 1) {
    throw cursor.error("only one of \"pattern\", \"same\" and \"opaque\" may be there");
  }
  if (pattern) {
    const std::uint64_t chosen = pattern->as_count();
    if (chosen >= specification.patterns.size()) {
      throw pattern->error("there is no pattern ", chosen, ", only ",
                           base::plural(specification.patterns.size(), "pattern"));
    }
    tensor.pattern = static_cast<std::uint32_t>(chosen);
    const std::uint32_t inputs = specification.patterns[chosen].inputs;
    if (tensor.from.size() != inputs) {
      throw cursor.error("pattern ", chosen, " has ", base::plural(inputs, "input"),
                         ", \"from\" names ", tensor.from.size());
    }
  } else if (opaque) {
    tensor.opaque = opaque->as_string();
    if (tensor.opaque.empty()) throw opaque->error("the name of the operation is empty");
  } else if (!tensor.from.empty()) {
    throw cursor.error("\"from\" needs \"pattern\" or \"opaque\"");
  }
  if (same) {
    const std::uint64_t chosen = same->as_count();
    if (chosen >= number) {
      throw same->error("tensor ", chosen, " does not stand before its user, which is number ",
                        number);
    }
    tensor.same = static_cast<std::uint32_t>(chosen);
  }
  if (const auto values = cursor.find("values")) {
    tensor.values = numbers_from(*values, kMostValuesOfBuffer);
    const auto count = tensor::element_count(tensor.shape);
    if (pattern || same || opaque || !count || *count != tensor.values.size()) {
      throw values->error(tensor.values.size(),
                          " values do not fill the shape, or the tensor is not "
                          "given");
    }
  }
}

SpecifiedTensor tensor_from(const JsonCursor& cursor, const Specification& specification) {
  cursor.allow_keys({"kind", "name", "call", "copy", "dtype", "shape", "pattern", "from", "same",
                     "opaque", "module", "uniform", "values", "number", "microbatch"});
  SpecifiedTensor tensor;
  const JsonCursor kind = cursor.require("kind");
  const auto parsed = trace::parse_kind(kind.as_string());
  if (!parsed) throw kind.error("unknown kind \"", base::excerpt(kind.as_string()), "\"");
  tensor.kind = *parsed;
  const JsonCursor name = cursor.require("name");
  tensor.name = name.as_string();
  if (const auto problem = trace::name_problem(tensor.name)) {
    throw name.error("the name \"", base::excerpt(tensor.name), "\" ", *problem);
  }
  if (const auto call = cursor.find("call")) tensor.call = call->as_count();
  if (const auto copy = cursor.find("copy")) tensor.copy = copy->as_count();
  if (const auto microbatch = cursor.find("microbatch")) {
    if (!specification.update) {
      throw microbatch->error("only a tensor of \"updates\" is of a micro-batch of its own");
    }
    tensor.microbatch = microbatch->as_count();
  }
  tensor.dtype = dtype_from(cursor.require("dtype"));
  tensor.shape = shape_from(cursor.require("shape"));
  if (const auto module = cursor.find("module")) {
    module->allow_keys({"class", "called_at"});
    if (const auto found = module->find("class")) tensor.module_class = found->as_string();
    if (const auto found = module->find("called_at")) tensor.called_at = found->as_string();
  }
  read_origin(cursor, specification, tensor);
  if (const auto number = cursor.find("number")) {
    if (tensor.kind != trace::Kind::kScalar || !(tensor.pattern || tensor.same) ||
        tensor::element_count(tensor.shape) != std::uint64_t{1}) {
      throw number->error("only a computed scalar of one element is read as a number");
    }
    tensor.number = number_from(*number);
  }
  if (const auto uniform = cursor.find("uniform")) {
    tensor.uniform = uniform->as_bool();
    if (tensor.kind != trace::Kind::kScalar || tensor.pattern || tensor.same ||
        !tensor.shape.empty()) {
      throw uniform->error("only a given scalar is a number that micro-batches have in common");
    }
  }
  return tensor;
}

void read_tensors(const JsonCursor& cursor, const SpecificationLimits& limits,
                  Specification& specification) {
  const auto patterns = cursor.require("patterns").items();
  specification.patterns.reserve(patterns.size());
  for (const JsonCursor& pattern : patterns) {
    specification.patterns.push_back(pattern_from(pattern, limits));
  }
  using Microbatch = std::optional<std::uint64_t>;
  std::set<std::tuple<trace::Kind, std::string, std::uint64_t, std::uint64_t, Microbatch>> keys;
  for (const JsonCursor& item : cursor.require("tensors").items()) {
    SpecifiedTensor tensor = tensor_from(item, specification);
    if (!keys.emplace(tensor.kind, tensor.name, tensor.call, tensor.copy, tensor.microbatch)
             .second) {
      throw item.error("an earlier tensor has the same kind, name, call and copy");
    }
    specification.tensors.push_back(std::move(tensor));
  }
}

AfterBackward after_backward_from(const JsonCursor& cursor) {
  cursor.allow_keys({"main_grad", "tied", "clip_norm"});
  AfterBackward after;
  if (const auto main_grad = cursor.find("main_grad")) {
    main_grad->allow_keys({"combine", "factor", "given", "taken"});
    const JsonCursor combine = main_grad->require("combine");
    const std::string word = combine.as_string();
    if (word != "sum" && word != "mean") {
      throw combine.error("expected \"sum\" or \"mean\", found \"", base::excerpt(word), "\"");
    }
    after.has_main_grad = true;
    after.mean = word == "mean";
    after.factor = main_grad->require("factor").as_number();
    if (const auto given = main_grad->find("given")) after.given = given->as_string();
    if (const auto taken = main_grad->find("taken")) {
      for (const auto& [name, numbers] : taken->members()) {
        std::set<std::uint64_t>& of_name = after.taken[name];
        for (const JsonCursor& number : numbers.items()) of_name.insert(number.as_count());
      }
    }
  }
  if (const auto tied = cursor.find("tied")) {
    for (const JsonCursor& group : tied->items()) {
      std::vector<std::string>& names = after.tied.emplace_back();
      for (const JsonCursor& name : group.items()) names.push_back(name.as_string());
      if (names.size() < 2) throw group.error("a tied parameter has at least two names");
    }
  }
  if (const auto clip = cursor.find("clip_norm")) {
    after.clip_norm = clip->as_number();
    if (!(*after.clip_norm > 0)) throw clip->error("expected a number above 0");
  }
  return after;
}

// trained: the parameters that the first step trains.
SpecifiedUpdate update_from(const JsonCursor& cursor, std::set<std::string> trained) {
  cursor.allow_keys({"step", "settings", "frozen", "rewritten", "patterns", "tensors"});
  SpecifiedUpdate update;
  update.step = cursor.require("step").as_count();
  for (const JsonCursor& group : cursor.require("settings").items()) {
    group.allow_keys({"type", "params", "numbers"});
    SpecifiedUpdate::Settings settings{group.require("type").as_string(), {}};
    for (const auto& [name, value] : group.require("numbers").members()) {
      settings.numbers[name] = value.as_number();
    }
    for (const JsonCursor& name : group.require("params").items()) {
      if (!update.settings.emplace(name.as_string(), settings).second) {
        throw name.error("an earlier group has this parameter");
      }
    }
  }
  if (const auto frozen = cursor.find("frozen")) {
    for (const JsonCursor& name : frozen->items()) {
      if (!trained.contains(name.as_string())) {
        throw name.error("the first step has no gradient of it, or an earlier name is the same");
      }
      trained.erase(name.as_string());
      update.frozen.insert(name.as_string());
    }
  }
  if (const auto rewritten = cursor.find("rewritten")) {
    for (const JsonCursor& name : rewritten->items()) {
      if (!update.rewritten.insert(name.as_string()).second) {
        throw name.error("an earlier name is the same");
      }
    }
  }
  return update;
}

}  // namespace

Specification parse_specification(std::string_view text, const std::string& file,
                                  const SpecificationLimits& limits) {
  const MemoryNeeded memory(text, file, limits);
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  root.allow_keys({"schema", "source", "precision", "patterns", "tensors", "variants",
                   "decided_by_values", "after_backward", "updates", "opaque"});
  root.require("schema").require_format(kSpecificationSchema);
  Specification specification;
  if (const auto source = root.find("source")) {
    source->allow_keys({"made_by", "torch", "model", "how", "created"});
    for (const auto& [key, value] : source->members()) {
      specification.source[key] = value.as_string();
    }
  }
  if (const auto precision = root.find("precision"))
    specification.precision = dtype_from(*precision);
  std::vector<JsonCursor> parts{root};
  if (const auto decided = root.find("decided_by_values")) {
    specification.decided_by_values = decided->as_bool();
  }
  if (const auto variants = root.find("variants")) {
    for (const JsonCursor& variant : variants->items()) {
      variant.allow_keys({"microbatch", "patterns", "tensors"});
      parts.push_back(variant);
    }
    if (parts.size() > kMostVariants + 1) {
      throw variants->error("more than ", kMostVariants, " variants");
    }
  }
  const std::size_t first_update = parts.size();
  if (const auto updates = root.find("updates")) {
    for (const JsonCursor& update : updates->items()) parts.push_back(update);
    if (parts.size() > first_update + kMostUpdates) {
      throw updates->error("more than ", kMostUpdates, " steps");
    }
  }
  specification.bytes = check_counts(parts, limits, memory);
  read_tensors(root, limits, specification);
  std::set<std::uint64_t> steps;
  std::set<std::string> trained;
  for (const SpecifiedTensor& tensor : specification.tensors) {
    if (tensor.kind == trace::Kind::kParamGrad) trained.insert(tensor.name);
  }
  for (std::size_t i = first_update; i < parts.size(); ++i) {
    Specification& update = specification.updates.emplace_back();
    update.update = update_from(parts[i], trained);
    if (!steps.insert(update.update->step).second) {
      throw parts[i].error("an earlier item is of the same step");
    }
    read_tensors(parts[i], limits, update);
  }
  for (std::size_t i = 1; i < first_update; ++i) {
    Specification& variant = specification.variants.emplace_back();
    read_tensors(parts[i], limits, variant);
    if (const auto own = parts[i].find("microbatch")) variant.microbatch = own->as_count();
  }
  if (const auto after = root.find("after_backward")) {
    specification.after_backward = after_backward_from(*after);
  }
  if (const auto opaque = root.find("opaque")) {
    for (const auto& [operation, count] : opaque->members()) {
      specification.opaque[operation] = count.as_count();
    }
  }
  check_shapes(specification, file);
  specification.index();
  return specification;
}

}  // namespace ttrace::specification
