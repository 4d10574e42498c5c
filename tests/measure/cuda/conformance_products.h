// Compares products of matrices on a backend with the CPU's, bit for bit, over shapes, strides and
// values (conformance.h).
#pragma once

#include "measure/cuda/conformance.h"
#include "measure/products.h"

namespace ttrace::test {

Conformance check_products(const measure::ProductBackend& backend, std::uint64_t seed);

}  // namespace ttrace::test
