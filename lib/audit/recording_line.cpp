#include "audit/recording_line.h"

#include <algorithm>
#include <array>
#include <set>

#include "audit/record.h"
#include "base/message.h"
#include "base/text.h"

namespace ttrace::audit {

using trace::Kind;

namespace {

// The kinds that tell whether a module is at fault, or only passes on what it was given.
constexpr std::array kAroundModule{Kind::kInput, Kind::kOutput, Kind::kGradOutput,
                                   Kind::kParamGrad};

std::set<std::string> kinds_in(const trace::Manifest& manifest) {
  std::set<std::string> kinds;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (!collector_records(entry.key.kind)) continue;
    kinds.insert(std::string(kind_name(entry.key.kind)));
  }
  return kinds;
}

// Without `modules` all are recorded.
std::string format_line(const std::set<std::string>& kinds, const std::set<std::string>& modules) {
  const auto joined = [](const std::set<std::string>& items) {
    std::string text;
    for (const std::string& item : items) text += base::concat(text.empty() ? "" : ",", item);
    return text;
  };
  return base::concat(
      "TTRACE_KINDS=", joined(kinds),
      modules.empty() ? std::string() : base::concat(" TTRACE_MODULES=", joined(modules)));
}

bool records(const trace::Recorded& recorded, Kind kind) {
  return std::find(recorded.kinds.begin(), recorded.kinds.end(), kind) != recorded.kinds.end();
}

// "decoder.layers.3" for "decoder.layers.3.mlp.fc1"; the name itself if nothing in it is numbered.
std::string numbered_layer(const std::string& module) {
  for (std::size_t start = 0; start < module.size();) {
    const std::size_t end = std::min(module.find('.', start), module.size());
    const std::string_view part = std::string_view(module).substr(start, end - start);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (number) return module.substr(0, end);
    start = end + 1;
  }
  return module;
}

// Globs for the layer and the modules below it. The collector refuses a glob that matches nothing.
std::set<std::string> globs_of_layer(const trace::Manifest& manifest, const std::string& layer) {
  std::set<std::string> globs;
  for (const trace::Module& module : manifest.modules) {
    if (module.name == layer) globs.insert(layer);
    if (module.name.starts_with(layer + ".")) globs.insert(layer + ".*");
  }
  return globs;
}

bool is_of_module(Kind kind) {
  return kind != Kind::kLoss && kind != Kind::kGradNorm && kind != Kind::kScalar &&
         kind != Kind::kIndex;
}

}  // namespace

bool collector_records(Kind kind) { return kind != Kind::kGradInput; }

std::string why_never_recorded(const trace::Manifest& manifest, Kind kind) {
  if (!collector_records(kind))
    return base::render({": no setting of ttrace-torch records it", {}});
  const std::optional<trace::Recorded>& recorded = manifest.run.recorded;
  if (kind != Kind::kBuffer || !recorded || !records(*recorded, kind)) return "";
  return base::render({": ttrace-torch records the buffers of state_dict() alone", {}});
}

std::string recording_line(const trace::Manifest& manifest,
                           const std::vector<trace::TensorKey>& lacking) {
  std::set<std::string> kinds = kinds_in(manifest);
  std::set<std::string> modules;
  const std::optional<trace::Recorded>& recorded = manifest.run.recorded;
  const bool some_modules = recorded && recorded->modules;
  if (some_modules) modules.insert(recorded->modules->begin(), recorded->modules->end());
  const std::size_t before = kinds.size() + modules.size();
  for (const trace::TensorKey& key : lacking) {
    if (!collector_records(key.kind)) continue;
    kinds.insert(std::string(kind_name(key.kind)));
    if (some_modules) modules.insert(module_of(key));
  }
  if (kinds.size() + modules.size() == before) return "";
  return format_line(kinds, modules);
}

void add_recording_lines(const trace::Manifest& reference, const trace::Manifest& candidate,
                         const std::vector<comparison::TensorComparison>& results,
                         std::vector<comparison::ComparedFinding>& findings) {
  const std::optional<trace::Recorded>& of_reference = reference.run.recorded;
  const std::optional<trace::Recorded>& of_candidate = candidate.run.recorded;
  if (findings.empty() || !of_reference || !of_candidate) return;
  std::set<std::string> kinds = kinds_in(candidate);
  bool lacks = false;
  for (const Kind kind : kAroundModule) {
    lacks |= !records(*of_reference, kind) || !records(*of_candidate, kind);
    kinds.insert(std::string(kind_name(kind)));
  }
  if (!lacks) return;
  for (comparison::ComparedFinding& finding : findings) {
    const comparison::TensorComparison& result = results[finding.result];
    if (!result.comparison || !is_of_module(result.key.kind)) continue;
    const auto globs = globs_of_layer(candidate, numbered_layer(module_of(result.key)));
    if (!globs.empty()) finding.record_next = format_line(kinds, globs);
  }
}

}  // namespace ttrace::audit
