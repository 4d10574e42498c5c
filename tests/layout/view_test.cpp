#include "layout/view.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::layout::view_test {
namespace {

using tensor::DType;
using trace::TensorEntry;

ViewPtr made(View view) { return std::make_shared<View>(std::move(view)); }

TensorEntry entry_of(const std::string& name, DType dtype) {
  TensorEntry entry = test::make_entry(name, {2, 3}, trace::Kind::kOutput, dtype);
  entry.order = 7;
  return entry;
}

TEST_CASE("the view of a stored tensor is the tensor") {
  TensorEntry entry = entry_of("w", DType::kBFloat16);
  entry.computed_in = DType::kFloat8E4M3;
  entry.microbatches = trace::Microbatches{trace::Microbatches::How::kMean, 0, {0, 1}};
  const ViewPtr view = view_of(entry);
  CHECK(view->key == entry.key);
  CHECK(view->dtype == DType::kBFloat16);
  CHECK(view->shape == tensor::Shape{2, 3});
  CHECK(view->computed_in == DType::kFloat8E4M3);
  CHECK(view->order == 7U);
  CHECK(view->microbatches == entry.microbatches);
  CHECK(stored_in(*view) == std::vector<const TensorEntry*>{&entry});
}

TEST_CASE("a tensor made of others is the first one, computed in the coarsest precision") {
  const TensorEntry fine = entry_of("fine", DType::kFloat32);
  TensorEntry coarse = entry_of("coarse", DType::kFloat32);
  coarse.computed_in = DType::kBFloat16;
  const View first_fine = made_of({view_of(fine), view_of(coarse)});
  CHECK(first_fine.key == fine.key);
  CHECK(first_fine.dtype == DType::kFloat32);
  CHECK(first_fine.computed_in == DType::kBFloat16);
  CHECK(first_fine.order == 7U);
  CHECK(made_of({view_of(coarse), view_of(fine)}).computed_in == DType::kBFloat16);
  CHECK_FALSE(made_of({view_of(fine)}).computed_in.has_value());
  const TensorEntry half = entry_of("half", DType::kFloat16);
  CHECK(made_of({view_of(fine), view_of(half)}).computed_in == DType::kFloat16);
}

TEST_CASE("the stored tensors of a view are reported in order, one of a mosaic once") {
  const TensorEntry a = entry_of("a", DType::kFloat32);
  const TensorEntry b = entry_of("b", DType::kFloat32);
  const ViewPtr view_a = view_of(a);
  const ViewPtr view_b = view_of(b);
  View mosaic = *view_a;
  mosaic.shape = {6, 3};
  mosaic.how = Mosaic{{{{{0, 0}, {2, 3}}, view_b, {0, 0}},
                       {{{2, 0}, {2, 3}}, view_a, {0, 0}},
                       {{{4, 0}, {1, 3}}, view_b, {1, 0}}}};
  CHECK(stored_in(mosaic) == std::vector<const TensorEntry*>{&b, &a});
  View sum = *view_a;
  sum.how = Sum{{view_a, view_b, view_a}, 1};
  CHECK(stored_in(sum) == std::vector<const TensorEntry*>{&a, &b, &a});
  View transposed = *view_a;
  transposed.how = Transposed{made(sum), {1, 0}};
  CHECK(stored_in(transposed).size() == 3);
}

TEST_CASE("a view over changed entries leaves the first as it is") {
  const TensorEntry a = entry_of("a", DType::kFloat32);
  const TensorEntry b = entry_of("b", DType::kFloat32);
  View sum = *view_of(a);
  sum.how = Sum{{view_of(a), view_of(b)}, 0.5};
  View transposed = sum;
  transposed.shape = {3, 2};
  transposed.how = Transposed{made(sum), {1, 0}};
  View mosaic = transposed;
  mosaic.how = Mosaic{{{{{0, 0}, {3, 2}}, made(transposed), {0, 0}}}};
  const ViewPtr changed = with_entries(made(mosaic), [](TensorEntry entry) {
    entry.scale = 2;
    return entry;
  });
  const auto stored = stored_in(*changed);
  REQUIRE(stored.size() == 2);
  CHECK(stored[0]->scale == 2);
  CHECK(stored[1]->scale == 2);
  CHECK(stored[1]->key == b.key);
  CHECK(stored_in(mosaic) == std::vector<const TensorEntry*>{&a, &b});
  CHECK(a.scale == 1);
  CHECK(changed->shape == tensor::Shape{3, 2});
}

}  // namespace
}  // namespace ttrace::layout::view_test
