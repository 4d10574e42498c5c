#include "answer/environment.h"

#include "base/text.h"

namespace ttrace::answer {

std::string Interruption::describe() const {
  if (missing.empty()) {
    return base::concat("interrupted after ", measured, " of ", base::plural(of, "tensor"));
  }
  return base::concat(missing, ", with ", of - measured, " of ", base::plural(of, "tensor"));
}

}  // namespace ttrace::answer
