#include "report/page/read_parts.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <limits>

#include "base/display_limits.h"
#include "base/text.h"
#include "localize/phase.h"
#include "localize/place.h"
#include "report/layer.h"
#include "trace/key.h"

namespace ttrace::report {

using base::JsonCursor;

namespace {

constexpr std::size_t kMostShards = 4096;

// Members of `identity` and what the page calls them.
constexpr std::pair<std::string_view, std::string_view> kIdentity[] = {
    {"run_id", "run"},          {"recorded_at", "recorded at"}, {"commit", "commit"},
    {"host", "host"},           {"command", "command"},         {"model", "model"},
    {"framework", "framework"}, {"collector", "collector"},
};

}  // namespace

std::string text_at(const JsonCursor& object, std::string_view name) {
  const auto found = object.find(name);
  return found && !found->is_null() ? found->as_string() : "";
}

double number_from(const JsonCursor& cursor) {
  if (!cursor.is_string()) return cursor.as_number();
  const std::string text = cursor.as_string();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw cursor.error("\"", base::printable(text), "\" is no number");
}

std::optional<double> number_at(const JsonCursor& object, std::string_view name) {
  const auto found = object.find(name);
  if (!found || found->is_null()) return std::nullopt;
  return number_from(*found);
}

std::vector<std::uint64_t> counts_at(const JsonCursor& object, std::string_view name) {
  const auto found = object.find(name);
  if (!found || found->is_null()) return {};
  return found->as_counts();
}

std::vector<std::string> strings_at(const JsonCursor& object, std::string_view name) {
  const auto found = object.find(name);
  if (!found || found->is_null()) return {};
  return found->as_strings();
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  if (shape.empty()) return "a number";
  std::string text;
  for (const std::uint64_t size : shape) text += base::concat(text.empty() ? "" : " × ", size);
  return text;
}

std::string ranks_text(const std::vector<std::uint64_t>& ranks) {
  return ranks.empty() ? "" : base::numbers_in_words(ranks);
}

std::string words(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._/=:,+@%").find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

void add_run(const JsonCursor& root, std::string_view role, PageAnswer& answer) {
  const JsonCursor facts = root.require(role);
  PageRun run{std::string(role), {}};
  run.facts.emplace_back("path", facts.require("path").as_string());
  const JsonCursor identity = root.require("identity").require(role);
  if (!identity.is_null()) {
    for (const auto& [member, label] : kIdentity) {
      const std::string value = text_at(identity, member);
      if (!value.empty()) run.facts.emplace_back(label, value);
    }
  }
  std::string mesh;
  for (const JsonCursor& axis : facts.require("mesh").items()) {
    mesh += base::concat(mesh.empty() ? "" : " × ", axis.require("name").as_string(), " ",
                         axis.require("size").as_count());
  }
  const std::uint64_t ranks = facts.require("ranks").as_count();
  run.facts.emplace_back(
      "ranks", base::concat(ranks, mesh.empty() ? "" : " (", mesh, mesh.empty() ? "" : ")"));
  const std::vector<std::uint64_t> steps = facts.require("steps").as_counts();
  if (!steps.empty()) run.facts.emplace_back("steps", base::numbers_in_words(steps));
  const std::string precision = text_at(facts, "precision");
  if (!precision.empty()) run.facts.emplace_back("precision", precision);
  answer.runs.push_back(std::move(run));
}

void add_mesh(const JsonCursor& run, PageAnswer& answer) {
  for (const JsonCursor& axis : run.require("mesh").items()) {
    answer.mesh.push_back({axis.require("name").as_string(), axis.require("size").as_count()});
  }
  answer.mesh_ranks = counts_at(run, "mesh_ranks");
}

void add_made_by(const JsonCursor& root, PageAnswer& answer) {
  const JsonCursor environment = root.require("environment");
  answer.made_by = {{"ttrace", text_at(environment, "version")},
                    {"computed by", text_at(environment, "backend") + " " +
                                        text_at(environment, "instruction_set")}};
  if (const auto seconds = number_at(environment, "seconds")) {
    answer.made_by.emplace_back("took", base::short_number(*seconds) + " s");
  }
}

std::string selection_flags(const JsonCursor& root) {
  const JsonCursor selection = root.require("selection");
  std::string flags;
  for (const char* name : {"only", "skip", "kind"}) {
    for (const std::string& value : strings_at(selection, name)) {
      flags += base::concat(" --", name, " ", shell_word(value));
    }
  }
  for (const std::uint64_t step : counts_at(selection, "step")) {
    flags += base::concat(" --step ", step);
  }
  const auto common = selection.find("common");
  if (common && common->as_bool()) flags += " --common";
  return flags;
}

PageTensor tensor_from(const JsonCursor& result) {
  PageTensor out;
  out.id = result.require("id").as_string();
  const JsonCursor key = result.require("key");
  out.step = key.require("step").as_count();
  const JsonCursor microbatch = key.require("microbatch");
  if (!microbatch.is_null()) out.microbatch = microbatch.as_count();
  out.kind = key.require("kind").as_string();
  out.name = key.require("name").as_string();
  out.call = key.require("call").as_count();
  if (const auto copy = key.find("copy")) out.copy = copy->as_count();
  trace::TensorKey parsed;
  parsed.name = out.name;
  const auto kind = trace::parse_kind(out.kind);
  if (kind) parsed.kind = *kind;
  out.phase = localize::phase_name(localize::phase_of(parsed));
  out.module = trace::module_of(parsed);
  out.layer = layer_of(out.module);
  out.outcome = result.require("outcome").as_string();
  if (const auto shape = result.find("shape")) {
    out.shape = shape->is_null() ? "" : shape_text(shape->as_counts());
  }
  out.dtype = text_at(result, "dtype");
  out.rule = text_at(result, "rule");
  out.reason = text_at(result, "reason");
  const auto known = result.find("known");
  out.known = known && known->as_bool();
  return out;
}

// The numbers of a cause that its evidence does not spell out already. Its words do.
std::vector<PageFact> values_beside(const std::string& evidence, const JsonCursor& cause) {
  std::vector<PageFact> values;
  const auto found = cause.find("values");
  if (!found) return values;
  for (const auto& [name, value] : found->members()) {
    if (value.is_string()) continue;
    std::string text = base::short_number(value.as_number());
    if (evidence.find(text) == std::string::npos) {
      values.emplace_back(words(name), std::move(text));
    }
  }
  return values;
}

std::vector<PageCause> causes_at(const JsonCursor& finding, std::string_view name) {
  const auto found = finding.find(name);
  if (!found) return {};
  std::vector<PageCause> causes;
  for (const JsonCursor& item : found->items()) {
    if (causes.size() == base::kShown.page_causes) break;
    const std::string axis = text_at(item, "axis");
    const std::string evidence = text_at(item, "evidence");
    causes.push_back({item.require("name").as_string() + (axis.empty() ? "" : " over " + axis),
                      evidence, number_at(item, "unexplained"), values_beside(evidence, item)});
  }
  return causes;
}

std::vector<PageCheck> checks_at(const JsonCursor& holder) {
  const auto found = holder.find("checks");
  if (!found) return {};
  std::vector<PageCheck> checks;
  for (const JsonCursor& item : found->items()) {
    if (checks.size() == base::kShown.page_checks) break;
    const std::string id = text_at(item, "id");
    checks.push_back({item.require("operation").as_string() + (id.empty() ? "" : " of " + id),
                      item.require("result").as_string(), text_at(item, "expected"),
                      text_at(item, "reason"), number_at(item, "error"), number_at(item, "bound")});
  }
  return checks;
}

std::string place_at(const JsonCursor& finding) {
  const auto place = finding.find("place");
  if (!place || place->is_null()) return "";
  const std::string kind = place->require("kind").as_string();
  const std::string of = place->require("of").as_string();
  if (kind == "module") return of;
  if (kind == "between") return base::concat("between the modules of ", of);
  if (kind != "synchronisation") return base::concat("the ", kind);
  return base::concat("the gradient synchronisation", of.empty() ? "" : " over ", of);
}

std::vector<PageShard> shards_at(const JsonCursor& finding) {
  const auto found = finding.find("shards");
  if (!found) return {};
  std::vector<PageShard> shards;
  for (const JsonCursor& item : found->items()) {
    if (shards.size() == kMostShards) break;
    shards.push_back({counts_at(item, "origin"), counts_at(item, "extent"),
                      counts_at(item, "ranks"), number_at(item, "error"),
                      number_at(item, "share").value_or(0)});
  }
  return shards;
}

PageFinding judged_finding(const JsonCursor& item) {
  PageFinding out;
  out.id = item.require("id").as_string();
  out.title = item.require("headline").as_string();
  out.members = item.require("keys").as_strings();
  out.phase = text_at(item, "phase");
  out.place = place_at(item);
  const std::string called_at = text_at(item, "called_at");
  out.code = text_at(item, "class");
  if (!called_at.empty()) out.code += (out.code.empty() ? "" : ", ") + called_at;
  out.causes = causes_at(item, "causes");
  out.rejected = causes_at(item, "rejected");
  return out;
}

void add_warnings(const JsonCursor& root, PageAnswer& answer) {
  const std::vector<std::string> warnings = root.require("warnings").as_strings();
  answer.remarks.insert(answer.remarks.end(), warnings.begin(), warnings.end());
}

std::string judged_pair_flags(const JsonCursor& root) {
  std::string line =
      base::concat(shell_word(root.require("reference").require("path").as_string()), " ",
                   shell_word(root.require("candidate").require("path").as_string()));
  if (const auto tolerance = root.find("tolerance")) {
    const std::string file = text_at(*tolerance, "file");
    if (!file.empty()) line += " --tolerance " + shell_word(file);
    // A tolerance file names the noise runs that it was made of.
    for (const std::string& run : strings_at(*tolerance, "noise_runs")) {
      if (file.empty()) line += " --noise " + shell_word(run);
    }
  }
  for (const auto& [member, flag] :
       {std::pair{"layout_rules", " --layout "}, {"map_rules", " --map "}}) {
    const std::string rules = text_at(root, member);
    if (!rules.empty()) line += flag + shell_word(rules);
  }
  return line;
}

void add_flags_of_specification(const JsonCursor& root, PageAnswer& answer) {
  const std::string specification = text_at(root, "specification");
  if (!specification.empty()) answer.repeat += " --specification " + shell_word(specification);
  answer.repeat += selection_flags(root);
}

}  // namespace ttrace::report
