#include "audit/specified_run.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "specification/evaluate/casts_of_leaves.h"
#include "specification/evaluate/evaluate.h"
#include "tensor/dtype.h"

namespace ttrace::audit {
namespace {

constexpr std::uint64_t kMostCachedBytes = std::uint64_t{1} << 29;
constexpr std::uint64_t kMostSharedBytes = std::uint64_t{1} << 28;

}  // namespace

SpecifiedRun::SpecifiedRun(const trace::Source& run,
                           const specification::Specification& specification,
                           const measure::ExecutionContext& context, std::uint64_t memory)
    : run_(run),
      context_(context),
      memory_(memory),
      limit_(memory),
      values_(kMostCachedBytes),
      shared_(kMostSharedBytes),
      recorded_(run.manifest()),
      variants_(specification, run.manifest()) {
  note_norms(specification);
  note_held(specification);
  for (const specification::Specification& variant : specification.variants) note_held(variant);
  for (const specification::Specification& update : specification.updates) note_held(update);
}

void SpecifiedRun::note_held(const specification::Specification& specification) {
  std::vector<char>& held = held_[&specification];
  held.resize(specification.tensors.size(), 0);
  for (const trace::TensorEntry& entry : run_.manifest().tensors) {
    if (const auto number = specification.find(entry.key)) held[*number] = 1;
  }
  for (const auto& [key, norm] : norms_) {
    if (const auto number = specification.find(key)) held[*number] = 1;
  }
}

void SpecifiedRun::note_norms(const specification::Specification& specification) {
  for (const specification::Specification& update : specification.updates) {
    for (std::size_t number = 0; number < update.tensors.size(); ++number) {
      trace::TensorKey key = update.key_of(number);
      key.step = update.update->step;
      if (key.kind != trace::Kind::kGradNorm || recorded_.find(key) != nullptr) continue;
      if (!update.tensors[number].shape.empty()) continue;
      trace::TensorEntry entry;
      entry.key = key;
      entry.dtype = tensor::DType::kFloat32;
      entry.computed_in = update.tensors[number].dtype;
      recorded_.add(norms_.emplace(key, std::move(entry)).first->second);
    }
  }
  if (!norms_.empty()) clipping_.emplace(run_, std::vector<comparison::TensorComparison>{});
}

specification::Value SpecifiedRun::norm_of(const trace::TensorEntry& entry) {
  const auto part = clipping_->parts().part_of(entry.key.step, entry.key.name);
  if (!part) {
    throw base::input_error("nothing says whose gradients the norm ",
                            base::printable(entry.key.name),
                            " is of; tell it with tracer.grad_norm(norm, parameters=...)");
  }
  const optimizer::MainGradientNorm found = clipping_->own_norm(entry.key.step, *part);
  if (!found.problem.empty()) throw base::input_error(found.problem);
  return specification::Value::full({}, found.norm);
}

const trace::TensorEntry* SpecifiedRun::find(std::size_t number,
                                             const trace::TensorKey& like) const {
  const specification::Specification& specification = variant_of(like);
  if (held_.at(&specification)[number] == 0) return nullptr;
  return recorded_.find(specification, number, like);
}

specification::Value SpecifiedRun::value_of(const trace::TensorEntry& entry) {
  if (auto known = values_.find(&entry)) return *std::move(known);
  specification::Value value =
      norms_.contains(entry.key) ? norm_of(entry) : specification::read_value({&run_, &entry});
  values_.add(&entry, value);
  return value;
}

bool SpecifiedRun::has_room_for(const specification::Expression& expression) const {
  return specification::judging_bytes(expression) <= memory_;
}

ReadExpression SpecifiedRun::read(specification::Expression expression,
                                  const trace::TensorKey& key) {
  const std::uint64_t left = memory_ - specification::judging_bytes(expression);
  values_.limit(std::min(kMostCachedBytes, left / 3 * 2));
  shared_.limit(std::min(kMostSharedBytes, left / 3));
  ReadExpression read{std::move(expression), {}, {&shared_, {}}};
  for (const specification::Leaf& leaf : read.expression.leaves) {
    const trace::TensorEntry* from = find(leaf.tensor, key);
    read.sharing.leaves.push_back(from != nullptr ? to_string(from->key)
                                                  : base::concat("constant ", leaf.tensor));
    read.leaves.push_back(
        from != nullptr
            ? value_of(*from)
            : specification::constant_value(read.expression.specification->tensors[leaf.tensor]));
  }
  specification::take_casts_into_leaves(read.expression, read.leaves, context_);
  for (std::size_t l = 0; l < read.leaves.size(); ++l) {
    const auto rounded_to = read.expression.leaves[l].rounded_to;
    if (rounded_to) {
      read.sharing.leaves[l] += base::concat(" as ", tensor::dtype_name(*rounded_to));
    }
  }
  return read;
}

}  // namespace ttrace::audit
