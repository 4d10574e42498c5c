#include "routing/token_rows.h"

#include "base/error.h"
#include "compare/left_out_rows.h"

namespace ttrace::routing {

TokenRows::TokenRows(const compare::TensorRef& tensor, std::uint64_t tokens)
    : tensor_(tensor), tokens_(tokens), at_(tokens) {
  const tensor::Shape& shape = tensor.view->shape;
  const auto dims = compare::row_dimensions(shape, tokens);
  if (!dims) throw base::internal_error("no rows of tokens in ", tensor::to_string(shape));
  leading_.assign(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(*dims));
  std::uint64_t length = 1;
  for (std::size_t d = *dims; d < shape.size(); ++d) length *= shape[d];
  values_.resize(length);
  reader_ = tensor_.open(compare::Replicas::kFirstOnly);
}

std::span<const double> TokenRows::row(std::uint64_t token) {
  if (token == at_) return values_;
  tensor::Box box = tensor::whole(tensor_.view->shape);
  const tensor::Shape place = tensor::coordinates(tensor::whole(leading_), token);
  for (std::size_t d = 0; d < place.size(); ++d) {
    box.origin[d] = place[d];
    box.extent[d] = 1;
  }
  reader_->read(box, values_);
  at_ = token;
  return values_;
}

}  // namespace ttrace::routing
