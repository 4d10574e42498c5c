#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/display_limits.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "report/page/sections.h"

namespace ttrace::report {
namespace {

// Texts that many tensors share, by number.
class Texts {
 public:
  std::size_t number_of(const std::string& text) {
    const auto [at, fresh] = numbers_.emplace(text, texts_.size());
    if (fresh) texts_.push_back(text);
    return at->second;
  }
  std::string json() const {
    std::string out = "[";
    for (const std::string& text : texts_) {
      out += (out.size() > 1 ? "," : "") + base::json_string(base::printable(text));
    }
    return out + "]";
  }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> texts_;
};

std::string number_json(const std::optional<double>& value) {
  if (!value) return "null";
  if (std::isnan(*value)) return "\"nan\"";
  // JSON has no infinity; JavaScript reads a number that is too large as infinity.
  if (std::isinf(*value)) return *value > 0 ? "1e999" : "-1e999";
  return base::short_number(*value);
}

std::string count_json(const std::optional<std::uint64_t>& value) {
  return value ? base::concat(*value) : "null";
}

template <typename Items, typename ToJson>
std::string array(const Items& items, ToJson to_json) {
  std::string out = "[";
  for (const auto& item : items) {
    if (out.size() > 1) out += ',';
    out += to_json(item);
  }
  return out + "]";
}

std::string counts_json(const std::vector<std::uint64_t>& counts) {
  return array(counts, [](std::uint64_t one) { return base::concat(one); });
}

std::string finding_json(const PageFinding& finding,
                         const std::map<std::string, std::size_t>& index_of) {
  std::vector<std::uint64_t> members;
  for (const std::string& id : finding.members) {
    if (const auto at = index_of.find(id); at != index_of.end()) members.push_back(at->second);
  }
  const auto shown = index_of.find(finding.id);
  return base::concat(
      "{\"title\":", base::json_string(base::printable(finding.title)),
      ",\"shown\":", shown == index_of.end() ? "null" : base::concat(shown->second),
      ",\"members\":", counts_json(members), ",\"classes\":",
      array(finding.replica_classes, [](const auto& ranks) { return counts_json(ranks); }),
      ",\"shards\":",
      array(finding.shards,
            [](const PageShard& shard) {
              return base::concat("[", number_json(shard.share), ",", number_json(shard.error), ",",
                                  counts_json(shard.ranks), "]");
            }),
      "}");
}

std::string mesh_json(const PageAnswer& answer) {
  return array(answer.mesh, [](const PageMeshAxis& axis) {
    return base::concat("[", base::json_string(base::printable(axis.name)), ",", axis.size, "]");
  });
}

}  // namespace

std::string page_columns(const PageAnswer& answer) {
  Texts texts;
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < answer.tensors.size(); ++i) {
    index_of.emplace(answer.tensors[i].id, i);
  }
  const std::span<const PageFinding> cards =
      std::span(answer.findings).first(std::min(answer.findings.size(), base::kShown.page_cards));
  std::string out = "{\"findings\":" + array(cards, [&](const PageFinding& finding) {
                      return finding_json(finding, index_of);
                    });
  out += ",\"mesh\":" + mesh_json(answer) + ",\"meshRanks\":" + counts_json(answer.mesh_ranks);
  const auto add = [&](const char* name, auto to_json) {
    out += base::concat(",\"", name, "\":", array(answer.tensors, to_json));
  };
  const auto add_texts = [&](const char* name, std::string PageTensor::*member) {
    add(name,
        [&, member](const PageTensor& one) { return base::concat(texts.number_of(one.*member)); });
  };
  const auto add_numbers = [&](const char* name, std::optional<double> PageTensor::*member) {
    add(name, [member](const PageTensor& one) { return number_json(one.*member); });
  };
  add_texts("name", &PageTensor::name);
  add_texts("kind", &PageTensor::kind);
  add_texts("outcome", &PageTensor::outcome);
  add_texts("phase", &PageTensor::phase);
  add_texts("module", &PageTensor::module);
  add_texts("shape", &PageTensor::shape);
  add_texts("dtype", &PageTensor::dtype);
  add_texts("rule", &PageTensor::rule);
  add_texts("reason", &PageTensor::reason);
  add_numbers("used", &PageTensor::used);
  add_numbers("error", &PageTensor::error);
  add_numbers("eps", &PageTensor::eps);
  add_numbers("allowed", &PageTensor::allowed);
  add("step", [](const PageTensor& one) { return base::concat(one.step); });
  add("microbatch", [](const PageTensor& one) { return count_json(one.microbatch); });
  add("call", [](const PageTensor& one) { return base::concat(one.call); });
  add("copy", [](const PageTensor& one) { return base::concat(one.copy); });
  add("layer", [](const PageTensor& one) { return count_json(one.layer); });
  add("alarming", [](const PageTensor& one) { return std::string(one.alarming ? "1" : "0"); });
  return out + ",\"texts\":" + texts.json() + "}";
}

}  // namespace ttrace::report
