#include "report/layer.h"

#include "support/catch.h"

namespace ttrace::report {

TEST_CASE("the layer of a module is the first number of its name") {
  CHECK(layer_of("decoder.layers.3.mlp.experts.5") == 3);
  CHECK(layer_of("12") == 12);
  CHECK_FALSE(layer_of("head"));
  CHECK_FALSE(layer_of("conv2d.norm1"));
  CHECK_FALSE(layer_of("99999999999999999999.fc"));  // no number that fits
  CHECK_FALSE(layer_of(""));
}

}  // namespace ttrace::report
