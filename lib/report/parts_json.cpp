#include "report/parts_json.h"

#include <cmath>

namespace ttrace::report {

using json = nlohmann::ordered_json;

json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json key_json(const trace::TensorKey& key) {
  json out{{"step", key.step}};
  if (key.microbatch) {
    out["microbatch"] = *key.microbatch;
  } else {
    out["microbatch"] = nullptr;
  }
  out["kind"] = kind_name(key.kind);
  out["name"] = key.name;
  out["call"] = key.call;
  if (key.copy != 0) out["copy"] = key.copy;
  return out;
}

json trace_json(const TraceFacts& facts) {
  json mesh = json::array();
  for (const trace::MeshAxis& axis : facts.mesh) {
    mesh.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  return {{"path", facts.path},
          {"ranks", facts.ranks},
          {"mesh", std::move(mesh)},
          {"steps", facts.steps},
          {"precision", facts.precision}};
}

}  // namespace ttrace::report
