#include "report/result_id.h"

#include "base/concat.h"

namespace ttrace::report {

std::string id_of(const trace::TensorKey& key) {
  const std::string microbatch = key.microbatch ? std::to_string(*key.microbatch) : "-";
  return base::concat(key.step, "/", microbatch, "/", kind_name(key.kind), "/", key.name, "/",
                      key.call, "/", key.copy);
}

}  // namespace ttrace::report
