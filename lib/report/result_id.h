// Names by which the results and findings of two reports can be joined.
#pragma once

#include <string>

#include "trace/key.h"

namespace ttrace::report {

// "step/mb/kind/name/call/copy", "-" for a tensor of no micro-batch: "0/-/main_grad/fc.weight/0/0".
// The name is as it is in the trace; the three numbers before it and the two after it hold no "/".
std::string id_of(const trace::TensorKey& key);

}  // namespace ttrace::report
