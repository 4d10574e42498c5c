#include "synth/fault.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "synth/dataset.h"

namespace ttrace::synth {
namespace {

enum class Number { kNone, kOptional, kRequired };

struct Description {
  PlantedFault::Kind kind;
  std::string_view name;
  Number number;
  bool named = true;  // needs a tensor
};

constexpr std::array kDescriptions{
    Description{PlantedFault::Kind::kScaled, "scaled", Number::kOptional},
    Description{PlantedFault::Kind::kShardsSwapped, "shards_swapped", Number::kNone},
    Description{PlantedFault::Kind::kPartDropped, "part_dropped", Number::kNone},
    Description{PlantedFault::Kind::kRowZeroed, "row_zeroed", Number::kOptional},
    Description{PlantedFault::Kind::kStale, "stale", Number::kNone},
    Description{PlantedFault::Kind::kRoundedToBf16, "rounded_to_bf16", Number::kNone},
    Description{PlantedFault::Kind::kNan, "nan", Number::kNone},
    Description{PlantedFault::Kind::kRankMissing, "rank_missing", Number::kRequired, false},
    Description{PlantedFault::Kind::kKeyMissing, "key_missing", Number::kNone},
};

template <typename... Parts>
base::Error fault_refusal(std::string_view text, const Parts&... parts) {
  return base::usage_error("--fault ", base::printable(text), ": ", parts...);
}

const Description& description_of(std::string_view text, std::string_view name) {
  for (const Description& known : kDescriptions) {
    if (known.name == name) return known;
  }
  std::vector<std::string> names;
  for (const Description& known : kDescriptions) names.emplace_back(known.name);
  throw fault_refusal(text, "there is no such fault", base::nearest_hint(name, names));
}

std::optional<double> number_from(std::string_view text, const Description& known,
                                  std::string_view digits) {
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value);
  const bool counts = known.kind != PlantedFault::Kind::kScaled;
  if (problem != std::errc() || stop != end || !std::isfinite(value) ||
      (counts && (value < 0 || value != std::floor(value) || value > 0x1p53))) {
    throw fault_refusal(text, "expected a ", counts ? "whole " : "", "number after ", known.name,
                        "=");
  }
  return value;
}

// Why the tensors of the group cannot have this fault, or nothing.
std::string problem_of(const Recipe& recipe, const Group& group, const PlantedFault& fault) {
  const bool floating = tensor::is_floating(group.entry.dtype);
  if (group.entry.key.kind == trace::Kind::kIndex)
    return "an index is part of the layout and has no faults";
  switch (fault.kind) {
    case PlantedFault::Kind::kScaled:
    case PlantedFault::Kind::kRoundedToBf16:
    case PlantedFault::Kind::kNan:
      if (!floating) return "a tensor of integers cannot have this fault";
      if (tensor::element_count(group.entry.shape) == 0) return "the tensor has no elements";
      return "";
    case PlantedFault::Kind::kShardsSwapped:
      return shards_to_swap(recipe, group) ? "" : "the tensor has no two shards of equal shape";
    case PlantedFault::Kind::kPartDropped:
      return dropped_term(recipe.meshes.at(group.entry.mesh), group.entry)
                 ? ""
                 : "the tensor is no sum or mean over several ranks";
    case PlantedFault::Kind::kRowZeroed: {
      const tensor::Shape& shape = group.entry.shape;
      if (shape.empty() || shape[0] == 0) return "the tensor has no rows";
      const auto row = static_cast<std::uint64_t>(fault.number.value_or(0));
      return row < shape[0] ? "" : base::concat("the tensor has ", shape[0], " rows");
    }
    case PlantedFault::Kind::kStale:
    case PlantedFault::Kind::kKeyMissing:
    case PlantedFault::Kind::kRankMissing:
      return "";
  }
  return "";
}

void check_named(const Recipe& recipe, const PlantedFault& fault) {
  std::set<std::string> names;
  bool found = false;
  for (const Group& group : recipe.groups) {
    for (std::uint64_t i = 0; i < group.count; ++i) {
      const trace::TensorKey key = group.entry_of(i).key;
      names.insert(key.name);
      if (!fault.concerns(key)) continue;
      found = true;
      const std::string problem = problem_of(recipe, group, fault);
      if (!problem.empty()) throw fault_refusal(fault.text, problem);
    }
  }
  if (found) return;
  if (names.contains(fault.name)) {
    throw fault_refusal(fault.text, "there is no tensor of this name and kind");
  }
  throw fault_refusal(fault.text, "there is no such tensor",
                      base::nearest_hint(fault.name, {names.begin(), names.end()}));
}

void check_rank(const Recipe& recipe, const PlantedFault& fault) {
  const std::vector<std::uint64_t> ranks = layout::ranks_of(recipe.meshes);
  const auto rank = static_cast<std::uint64_t>(*fault.number);
  if (!std::binary_search(ranks.begin(), ranks.end(), rank)) {
    throw fault_refusal(fault.text, "the trace has no such rank");
  }
  if (ranks.size() == 1) throw fault_refusal(fault.text, "it is the only rank");
}

}  // namespace

bool PlantedFault::concerns(const trace::TensorKey& key) const {
  return kind != Kind::kRankMissing && key.name == name && (!of_kind || key.kind == *of_kind);
}

PlantedFault parse_fault(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view what = text.substr(0, at);
  const std::size_t equals = what.find('=');
  const Description& known = description_of(text, what.substr(0, equals));
  PlantedFault fault{known.kind, std::nullopt, std::nullopt, "", std::string(text)};
  if (equals != std::string_view::npos) {
    if (known.number == Number::kNone) throw fault_refusal(text, known.name, " takes no number");
    fault.number = number_from(text, known, what.substr(equals + 1));
  } else if (known.number == Number::kRequired) {
    throw fault_refusal(text, "expected a number, as in ", known.name, "=0");
  }
  if (!known.named) {
    if (at != std::string_view::npos) throw fault_refusal(text, known.name, " is of no tensor");
    return fault;
  }
  std::string_view name = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  if (const std::size_t slash = name.find('/'); slash != std::string_view::npos) {
    fault.of_kind = trace::parse_kind(name.substr(0, slash));
    if (!fault.of_kind) throw fault_refusal(text, "there is no kind of tensor before the /");
    name.remove_prefix(slash + 1);
  }
  if (name.empty())
    throw fault_refusal(text, "expected a tensor, as in ", known.name, "@fc.weight");
  fault.name = name;
  return fault;
}

void check_faults(const Recipe& recipe, const std::vector<PlantedFault>& faults) {
  std::uint64_t missing = 0;
  for (const PlantedFault& fault : faults) {
    if (fault.kind == PlantedFault::Kind::kRankMissing) {
      check_rank(recipe, fault);
    } else {
      check_named(recipe, fault);
    }
    missing += fault.kind == PlantedFault::Kind::kKeyMissing ? 1 : 0;
  }
  if (missing > 0 && missing >= recipe.tensors()) {
    throw base::usage_error("--fault: no tensor would be left");
  }
}

TensorFaults faults_of(const trace::TensorEntry& entry, const std::vector<PlantedFault>& faults) {
  TensorFaults all;
  for (const PlantedFault& fault : faults) {
    if (!fault.concerns(entry.key)) continue;
    switch (fault.kind) {
      case PlantedFault::Kind::kScaled:
        all.factor *= fault.number.value_or(2);
        break;
      case PlantedFault::Kind::kShardsSwapped:
        all.swapped = true;
        break;
      case PlantedFault::Kind::kPartDropped:
        all.dropped = true;
        break;
      case PlantedFault::Kind::kRowZeroed:
        all.zeroed_rows.push_back(fault.number ? static_cast<std::uint64_t>(*fault.number)
                                               : entry.shape[0] / 2);
        break;
      case PlantedFault::Kind::kStale:
        all.stale = true;
        break;
      case PlantedFault::Kind::kRoundedToBf16:
        all.rounded = true;
        break;
      case PlantedFault::Kind::kNan:
        all.nan = true;
        break;
      case PlantedFault::Kind::kKeyMissing:
        all.missing = true;
        break;
      case PlantedFault::Kind::kRankMissing:
        break;
    }
  }
  return all;
}

}  // namespace ttrace::synth
