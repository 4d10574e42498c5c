#include <nlohmann/json.hpp>

#include "report/json/report_text_json.h"
#include "report/nights/trend.h"

namespace ttrace::report {
namespace {

json trend_night_json(const Night& night, const std::vector<ChangedCircumstance>& changed) {
  json out{{"file", night.file}, {"verdict", night.verdict}, {"headline", night.headline}};
  if (!night.recorded_at.empty()) out["recorded_at"] = night.recorded_at;
  if (!night.commit.empty()) out["commit"] = night.commit;
  out["changed"] = json::array();
  for (const ChangedCircumstance& one : changed) {
    out["changed"].push_back({{"what", one.what}, {"was", one.was}, {"is", one.is}});
  }
  return out;
}

json tensor_trend_json(const TensorTrend& tensor) {
  json used = json::array();
  for (const auto& one : tensor.used) used.push_back(one ? number(*one) : json(nullptr));
  return {{"id", tensor.id}, {"worst", number(tensor.worst)}, {"used", std::move(used)}};
}

}  // namespace

std::string trend_json(const NightTrend& trend) {
  ReportText text(kTrendSchema);
  text.add("headline", trend.headline());
  text.add("verdict", "trend");
  if (!trend.why.empty()) text.add("why", trend.why);
  text.add("exit_code", trend.exit_code());
  text.add("command", trend.nights.front().command);
  std::vector<json> nights;
  for (std::size_t i = 0; i < trend.nights.size(); ++i) {
    nights.push_back(trend_night_json(trend.nights[i], trend.changed_in(i)));
  }
  text.add_lines("nights", nights, [](const json& night) { return night; });
  text.add_lines("tensors", trend.tensors, tensor_trend_json);
  return std::move(text).done();
}

}  // namespace ttrace::report
