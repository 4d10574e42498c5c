// Which ranks a tensor's place in the execution order is about.
#pragma once

#include <string>

#include "layout/view.h"

namespace ttrace::localize {

// Equal for tensors whose orders count the same ranks' steps: mesh and coordinates that hold the
// first stored tensor it is made of; empty where every rank does.
std::string holders_of(const layout::View& view);

}  // namespace ttrace::localize
