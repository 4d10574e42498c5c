#include "base/refusal.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/tensor_reader.h"
#include "support/memory_trace.h"

namespace ttrace::measure::view_reader_test {
namespace {

using layout::Mosaic;
using layout::Sum;
using layout::Transposed;
using layout::View;
using layout::ViewPtr;
using test::make_entry;
using test::MemoryTrace;
using Doubles = std::vector<double>;
using Ranks = std::vector<std::uint64_t>;

// Two tensors of [2, 3] over two ranks: a by rows, b by columns.
struct TwoTensors {
  explicit TwoTensors(tensor::DType dtype = tensor::DType::kFloat64)
      : trace(test::make_mesh({{"tp", 2}})) {
    entry_a = make_entry("a", {2, 3}, trace::Kind::kOutput, dtype);
    entry_a.placements = {{"tp", trace::Shard{0, std::nullopt}}};
    entry_b = make_entry("b", {2, 3}, trace::Kind::kOutput, dtype);
    entry_b.placements = {{"tp", trace::Shard{1, std::nullopt}}};
    trace.put(entry_a, {1, 2, 3, 4, 5, 6});
    trace.put(entry_b, {10, 20, 30, 40, 50, 60});
    a = layout::view_of(entry_a);
    b = layout::view_of(entry_b);
  }

  template <typename How>
  ViewPtr view(tensor::Shape shape, How how) const {
    View made = *a;
    made.shape = std::move(shape);
    made.how = std::move(how);
    return std::make_shared<View>(std::move(made));
  }

  MemoryTrace trace;
  trace::TensorEntry entry_a;
  trace::TensorEntry entry_b;
  ViewPtr a;
  ViewPtr b;
};

Doubles read(TensorReader& reader, const tensor::Box& box) {
  Doubles out(tensor::volume(box), -1);
  reader.read(box, out);
  return out;
}

// "[0:1, 0:3] = 0; ...": boxes and ranks.
std::string spelled(const std::vector<RankBoxes>& owners) {
  std::string text;
  for (const RankBoxes& owner : owners) {
    text += text.empty() ? "" : "; ";
    for (const tensor::Box& box : owner.boxes) text += tensor::to_string(box);
    text += " =";
    for (const std::uint64_t rank : owner.ranks) text += base::concat(" ", rank);
  }
  return text;
}

TEST_CASE("a stored tensor is read as itself") {
  const TwoTensors two;
  const auto reader = make_reader(two.trace, *two.b, Replicas::kFirstOnly);
  CHECK(read(*reader, {{0, 1}, {2, 2}}) == Doubles{20, 30, 50, 60});
  CHECK(spelled(reader->rank_boxes()) == "[0:2, 0:2] = 0; [0:2, 2:3] = 1");
  CHECK(reader->locate({1, 2})->rank == 1);
  CHECK(reader->locate({1, 2})->local == tensor::Shape{1, 0});
}

TEST_CASE("a mosaic is its tiles, and 0 where there is none") {
  const TwoTensors two;
  // Rows: b's second, nothing, a's columns 1 and 2 shifted to the left.
  const ViewPtr view = two.view(
      {4, 3}, Mosaic{{{{{0, 0}, {1, 3}}, two.b, {1, 0}}, {{{2, 0}, {2, 2}}, two.a, {0, 1}}}});
  const auto reader = make_reader(two.trace, *view, Replicas::kFirstOnly);
  CHECK(read(*reader, tensor::whole({4, 3})) == Doubles{40, 50, 60, 0, 0, 0, 2, 3, 0, 5, 6, 0});
  CHECK(read(*reader, {{0, 1}, {3, 1}}) == Doubles{50, 0, 3});
  CHECK(read(*reader, {{2, 0}, {1, 2}}) == Doubles{2, 3});
  CHECK(read(*reader, {{1, 0}, {1, 3}}) == Doubles{0, 0, 0});
  CHECK(spelled(reader->rank_boxes()) ==
        "[0:1, 0:2] = 0; [0:1, 2:3] = 1; [2:3, 0:2] = 0; [3:4, 0:2] = 1; "
        "[1:2, 0:3][2:4, 2:3] =");
  CHECK(reader->locate({3, 1})->rank == 1);
  CHECK(reader->locate({3, 1})->local == tensor::Shape{0, 2});
  CHECK(reader->locate({0, 2})->local == tensor::Shape{1, 0});
  CHECK_FALSE(reader->locate({1, 0}).has_value());
  CHECK_FALSE(reader->locate({3, 2}).has_value());
}

TEST_CASE("a sum is taken element by element, times its factor") {
  const TwoTensors two;
  const ViewPtr view = two.view({2, 3}, Sum{{two.a, two.b, two.a}, 0.5});
  const auto reader = make_reader(two.trace, *view, Replicas::kFirstOnly);
  CHECK(read(*reader, tensor::whole({2, 3})) == Doubles{6, 12, 18, 24, 30, 36});
  CHECK(read(*reader, {{1, 1}, {1, 2}}) == Doubles{30, 36});
  // They are cut in different ways: one owner of all ranks.
  CHECK(spelled(reader->rank_boxes()) == "[0:2, 0:3] = 0 1");
  CHECK_FALSE(reader->locate({1, 0}).has_value());  // it may be any of them
}

TEST_CASE("a sum of tensors that are cut alike keeps their owners") {
  const TwoTensors two;
  const ViewPtr view = two.view({2, 3}, Sum{{two.a, two.a}, 1});
  const auto reader = make_reader(two.trace, *view, Replicas::kFirstOnly);
  CHECK(spelled(reader->rank_boxes()) == "[0:1, 0:3] = 0; [1:2, 0:3] = 1");
}

TEST_CASE("a transposed tensor has its dimensions in the order of the axes") {
  const TwoTensors two;
  const ViewPtr view = two.view({3, 2}, Transposed{two.a, {1, 0}});
  const auto reader = make_reader(two.trace, *view, Replicas::kFirstOnly);
  CHECK(read(*reader, tensor::whole({3, 2})) == Doubles{1, 4, 2, 5, 3, 6});
  CHECK(read(*reader, {{1, 0}, {2, 1}}) == Doubles{2, 3});
  CHECK(spelled(reader->rank_boxes()) == "[0:3, 0:1] = 0; [0:3, 1:2] = 1");
  CHECK(reader->locate({2, 1})->rank == 1);
  CHECK(reader->locate({2, 1})->local == tensor::Shape{0, 2});
}

TEST_CASE("three dimensions are turned round, not only swapped") {
  MemoryTrace trace;
  const trace::TensorEntry entry =
      make_entry("w", {2, 1, 3}, trace::Kind::kOutput, tensor::DType::kFloat64);
  trace.put(entry, {0, 1, 2, 10, 11, 12});
  View view = *layout::view_of(entry);
  view.shape = {3, 2, 1};
  view.how = Transposed{layout::view_of(entry), {2, 0, 1}};
  const auto reader = make_reader(trace, view, Replicas::kFirstOnly);
  CHECK(read(*reader, tensor::whole({3, 2, 1})) == Doubles{0, 10, 1, 11, 2, 12});
  CHECK(reader->locate({2, 1, 0})->local == tensor::Shape{1, 0, 2});
}

TEST_CASE("integers stay exact through all of them and wrap as sums do") {
  TwoTensors two(tensor::DType::kInt64);
  const double large = 0x1p62;
  two.trace.put_shard(two.entry_a, 0, {large, 2, 3});
  const ViewPtr twice = two.view({2, 3}, Sum{{two.a, two.a, two.b}, 1});
  const ViewPtr turned = two.view({3, 2}, Transposed{twice, {1, 0}});
  const ViewPtr tiled = two.view({4, 2}, Mosaic{{{{{0, 0}, {3, 2}}, turned, {0, 0}}}});
  const auto reader = make_reader(two.trace, *tiled, Replicas::kFirstOnly);
  std::vector<std::int64_t> out(8, -1);
  reader->read_integers(tensor::whole({4, 2}), out);
  const std::int64_t wrapped = std::numeric_limits<std::int64_t>::min() + 10;
  CHECK(out == std::vector<std::int64_t>{wrapped, 48, 24, 60, 36, 72, 0, 0});
}

TEST_CASE("bytes and replicas are those of all that was read") {
  MemoryTrace trace(test::make_mesh({{"dp", 2}}));
  const trace::TensorEntry a = make_entry("a", {2});
  const trace::TensorEntry b = make_entry("b", {2});
  trace.put(a, {1, 2});
  trace.put(b, {3, 4});
  trace.put_shard(b, 1, {3, 5});
  View view = *layout::view_of(a);
  view.how = Sum{{layout::view_of(a), layout::view_of(b)}, 1};
  const auto reader = make_reader(trace, view, Replicas::all(cpu_backend()));
  CHECK(read(*reader, tensor::whole({2})) == Doubles{4, 6});
  CHECK(reader->bytes_read() == 32);
  int checks = 0;
  int different = 0;
  reader->for_each_check([&](const CheckPath&, const ReplicaCheck& check) {
    ++checks;
    different += check.all_equal() ? 0 : 1;
  });
  CHECK(checks == 2);
  CHECK(different == 1);
}

TEST_CASE("a part that cannot be read is refused when it is needed") {
  TwoTensors two;
  two.trace.lose_rank(1);
  const ViewPtr view = two.view({2, 3}, Mosaic{{{{{0, 0}, {2, 3}}, two.a, {0, 0}}}});
  const auto reader = make_reader(two.trace, *view, Replicas::kFirstOnly);
  CHECK(read(*reader, {{0, 0}, {1, 3}}) == Doubles{1, 2, 3});
  test::check_refused([&] { read(*reader, tensor::whole({2, 3})); }, {"rank lost"});
}

}  // namespace
}  // namespace ttrace::measure::view_reader_test
