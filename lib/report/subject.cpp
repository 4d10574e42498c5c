#include "report/subject.h"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/display_limits.h"
#include "base/text.h"
#include "judge/slices.h"

namespace ttrace::report {
namespace {

using base::concat;
using trace::Kind;

// How a kind is spoken of: "the gradient of fc.weight", "the gradients of 3 parameters".
struct KindWords {
  std::string_view one;
  std::string_view several;
  std::string_view unit;
};

KindWords words_of(Kind kind) {
  switch (kind) {
    case Kind::kParam:
      return {"parameter ", "", "parameter"};
    case Kind::kBuffer:
      return {"buffer ", "", "buffer"};
    case Kind::kInput:
      return {"the input of ", "the inputs of ", "module"};
    case Kind::kOutput:
      return {"the output of ", "the outputs of ", "module"};
    case Kind::kLoss:
      return {"", "", "loss"};
    case Kind::kGradOutput:
      return {"the gradient of the output of ", "the gradients of the outputs of ", "module"};
    case Kind::kGradInput:
      return {"the gradient of the input of ", "the gradients of the inputs of ", "module"};
    case Kind::kParamGrad:
      return {"the raw gradient of ", "the raw gradients of ", "parameter"};
    case Kind::kMainGrad:
      return {"the gradient of ", "the gradients of ", "parameter"};
    case Kind::kGradNorm:
      return {"", "", "gradient norm"};
    case Kind::kOptimizerState:
      return {"the optimizer state ", "", "optimizer state"};
    case Kind::kBufferAfterStep:
      return {"the new value of buffer ", "the new values of ", "buffer"};
    case Kind::kParamAfterStep:
      return {"the update of ", "the updates of ", "parameter"};
    case Kind::kScalar:
      return {"the scalar ", "", "scalar"};
    case Kind::kIndex:
      return {"the indices of ", "the indices of ", "module"};
  }
  return {"", "", "tensor"};
}

bool is_named_by_parameter(Kind kind) {
  return kind == Kind::kParam || kind == Kind::kParamGrad || kind == Kind::kMainGrad ||
         kind == Kind::kParamAfterStep;
}

std::string describe_one(Kind kind, const std::string& name) {
  if (kind == Kind::kLoss && name == "loss") return "the loss";
  if (kind == Kind::kGradNorm) return "the gradient norm";
  const bool of_loss = name == "loss" || name == "(loss)";
  if (kind == Kind::kGradOutput && of_loss) return "the gradient of the loss";
  if (name.starts_with(trace::kWholeModel)) {
    const std::string rest = name.substr(trace::kWholeModel.size());
    if (rest.empty()) return concat(words_of(kind).one, "the model");
    // "(model)[labels]": the argument of that name; "(model)[args][0]": args[0].
    const std::size_t end = rest.find(']');
    if (kind == Kind::kInput && end != std::string::npos) {
      return concat("the model's input ", rest.substr(1, end - 1), rest.substr(end + 1));
    }
  }
  return concat(words_of(kind).one, name);
}

std::string module_prefix(const std::string& pattern) {
  const std::size_t dot = pattern.rfind('.');
  return dot == std::string::npos ? "" : pattern.substr(0, dot);
}

// "micro-batch 3", "micro-batches 0, 1 and 2".
std::string describe_batches(const std::set<std::uint64_t>& numbers) {
  const std::vector<std::uint64_t> list(numbers.begin(), numbers.end());
  return concat(list.size() == 1 ? "micro-batch " : "micro-batches ", base::numbers_in_words(list));
}

}  // namespace

void AllOfKind::add(const trace::TensorKey& key) {
  if (key.microbatch) microbatches_.insert(*key.microbatch);
  if (!names_.insert(key.name).second) return;
  const std::string pattern = judge::name_pattern(key.name);
  ++patterns_[pattern];
  ++modules_[module_prefix(pattern)];
}

std::uint64_t AllOfKind::of_pattern(const std::string& pattern) const {
  const auto found = patterns_.find(pattern);
  return found == patterns_.end() ? 0 : found->second;
}

std::uint64_t AllOfKind::of_module(const std::string& module) const {
  const auto found = modules_.find(module);
  return found == modules_.end() ? 0 : found->second;
}

void AlikeTensors::add(const trace::TensorKey& key) {
  names.insert(key.name);
  if (key.microbatch) microbatches.insert(*key.microbatch);
}

std::string describe_members(const std::set<std::string>& names, const AllOfKind& all,
                             bool parameters) {
  std::map<std::string, std::uint64_t> of_module;
  std::map<std::string, std::vector<std::string>> by_pattern;
  for (const std::string& name : names) {
    const std::string pattern = judge::name_pattern(name);
    by_pattern[pattern].push_back(name);
    ++of_module[module_prefix(pattern)];
  }
  std::vector<std::string> said;
  std::set<std::string> done;
  for (const auto& [pattern, members] : by_pattern) {
    const std::string module = module_prefix(pattern);
    const bool whole_module = parameters && !module.empty() &&
                              of_module[module] == all.of_module(module) &&
                              of_module[module] > members.size();
    if (whole_module) {
      if (done.insert(module).second) said.push_back(module + ".*");
    } else if (members.size() == all.of_pattern(pattern)) {
      said.push_back(members.size() == 1 ? members.front() : pattern);
    } else {
      said.insert(said.end(), members.begin(), members.end());
    }
  }
  std::string text;
  for (std::size_t i = 0; i < said.size() && i < base::kShown.names; ++i) {
    text += concat(i > 0 ? ", " : "", said[i]);
  }
  if (said.size() > base::kShown.names)
    text += concat(" and ", said.size() - base::kShown.names, " more");
  return text;
}

std::string describe_subject(const AlikeTensors& tensors) {
  std::string text;
  const KindWords words = words_of(tensors.kind);
  const std::size_t count = tensors.names.size();
  if (count == 1) {
    text = describe_one(tensors.kind, *tensors.names.begin());
  } else if (tensors.all == nullptr || count >= tensors.all->names()) {
    text = concat(words.several, "all ", base::plural(count, words.unit));
  } else {
    text = concat(
        words.several, count, " of ", base::plural(tensors.all->names(), words.unit), " (",
        describe_members(tensors.names, *tensors.all, is_named_by_parameter(tensors.kind)), ")");
  }
  const bool some_batches = !tensors.microbatches.empty() && tensors.all != nullptr &&
                            tensors.microbatches.size() < tensors.all->microbatches();
  if (some_batches) text += concat(", ", describe_batches(tensors.microbatches));
  if (!tensors.is_first_step) text += concat(" in step ", tensors.step);
  return text;
}

}  // namespace ttrace::report
