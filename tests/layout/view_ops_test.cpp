#include <memory>
#include <random>

#include "base/refusal.h"
#include "layout/view.h"
#include "measure/tensor_reader.h"
#include "support/memory_trace.h"

namespace ttrace::layout::view_ops_test {
namespace {

using test::check_refused;
using test::make_entry;
using test::MemoryTrace;
using Values = std::vector<double>;

// Tensors "a", "b", ... with the values given.
class Tensors {
 public:
  ViewPtr add(tensor::Shape shape, const Values& values,
              tensor::DType dtype = tensor::DType::kFloat64) {
    const std::string name(1, static_cast<char>('a' + count_++));
    trace_.put(make_entry(name, std::move(shape), trace::Kind::kOutput, dtype), values);
    entries_.push_back(std::make_unique<trace::TensorEntry>(trace_.manifest().tensors.back()));
    return view_of(*entries_.back());
  }

  // 0, 1, 2, ... from `first` on.
  ViewPtr counted(const tensor::Shape& shape, double first = 0) {
    Values values(tensor::element_count(shape).value());
    for (double& value : values) value = first++;
    return add(shape, values);
  }

  Values read(const ViewPtr& view) const {
    Values values(tensor::element_count(view->shape).value(), -99);
    measure::make_reader(trace_, *view, measure::Replicas::kFirstOnly)
        ->read(tensor::whole(view->shape), values);
    return values;
  }

 private:
  MemoryTrace trace_;
  std::vector<std::unique_ptr<trace::TensorEntry>> entries_;
  int count_ = 0;
};

TEST_CASE("tensors are put one after the other") {
  Tensors t;
  const ViewPtr joined = concatenated({t.counted({2, 2}), t.counted({1, 2}, 10)}, 0, 1);
  CHECK(joined->shape == tensor::Shape{3, 2});
  CHECK(t.read(joined) == Values{0, 1, 2, 3, 10, 11});
  const ViewPtr beside = concatenated({t.counted({2, 2}), t.counted({2, 1}, 10)}, 1, 1);
  CHECK(beside->shape == tensor::Shape{2, 3});
  CHECK(t.read(beside) == Values{0, 1, 10, 2, 3, 11});
}

TEST_CASE("with groups the first pieces of all come first, then the second ones") {
  Tensors t;
  const ViewPtr q = t.counted({4}, 10);
  const ViewPtr k = t.counted({2}, 20);
  const ViewPtr v = t.counted({2}, 30);
  CHECK(t.read(concatenated({q, k, v}, 0, 2)) == Values{10, 11, 20, 30, 12, 13, 21, 31});
  CHECK(t.read(concatenated({q, k, v}, 0, 1)) == Values{10, 11, 12, 13, 20, 21, 30, 31});
}

TEST_CASE("a tensor without elements adds nothing") {
  Tensors t;
  const ViewPtr joined = concatenated({t.counted({0, 2}), t.counted({2, 2})}, 0, 2);
  CHECK(joined->shape == tensor::Shape{2, 2});
  CHECK(t.read(joined) == Values{0, 1, 2, 3});
}

TEST_CASE("what cannot be joined is refused with both shapes") {
  Tensors t;
  const ViewPtr a = t.counted({2, 3});
  const ViewPtr b = t.counted({2, 2});
  check_refused(
      [&] {
        concatenated({a, b}, 0, 1);
      },
      {"b · output · step 0 is [2, 2]", "a · output · step 0 is [2, 3]",
       "cannot be joined along dimension 0"});
  check_refused([&] { concatenated({a, a}, 2, 1); }, {"[2, 3]", "no dimension 2"});
  check_refused([&] { concatenated({a, t.counted({2})}, 0, 1); }, {"is [2], ", "cannot be joined"});
  check_refused(
      [&] {
        concatenated({a, t.add({2, 3}, Values(6), tensor::DType::kInt64)}, 0, 1);
      },
      {"cannot be joined"});
}

TEST_CASE("uneven groups are refused with the extent and the number") {
  Tensors t;
  const ViewPtr a = t.counted({6});
  const ViewPtr b = t.counted({4});
  check_refused(
      [&] {
        concatenated({a, b}, 0, 3);
      },
      {"b · output", "[4]", "4 elements cannot be dealt to 3 groups"});
  check_refused([&] { concatenated({a, b}, 0, 0); }, {"0 groups; expected 1 to 65536"});
  check_refused([&] { concatenated({a, b}, 0, 65537); }, {"65537 groups"});
  check_refused([&] { split(a, 0, 2, {}, 2); }, {"3 elements cannot be dealt to 2 groups"});
  check_refused([&] { split(a, 0, 4, {}, 1); }, {"6 elements cannot be dealt to 4 groups"});
}

TEST_CASE("a split gives equal parts, or parts of the sizes given") {
  Tensors t;
  const ViewPtr whole = t.counted({4, 2});
  const auto halves = split(whole, 0, 2, {}, 1);
  REQUIRE(halves.size() == 2);
  CHECK(t.read(halves[1]) == Values{4, 5, 6, 7});
  const auto uneven = split(whole, 0, 3, {1, 0, 3}, 1);
  REQUIRE(uneven.size() == 3);
  CHECK(uneven[1]->shape == tensor::Shape{0, 2});
  CHECK(t.read(uneven[2]) == Values{2, 3, 4, 5, 6, 7});
  CHECK(t.read(split(whole, 1, 2, {}, 1)[1]) == Values{1, 3, 5, 7});
}

TEST_CASE("a split with groups takes a piece of every group") {
  Tensors t;
  const auto parts = split(t.counted({8}), 0, 3, {4, 2, 2}, 2);
  CHECK(t.read(parts[0]) == Values{0, 1, 4, 5});
  CHECK(t.read(parts[1]) == Values{2, 6});
  CHECK(t.read(parts[2]) == Values{3, 7});
}

TEST_CASE("sizes that are not the dimension's are refused with the sums") {
  Tensors t;
  const ViewPtr whole = t.counted({4, 2});
  check_refused([&] { split(whole, 0, 2, {1, 2}, 1); }, {"[4, 2]", "add up to 3 of 4"});
  check_refused([&] { split(whole, 0, 2, {3, 2}, 1); }, {"add up to more than 4"});
  check_refused([&] { split(whole, 0, 2, {~std::uint64_t{0}, 5}, 1); }, {"add up to more than 4"});
  check_refused([&] { split(whole, 0, 3, {2, 2}, 1); }, {"2 sizes for 3 tensors"});
  check_refused([&] { split(whole, 2, 2, {}, 1); }, {"no dimension 2"});
}

TEST_CASE("trimming keeps the first elements") {
  Tensors t;
  const ViewPtr whole = t.counted({3, 2});
  CHECK(t.read(trimmed(whole, 0, 2)) == Values{0, 1, 2, 3});
  CHECK(t.read(trimmed(whole, 1, 1)) == Values{0, 2, 4});
  CHECK(t.read(trimmed(whole, 0, 3)) == t.read(whole));
  CHECK(trimmed(whole, 0, 0)->shape == tensor::Shape{0, 2});
  check_refused([&] { trimmed(whole, 0, 4); },
                {"a · output", "[3, 2]", "dimension 0 cannot be trimmed to 4"});
  check_refused([&] { trimmed(whole, 2, 1); }, {"no dimension 2"});
}

TEST_CASE("padding adds zeros after the last element") {
  Tensors t;
  const ViewPtr whole = t.counted({2, 2}, 1);
  CHECK(t.read(padded(whole, 0, 3)) == Values{1, 2, 3, 4, 0, 0});
  CHECK(t.read(padded(whole, 1, 3)) == Values{1, 2, 0, 3, 4, 0});
  CHECK(t.read(padded(whole, 0, 2)) == t.read(whole));
  check_refused([&] { padded(whole, 0, 1); }, {"[2, 2]", "dimension 0 cannot be padded to 1"});
  check_refused([&] { padded(whole, 0, ~std::uint64_t{0}); }, {"cannot be padded to"});
  check_refused([&] { padded(whole, 3, 5); }, {"no dimension 3"});
}

TEST_CASE("dimension i of a transposed tensor is dimension axes[i] of the stored one") {
  Tensors t;
  const ViewPtr whole = t.counted({2, 3, 1});
  const ViewPtr turned = transposed(whole, {1, 2, 0});
  CHECK(turned->shape == tensor::Shape{3, 1, 2});
  CHECK(t.read(turned) == Values{0, 3, 1, 4, 2, 5});
  CHECK(t.read(transposed(turned, {2, 0, 1})) == t.read(whole));
  CHECK(t.read(transposed(t.counted({}, 7), {})) == Values{7});
}

TEST_CASE("axes that are no permutation are refused") {
  Tensors t;
  const ViewPtr whole = t.counted({2, 3});
  const std::vector<std::vector<std::size_t>> wrong{{0}, {0, 0}, {1, 2}, {0, 1, 2}, {}};
  for (const auto& axes : wrong) {
    check_refused([&] { transposed(whole, axes); },
                  {"a · output", "[2, 3]", "no permutation of its dimensions"});
  }
}

TEST_CASE("a tensor made of others is the first one's, computed in the coarsest precision") {
  trace::TensorEntry fine = make_entry("fine", {2});
  fine.order = 7;
  trace::TensorEntry coarse = make_entry("coarse", {2});
  coarse.computed_in = tensor::DType::kBFloat16;
  const ViewPtr joined = concatenated({view_of(fine), view_of(coarse)}, 0, 1);
  CHECK(joined->key == fine.key);
  CHECK(joined->dtype == tensor::DType::kFloat32);
  CHECK(joined->computed_in == tensor::DType::kBFloat16);
  CHECK(joined->order == 7);
  CHECK(stored_in(*joined) == std::vector<const trace::TensorEntry*>{&fine, &coarse});
}

TEST_CASE("joining what was split gives the whole back, and splitting what was joined the parts") {
  std::mt19937 random(1);
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 200; ++round) {
    Tensors t;
    const std::uint64_t groups = 1 + below(3);
    const std::uint64_t count = 2 + below(3);
    const std::uint64_t dim = below(2);
    std::vector<std::uint64_t> sizes;
    std::vector<ViewPtr> parts;
    for (std::uint64_t p = 0; p < count; ++p) {
      sizes.push_back(groups * below(3));
      tensor::Shape shape(2, 1 + round % 3);
      shape[dim] = sizes.back();
      parts.push_back(t.counted(shape, 100 * static_cast<double>(p)));
    }
    const ViewPtr whole = concatenated(parts, dim, groups);
    const auto again = split(whole, dim, count, sizes, groups);
    for (std::uint64_t p = 0; p < count; ++p) {
      CAPTURE(round, p);
      CHECK(again[p]->shape == parts[p]->shape);
      CHECK(t.read(again[p]) == t.read(parts[p]));
    }
    CHECK(t.read(concatenated(again, dim, groups)) == t.read(whole));
  }
}

}  // namespace
}  // namespace ttrace::layout::view_ops_test
