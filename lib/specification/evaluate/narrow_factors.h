// Products whose factors a GPU rounds before it multiplies them, as the settings of the run say: of
// float32 to TF32. Sums and results stay float32.
// https://docs.pytorch.org/docs/stable/notes/cuda.html#tf32-on-ampere
#pragma once

#include <map>

#include "specification/expression.h"
#include "tensor/shape.h"
#include "trace/manifest.h"

namespace ttrace::specification {

class NarrowFactors {
 public:
  explicit NarrowFactors(const trace::ProductFacts& products) : products_(products) {}

  // Puts a rounding before every factor that the run rounded, and returns whether there is one. The
  // expression is valid only while this object lives. The expected value stays unrounded, and these
  // roundings are simulated: cuBLAS and cuDNN round to nearest, so that they cancel on average (on
  // an H100 the scale of a product is off by 4e-6, its norm by 2.9e-4).
  bool round_in(Expression& expression);

 private:
  std::optional<tensor::DType> type_of_factors(const Node& node) const;
  const Node& rounding_to(tensor::DType dtype, const tensor::Shape& shape);

  trace::ProductFacts products_;
  std::map<std::pair<tensor::DType, tensor::Shape>, Node> roundings_;
};

}  // namespace ttrace::specification
