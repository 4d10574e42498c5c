#include "base/refusal.h"
#include "comparison/pairing.h"
#include "layout/view.h"
#include "support/memory_trace.h"

namespace ttrace::engine::pairing_microbatches_test {
namespace {

using How = trace::Microbatches::How;
using test::check_refused;
using test::MemoryTrace;
using trace::TensorEntry;
using Numbers = std::vector<std::uint64_t>;

TensorEntry whole(const std::string& name, tensor::Shape shape, How how, Numbers numbers,
                  std::uint64_t dim = 0) {
  TensorEntry entry = test::make_entry(name, std::move(shape));
  entry.microbatches = trace::Microbatches{how, dim, std::move(numbers)};
  return entry;
}

TensorEntry part(const std::string& name, tensor::Shape shape, std::uint64_t number) {
  TensorEntry entry = test::make_entry(name, std::move(shape));
  entry.key.microbatch = number;
  return entry;
}

MemoryTrace trace_of(std::vector<TensorEntry> entries) {
  MemoryTrace made;
  made.edit().tensors = std::move(entries);
  return made;
}

comparison::Side side_of(const MemoryTrace& trace) {
  return {&trace, comparison::tensors_of(trace.manifest())};
}

std::vector<comparison::Pair> pair(const MemoryTrace& reference, const MemoryTrace& candidate,
                                   const std::vector<const MemoryTrace*>& noise = {}) {
  std::vector<comparison::Side> runs;
  for (const MemoryTrace* run : noise) runs.push_back(side_of(*run));
  return comparison::pair_traces(side_of(reference), side_of(candidate), runs);
}

Numbers microbatches_in(const layout::ViewPtr& view) {
  Numbers numbers;
  for (const TensorEntry* entry : layout::stored_in(*view)) {
    numbers.push_back(entry->key.microbatch.value_or(99));
  }
  return numbers;
}

TEST_CASE("one big batch meets its micro-batches, whichever side has it") {
  const MemoryTrace big = trace_of({whole("a", {6, 2}, How::kShard, {0, 2, 1})});
  const MemoryTrace small =
      trace_of({part("a", {1, 2}, 0), part("a", {2, 2}, 1), part("a", {3, 2}, 2)});
  const auto pairs = pair(big, small);
  REQUIRE(pairs.size() == 1);
  CHECK_FALSE(pairs[0].key.microbatch);
  CHECK(pairs[0].candidate->shape == tensor::Shape{6, 2});
  CHECK(microbatches_in(pairs[0].candidate) == Numbers{0, 2, 1});
  CHECK(comparison::incomparable_reason(pairs[0]).empty());
  const auto turned = pair(small, big);
  REQUIRE(turned.size() == 1);
  CHECK(microbatches_in(turned[0].reference) == Numbers{0, 2, 1});
  CHECK_FALSE(turned[0].reference->key.microbatch);
}

TEST_CASE("sums and means have the parts' shape and their own factor") {
  const MemoryTrace parts = trace_of({part("a", {2}, 0), part("a", {2}, 1)});
  for (const auto& [how, factor] : {std::pair(How::kSum, 1.0), std::pair(How::kMean, 0.5)}) {
    const auto pairs = pair(trace_of({whole("a", {2}, how, {0, 1})}), parts);
    REQUIRE(pairs.size() == 1);
    const auto& sum = std::get<layout::Sum>(pairs[0].candidate->how);
    CHECK(sum.factor == factor);
    CHECK(sum.terms.size() == 2);
    CHECK(pairs[0].candidate->shape == tensor::Shape{2});
  }
}

TEST_CASE("only parts of the same name, kind, step, call and copy belong together") {
  std::vector<TensorEntry> others(5, part("a", {2}, 1));
  others[0].key.step = 1;
  others[1].key.kind = trace::Kind::kGradOutput;
  others[2].key.call = 1;
  others[3].key.name = "b";
  others[4].key.copy = 1;
  for (const TensorEntry& other : others) {
    const auto pairs = pair(trace_of({whole("a", {4}, How::kShard, {0, 1})}),
                            trace_of({part("a", {2}, 0), other}));
    CHECK(pairs.size() == 3);
  }
}

TEST_CASE("a missing part leaves the whole without a partner, and the reason names it") {
  const auto pairs = pair(trace_of({whole("a", {8}, How::kShard, {0, 1, 2, 3})}),
                          trace_of({part("a", {2}, 0), part("a", {2}, 2)}));
  REQUIRE(pairs.size() == 3);
  CHECK(pairs[0].candidate == nullptr);
  CHECK(*pairs[0].note ==
        "it is all of micro-batches 0, 1, 2, 3, and the other side lacks micro-batch 1, 3");
  CHECK(pairs[1].reference == nullptr);
  CHECK(pairs[2].reference == nullptr);
}

TEST_CASE("where there is no part at all there is nothing to say") {
  const auto pairs = pair(trace_of({whole("a", {8}, How::kSum, {0, 1})}), trace_of({}));
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].note->empty());
}

TEST_CASE("parts that do not fit together are told, with both shapes") {
  const auto note = [](How how, const TensorEntry& first, const TensorEntry& second) {
    const MemoryTrace reference = trace_of({whole("a", {4, 2}, how, {0, 1}, 0)});
    const MemoryTrace candidate = trace_of({first, second});
    const auto pairs = pair(reference, candidate);
    CHECK(pairs.size() == 3);
    CHECK(pairs[0].candidate == nullptr);
    return *pairs[0].note;
  };
  CHECK(note(How::kShard, part("a", {2, 2}, 0), part("a", {2, 3}, 1)) ==
        "a · output · step 0 · mb 1 is [2, 3], a · output · step 0 · mb 0 is [2, 2]; they cannot "
        "be joined along dimension 0");
  CHECK(note(How::kSum, part("a", {4, 2}, 0), part("a", {2, 2}, 1)) ==
        "a · output · step 0 · mb 1 is [2, 2], a · output · step 0 · mb 0 is [4, 2]; they cannot "
        "be added");
  CHECK(note(How::kShard, part("a", {}, 0), part("a", {}, 1)).find("along dimension 0") !=
        std::string::npos);
}

TEST_CASE("parts of another extent than the whole are held against it and do not fit") {
  const MemoryTrace reference = trace_of({whole("a", {5}, How::kShard, {0, 1})});
  const MemoryTrace candidate = trace_of({part("a", {2}, 0), part("a", {2}, 1)});
  const auto pairs = pair(reference, candidate);
  REQUIRE(pairs.size() == 1);
  CHECK(comparison::incomparable_reason(pairs[0]) == "reference [5] f32, candidate [4] f32");
}

TEST_CASE("wholes of other micro-batches cannot be compared") {
  const auto reason = [](const TensorEntry& reference, const TensorEntry& candidate) {
    const MemoryTrace a = trace_of({reference});
    const MemoryTrace b = trace_of({candidate});
    const auto pairs = pair(a, b);
    CHECK(pairs.size() == 1);
    CHECK(comparison::incomparable_reason(pairs[0]).empty());
    return comparison::microbatches_apart(pairs[0]);
  };
  CHECK(reason(whole("a", {4}, How::kSum, {0, 1}), whole("a", {4}, How::kSum, {0, 1})).empty());
  CHECK(reason(whole("a", {4}, How::kSum, {0, 1}), whole("a", {4}, How::kSum, {0, 1, 2})) ==
        "the reference is the sum of micro-batches 0, 1, the candidate the sum of micro-batches 0, "
        "1, 2");
  CHECK(reason(whole("a", {4}, How::kMean, {0, 1}), whole("a", {4}, How::kShard, {0, 1})) ==
        "the reference is the mean of micro-batches 0, 1, the candidate all of micro-batches 0, 1");
  CHECK(reason(whole("a", {4}, How::kSum, {0, 1}), test::make_entry("a", {4})).empty());
}

TEST_CASE("parts with partners of their own are compared with those as well") {
  const MemoryTrace reference = trace_of({whole("a", {4}, How::kShard, {0, 1}), part("a", {2}, 1)});
  const MemoryTrace candidate = trace_of({part("a", {2}, 0), part("a", {2}, 1)});
  const auto pairs = pair(reference, candidate);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].candidate != nullptr);
  CHECK(pairs[1].key.microbatch == 1);
  CHECK(pairs[1].reference != nullptr);
  CHECK(pairs[1].candidate != nullptr);
}

TEST_CASE("a whole with a partner leaves the other side's parts alone") {
  const MemoryTrace reference = trace_of({whole("a", {4}, How::kShard, {0, 1})});
  const MemoryTrace candidate =
      trace_of({whole("a", {4}, How::kShard, {0, 1}), part("a", {2}, 0), part("a", {2}, 1)});
  const auto pairs = pair(reference, candidate);
  REQUIRE(pairs.size() == 3);
  CHECK(std::holds_alternative<layout::Stored>(pairs[0].candidate->how));
}

TEST_CASE("noise runs may have the whole or the parts") {
  const MemoryTrace big = trace_of({whole("a", {4}, How::kShard, {0, 1})});
  const MemoryTrace small = trace_of({part("a", {2}, 0), part("a", {2}, 1)});
  const MemoryTrace half = trace_of({part("a", {2}, 0)});
  const auto of_big = pair(big, small, {&big, &small, &half});
  REQUIRE(of_big.size() == 1);
  CHECK(of_big[0].noise.size() == 2);
  CHECK(of_big[0].noise[1].view->shape == tensor::Shape{4});
  const auto of_small = pair(small, big, {&small, &half});
  REQUIRE(of_small.size() == 1);
  CHECK(of_small[0].noise.size() == 1);
}

TEST_CASE("a noise run with other parts than the reference is no run of it") {
  const MemoryTrace big = trace_of({whole("a", {4}, How::kShard, {0, 1})});
  const MemoryTrace other = trace_of({part("a", {2}, 0), part("a", {3}, 1)});
  check_refused([&] { pair(big, big, {&other}); },
                {"[5] f32 in this noise run, [4] f32 in the reference"});
}

TEST_CASE("a further copy of a tied parameter meets the reference's parts too") {
  TensorEntry copy = whole("w", {2}, How::kSum, {0, 1});
  copy.key.copy = 1;
  const auto pairs = pair(trace_of({part("w", {2}, 0), part("w", {2}, 1)}),
                          trace_of({whole("w", {2}, How::kSum, {0, 1}), copy}));
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[1].key.copy == 1);
  CHECK(pairs[1].reference != nullptr);
}

TEST_CASE("the keys of a whole's parts are in its order") {
  const TensorEntry entry = whole("a", {4}, How::kMean, {3, 1});
  const auto keys = layout::part_keys(*layout::view_of(entry));
  REQUIRE(keys.size() == 2);
  CHECK(keys[0] == part("a", {4}, 3).key);
  CHECK(keys[1] == part("a", {4}, 1).key);
}

}  // namespace
}  // namespace ttrace::engine::pairing_microbatches_test
