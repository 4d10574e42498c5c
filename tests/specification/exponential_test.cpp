#include "specification/primitives/exponential.h"

#include <vector>

#include "base/functions/exponential.h"
#include "base/instruction_sets.h"
#include "support/catch.h"

namespace ttrace::specification::exponential_test {
namespace {

TEST_CASE("sums of exponentials are the same to the bit with every instruction set") {
  std::vector<double> x(61);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = -0.3 * static_cast<double>(i);
  std::vector<double> expected(x.size());
  const double total = kExponentialsBaseline(x.data(), 1.5, expected.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(expected[i] == base::exponential(x[i] - 1.5));
  CHECK(kExponentialsBaseline(x.data(), 1.5, nullptr, x.size()) == total);
  std::vector<double> found(x.size());
#ifdef __x86_64__
  if (base::instruction_sets().v3) {
    CHECK(kExponentialsV3(x.data(), 1.5, found.data(), x.size()) == total);
    CHECK(found == expected);
  }
  if (base::instruction_sets().v4) {
    CHECK(kExponentialsV4(x.data(), 1.5, found.data(), x.size()) == total);
    CHECK(found == expected);
  }
#endif
  CHECK(add_exponentials(x.data(), 1.5, found.data(), x.size()) == total);
}

}  // namespace
}  // namespace ttrace::specification::exponential_test
