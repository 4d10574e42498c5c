#include "answer/environment.h"

#include "base/text.h"

namespace ttrace::answer {

std::string Interruption::describe() const {
  if (missing.empty()) {
    return base::concat("interrupted after ", measured, " of ", base::plural(of, "tensor"));
  }
  if (missing == kApart) {
    return base::concat(of - measured, " of ", base::plural(of, "tensor"),
                        of - measured == 1 ? " lies" : " lie",
                        " apart: no part has all rank files that are needed for ",
                        of - measured == 1 ? "it" : "them");
  }
  return base::concat(missing, ", with ", of - measured, " of ", base::plural(of, "tensor"));
}

}  // namespace ttrace::answer
