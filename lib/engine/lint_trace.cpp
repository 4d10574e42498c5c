#include "engine/lint_trace.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "comparison/run_facts.h"
#include "layout/absent_shards.h"
#include "layout/layout_problems.h"
#include "layout/manifest_merge.h"
#include "layout/mesh.h"
#include "layout/plan.h"
#include "localize/phase.h"
#include "measure/shard_reader.h"

namespace ttrace::engine {
namespace {

void lint_modules(const trace::Source& source, std::vector<std::string>& findings) {
  const auto& modules = source.manifest().modules;
  std::set<std::string_view> known;
  for (const trace::Module& module : modules) known.insert(module.name);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto check = [&](const char* member, const std::vector<std::string>& values) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (known.contains(trace::module_of_value(values[k]))) continue;
        findings.push_back(base::concat(source.path(), ": /modules/", i, "/", member, "/", k,
                                        ": there is no module \"", values[k], "\""));
      }
    };
    check("inputs", modules[i].inputs);
    if (modules[i].computed_from) check("computed_from", *modules[i].computed_from);
  }
}

bool placed_by_rows(const trace::TensorEntry& entry) {
  return std::any_of(entry.placements.begin(), entry.placements.end(), [](const auto& placement) {
    return std::holds_alternative<trace::Rows>(placement.second);
  });
}

bool has(const std::vector<std::uint64_t>& ranks, std::uint64_t rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

// Reports tensors that some of their ranks did not record.
void lint_absent_shards(const trace::Source& source, std::vector<std::string>& findings) {
  const std::uint64_t ranks = layout::ranks_of(source.manifest()).size();
  for (const layout::AbsentShards& absent : layout::absent_shards(source.manifest())) {
    findings.push_back(base::concat(source.path(), ": ", to_string(absent.key), ": ",
                                    layout::describe_absence(absent, ranks)));
  }
}

bool is_activation(trace::Kind kind) {
  return kind == trace::Kind::kInput || kind == trace::Kind::kOutput ||
         kind == trace::Kind::kGradInput || kind == trace::Kind::kGradOutput;
}

// Warns once of each name and axis.
void warn_of_uneven_cuts(const trace::Source& source, std::vector<std::string>& warnings) {
  std::set<std::pair<std::string, std::string>> known;
  for (const trace::TensorEntry& entry : source.manifest().tensors) {
    if (!is_activation(entry.key.kind)) continue;
    for (const trace::MeshAxis& axis : source.manifest().meshes.at(entry.mesh).axes) {
      const auto placed = entry.placements.find(axis.name);
      if (placed == entry.placements.end()) continue;
      const auto* shard = std::get_if<trace::Shard>(&placed->second);
      if (shard == nullptr || shard->sizes || shard->dim >= entry.shape.size()) continue;
      const std::uint64_t extent = entry.shape[shard->dim];
      if (extent % axis.size == 0 || !known.emplace(entry.key.name, axis.name).second) continue;
      warnings.push_back(base::concat(source.path(), ": ", to_string(entry.key),
                                      " is declared cut along dimension ", shard->dim, " over ",
                                      axis.name, ", whose ", axis.size, " ranks do not divide its ",
                                      extent, " elements; is that the dimension that is cut?"));
    }
  }
}

void lint_datasets(const trace::Source& source, const std::vector<std::uint64_t>& lost,
                   LintResult& result) {
  for (const trace::TensorEntry& entry : source.manifest().tensors) {
    layout::Plan plan;
    try {
      plan = measure::resolved_plan(source, entry);
    } catch (const base::InputError& error) {
      // The layout check reports everything else.
      if (placed_by_rows(entry)) result.findings.emplace_back(error.what());
      continue;
    }
    for (const layout::Block& block : plan.blocks) {
      for (const layout::Term& term : block.terms) {
        for (const std::uint64_t rank : term.ranks) {
          if (has(lost, rank) || has(entry.absent_on, rank)) continue;
          ++result.datasets;
          try {
            const measure::ShardReader reader(source, entry, rank, block.held);
          } catch (const base::InputError& error) {
            result.findings.emplace_back(error.what());
          }
        }
      }
    }
  }
}

}  // namespace

LintResult lint_trace(const trace::Source& source, const LintOptions& options) {
  LintResult result;
  result.tensors = source.manifest().tensors.size();
  result.ranks = layout::ranks_of(source.manifest()).size();
  if (result.tensors == 0) {
    result.findings.push_back(base::concat(source.path(), ": the manifest lists no tensor"));
  }
  for (const std::string& problem : layout::layout_problems(source.manifest())) {
    result.findings.push_back(base::concat(source.path(), ": ", problem));
  }
  lint_modules(source, result.findings);
  if (result.findings.empty()) warn_of_uneven_cuts(source, result.warnings);
  // A layout that contradicts itself does not say which rank has what.
  if (result.findings.empty()) lint_absent_shards(source, result.findings);
  if (options.manifest_only) return result;
  const comparison::LostRanks lost = comparison::lost_ranks_of(source);
  result.findings.insert(result.findings.end(), lost.problems.begin(), lost.problems.end());
  lint_datasets(source, lost.unreadable, result);
  return result;
}

RebuiltManifest rebuild_manifest(const std::string& run, const std::vector<std::uint64_t>& ranks,
                                 const std::function<trace::Manifest(std::uint64_t)>& part_of) {
  if (ranks.empty()) {
    throw base::input_error(
        run,
        ": no files of ranks (rank_00000.h5, ...) in it, so there is nothing to "
        "rebuild manifest.json from; give the directory that the job wrote its rank files to");
  }
  RebuiltManifest rebuilt;
  layout::ManifestMerge all;
  for (const std::uint64_t rank : ranks) {
    try {
      all.add(rank, part_of(rank));
      ++rebuilt.parts;
    } catch (const base::InputError& error) {
      rebuilt.findings.emplace_back(error.what());
    }
  }
  if (rebuilt.parts == 0) {
    throw base::input_error(run, ": no part of the manifest in ",
                            base::plural(ranks.size(), "rank file"), ": ", rebuilt.findings[0]);
  }
  try {
    layout::MergedManifest merged = all.finish();
    rebuilt.ranks = layout::ranks_of(merged.manifest).size();
    for (const std::string& finding : merged.findings) {
      rebuilt.findings.push_back(base::concat(run, ": ", finding));
    }
    rebuilt.text = trace::manifest_text(merged.manifest);
  } catch (const base::InputError& error) {
    throw error.in(run);
  }
  // Checks that the new manifest can be read before it is put in place.
  trace::parse_manifest(rebuilt.text, base::concat(run, ": the rebuilt manifest"));
  return rebuilt;
}

}  // namespace ttrace::engine
