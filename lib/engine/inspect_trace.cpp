#include "engine/inspect_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "comparison/run_facts.h"
#include "localize/describe_layout.h"
#include "localize/explain.h"
#include "measure/logical_tensor.h"

namespace ttrace::engine {
namespace {

using base::concat;
using base::printable;

constexpr std::uint64_t kPrintedSlabElements = std::uint64_t{1} << 18;

std::string describe_stored_values(const trace::Source& source, const trace::TensorEntry& entry) {
  measure::LogicalTensor logical(source, entry);
  double square = 0;
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -smallest;
  std::uint64_t nonfinite = 0;
  std::vector<double> values;
  tensor::for_each_sub_box(tensor::whole(entry.shape), kPrintedSlabElements,
                           [&](const tensor::Box& slab) {
                             values.resize(tensor::volume(slab));
                             logical.read(slab, values);
                             for (const double value : values) {
                               if (!std::isfinite(value)) {
                                 ++nonfinite;
                                 continue;
                               }
                               square += value * value;
                               smallest = std::min(smallest, value);
                               largest = std::max(largest, value);
                             }
                           });
  if (smallest > largest) return concat("no finite element, ", nonfinite, " not finite");
  return concat("norm ", base::short_number(std::sqrt(square)), ", ", base::short_number(smallest),
                " … ", base::short_number(largest),
                nonfinite > 0 ? concat(", ", nonfinite, " not finite") : "");
}

void write_summary(const trace::Source& source, std::ostream& out) {
  const answer::TraceFacts facts = comparison::facts_of(source);
  const trace::Manifest& manifest = source.manifest();
  const trace::RunFacts& run = manifest.run;
  out << printable(facts.path) << ": " << base::plural(manifest.tensors.size(), "tensor") << ", "
      << base::plural(facts.ranks, "rank") << ", " << base::plural(facts.steps.size(), "step")
      << "\n";
  for (const auto& [name, mesh] : manifest.meshes) {
    if (mesh.axes.empty()) continue;
    out << "  mesh " << (name.empty() ? "" : printable(name) + " ") << "(";
    for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
      out << (i > 0 ? " × " : "") << printable(mesh.axes[i].name) << " " << mesh.axes[i].size;
    }
    out << ")\n";
  }
  for (const auto& [label, text] : {std::pair{"framework", run.framework},
                                    {"model", run.model},
                                    {"precision", run.precision},
                                    {"command", run.command},
                                    {"collector", run.collector}}) {
    if (!text.empty()) out << "  " << label << " " << printable(text) << "\n";
  }
  if (run.noise) {
    out << "  perturbed at " << printable(run.noise->at) << " by "
        << base::short_number(run.noise->epsilon) << " (seed " << run.noise->seed << ")\n";
  }
  if (run.plan) {
    out << "  rewritten by plan " << run.plan->digest.substr(0, 12) << " ("
        << base::plural(run.plan->modules.size(), "module") << ")\n";
  }
  std::map<trace::Kind, std::uint64_t> kinds;
  for (const trace::TensorEntry& entry : manifest.tensors) ++kinds[entry.key.kind];
  out << "  kinds";
  for (const auto& [kind, count] : kinds) out << " " << kind_name(kind) << " " << count;
  out << "\n  data flow "
      << (manifest.modules.empty() ? std::string("none")
                                   : base::plural(manifest.modules.size(), "module"))
      << "\n";
}

}  // namespace

void inspect_trace(const trace::Source& source, const comparison::Selection& selection, bool values,
                   std::ostream& out) {
  comparison::require_sound_layouts(source);
  std::vector<const trace::TensorEntry*> entries;
  std::vector<trace::TensorKey> keys;
  for (const trace::TensorEntry& entry : source.manifest().tensors) {
    keys.push_back(entry.key);
    if (selection.selects(entry.key)) entries.push_back(&entry);
  }
  comparison::require_matches(selection, keys);
  write_summary(source, out);
  std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
    constexpr auto kLast = std::numeric_limits<std::uint64_t>::max();
    return std::pair(a->key.step, a->order.value_or(kLast)) <
           std::pair(b->key.step, b->order.value_or(kLast));
  });
  out << "\n";
  for (const trace::TensorEntry* entry : entries) {
    out << "  " << printable(to_string(entry->key)) << "  " << dtype_short_name(entry->dtype)
        << "  " << printable(localize::describe_merging(source, *entry));
    if (entry->complex) out << ", complex";
    if (entry->computed_in) out << ", computed in " << dtype_short_name(*entry->computed_in);
    if (entry->scale != 1) out << ", scale " << base::short_number(entry->scale);
    if (values) {
      std::string words;
      try {
        words = describe_stored_values(source, *entry);
      } catch (const base::InputError& error) {
        words = error.what();
      }
      out << "  " << printable(words);
    }
    out << "\n";
  }
}

}  // namespace ttrace::engine
