#include "comparison/division.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/local_files.h"
#include "comparison/measure_pairs.h"

namespace ttrace::comparison {
namespace {

using base::concat;

std::string describe_value(bool value) { return value ? "given" : "not given"; }

std::string describe_value(const std::string& value) {
  return value.empty() ? "not given" : base::printable(value);
}

std::string describe_value(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) {
    text += concat(text.empty() ? "" : ", ", value);
  }
  return describe_value(text);
}

std::string describe_value(const std::vector<std::uint64_t>& values) {
  std::vector<std::string> texts;
  for (const std::uint64_t value : values) texts.push_back(concat(value));
  return describe_value(texts);
}

template <typename Value>
std::string differing(const char* what, const Value& there, const Value& here) {
  if (there == here) return "";
  return base::render(
      {"{what} is {there} there and {here} here",
       {{"what", what}, {"there", describe_value(there)}, {"here", describe_value(here)}}});
}

}  // namespace

std::string describe_difference(const ComparisonId& there, const ComparisonId& here) {
  for (const std::string& difference :
       {differing("the reference", there.reference, here.reference),
        differing(there.reference.empty() ? "the run" : "the candidate", there.candidate,
                  here.candidate),
        differing("--noise", there.noise, here.noise),
        differing("--tolerance", there.tolerance, here.tolerance),
        differing("--layout", there.layout, here.layout), differing("--map", there.map, here.map),
        differing("--only", there.only, here.only), differing("--skip", there.skip, here.skip),
        differing("--kind", there.kinds, here.kinds), differing("--step", there.steps, here.steps),
        differing("--common", there.common, here.common),
        differing("--specification", there.specification, here.specification),
        differing("--exact", there.exact, here.exact),
        differing("--local-files", there.local_files, here.local_files),
        differing("localize", there.localized, here.localized),
        differing("--candidate-specification", there.candidate_specification,
                  here.candidate_specification),
        differing("--layer", there.layers, here.layers),
        differing("--all-layers", there.all_layers, here.all_layers),
        differing("--report", there.report, here.report)}) {
    if (!difference.empty()) return difference;
  }
  for (std::size_t i = 0; i < there.facts.size() || i < here.facts.size(); ++i) {
    if (i >= there.facts.size() || i >= here.facts.size() ||
        there.facts[i].first != here.facts[i].first) {
      return base::render({"it was written by another version of ttrace", {}});
    }
    const auto& [what, then] = there.facts[i];
    const std::string& now = here.facts[i].second;
    if (then != now) {
      return base::render({"{what} was {then} there and is {now} here",
                           {{"what", what}, {"then", then}, {"now", now}}});
    }
  }
  return "";
}

namespace {

// The cost of opening a tensor's shards, in bytes that could be read meanwhile.
constexpr std::uint64_t kBytesPerTensor = std::uint64_t{1} << 16;
// A tensor's bytes are far below 2^64, but a manifest may say anything.
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return base::checked_mul(a, b).value_or(kMost);
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return base::checked_add(a, b).value_or(kMost);
}

std::uint64_t logical_bytes(const layout::View& view) {
  return tensor::byte_count(view.shape, view.dtype).value_or(kMost);
}

// Replicas and terms of sums are all read, shards once each.
std::uint64_t stored_bytes(const trace::TensorEntry& entry, const trace::Mesh& mesh) {
  std::uint64_t bytes = tensor::byte_count(entry.shape, entry.dtype).value_or(kMost);
  for (const trace::MeshAxis& axis : mesh.axes) {
    const auto placed = entry.placements.find(axis.name);
    const bool everywhere = placed == entry.placements.end() ||
                            std::holds_alternative<trace::Replicate>(placed->second) ||
                            std::holds_alternative<trace::Partial>(placed->second);
    if (!everywhere) continue;
    const auto held = entry.held_at.find(axis.name);
    bytes = times(bytes, held == entry.held_at.end() ? axis.size : held->second.size());
  }
  return bytes;
}

}  // namespace

std::vector<std::uint64_t> dealt_out(const std::vector<std::uint64_t>& weights,
                                     std::uint64_t parts) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&weights](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  using Load = std::pair<std::uint64_t, std::uint64_t>;  // so far, number of the part
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  // More parts than items stay empty.
  for (std::uint64_t p = 0; p < std::min<std::uint64_t>(parts, weights.size()); ++p) {
    loads.emplace(0, p);
  }
  std::vector<std::uint64_t> part(weights.size(), 0);
  for (const std::size_t i : order) {
    auto [load, least] = loads.top();
    loads.pop();
    part[i] = least;
    loads.emplace(plus(load, weights[i]), least);
  }
  return part;
}

std::uint64_t bytes_to_read(const Pair& pair, const trace::Manifest& candidate) {
  std::uint64_t bytes = logical_bytes(*pair.reference);
  // The noise is measured in a pass of its own.
  if (!pair.noise.empty()) bytes = times(bytes, 2);
  for (const measure::TensorRef& run : pair.noise) bytes = plus(bytes, logical_bytes(*run.view));
  for (const trace::TensorEntry* entry : layout::stored_in(*pair.candidate)) {
    bytes = plus(bytes, stored_bytes(*entry, candidate.meshes.at(entry->mesh)));
  }
  return plus(bytes, kBytesPerTensor);
}

std::vector<std::uint64_t> parts_of(const std::vector<TensorComparison>& results,
                                    const trace::Manifest& candidate, std::uint64_t parts,
                                    const WorkDivision& division) {
  std::vector<std::pair<std::size_t, std::size_t>> measured;  // record, its unit
  std::map<std::string, std::size_t> units;
  std::vector<std::uint64_t> weights;  // by unit
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_to_be_measured(results[i])) continue;
    std::size_t unit = weights.size();
    if (division.unit) unit = units.emplace(division.unit(results[i].key), unit).first->second;
    if (unit == weights.size()) weights.push_back(0);
    weights[unit] = plus(weights[unit], bytes_to_read(results[i], candidate));
    measured.emplace_back(i, unit);
  }
  const std::vector<std::uint64_t> dealt = dealt_out(weights, parts);
  std::vector<std::uint64_t> part(results.size(), 0);
  for (const auto& [record, unit] : measured) part[record] = dealt[unit];
  return part;
}

std::string missing_parts(const WorkDivision& division) {
  constexpr std::size_t kMostListed = 4;
  std::vector<std::string> numbers;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < division.measured_by.size(); ++i) {
    if (!division.measured_by[i].empty()) continue;
    if (++missing <= kMostListed) numbers.push_back(concat(i + 1));
  }
  if (missing == 0) return "";
  std::string list;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool last = i + 1 == numbers.size() && missing == numbers.size();
    list += concat(i == 0 ? "" : (last ? " and " : ", "), numbers[i]);
  }
  if (missing > numbers.size()) list += concat(" and ", missing - numbers.size(), " more");
  return base::render({"{count?part|parts} {list} of {of} {count?is|are} missing",
                       {{"count", missing}, {"list", list}, {"of", division.measured_by.size()}}});
}

namespace {

void leave_to_others(const PartNumber& mine, const std::vector<std::uint64_t>& part,
                     std::vector<TensorComparison>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_to_be_measured(results[i]) || part[i] + 1 == mine.index) continue;
    results[i].outcome = judge::Outcome::kSkippedByRule;
    results[i].skipped = SkippedFor::kOtherPart;
    results[i].reason = concat("in part ", part[i] + 1, " of ", mine.of);
  }
}

}  // namespace

void prepare_work(const WorkDivision& division, const trace::Source& reference,
                  const trace::Source& candidate, Checkpoint& work,
                  std::vector<TensorComparison>& results) {
  if (division.had) return prepare_local_work(division, reference, candidate, work, results);
  std::vector<std::uint64_t> part;
  if (division.part || !division.measured_by.empty()) {
    part = parts_of(results, candidate.manifest(),
                    division.part ? division.part->of : division.measured_by.size(), division);
  }
  if (division.part) leave_to_others(*division.part, part, results);
  restore_measurements(work, candidate, results);
  if (division.measured_by.empty()) return;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_to_be_measured(results[i])) continue;
    if (division.measured_by[part[i]].empty()) {
      mark_interrupted(results[i]);
      results[i].reason =
          base::render({"in part {part} of {of}, which is missing",
                        {{"part", part[i] + 1}, {"of", division.measured_by.size()}}});
      continue;
    }
    throw base::input_error(division.measured_by[part[i]], ": lacks the measurement of ",
                            base::printable(to_string(results[i].key)),
                            "; run this part again to its end");
  }
}

}  // namespace ttrace::comparison
