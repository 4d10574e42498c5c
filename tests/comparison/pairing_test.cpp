#include "comparison/pairing.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::pairing_test {
namespace {

using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

trace::TensorEntry entry_of(const std::string& name, std::uint64_t copy = 0,
                            tensor::Shape shape = {2},
                            tensor::DType dtype = tensor::DType::kFloat32) {
  trace::TensorEntry entry = make_entry(name, std::move(shape), Kind::kMainGrad, dtype);
  entry.key.copy = copy;
  return entry;
}

MemoryTrace trace_of(const std::vector<trace::TensorEntry>& entries) {
  MemoryTrace made;
  made.edit().tensors = entries;
  return made;
}

std::vector<Pair> pair(const MemoryTrace& reference, const MemoryTrace& candidate,
                       const std::vector<const MemoryTrace*>& noise = {}) {
  const auto side = [](const MemoryTrace& trace) {
    return Side{&trace, tensors_of(trace.manifest())};
  };
  std::vector<Side> runs;
  for (const MemoryTrace* run : noise) runs.push_back(side(*run));
  return pair_traces(side(reference), side(candidate), runs);
}

// The only stored tensor of a view.
const trace::TensorEntry* stored(const layout::ViewPtr& view) {
  return std::get<layout::Stored>(view->how).entry.get();
}

TEST_CASE("the union of the keys is paired, sorted, each key once") {
  const MemoryTrace reference = trace_of({entry_of("c"), entry_of("a")});
  const MemoryTrace candidate = trace_of({entry_of("b"), entry_of("c")});
  const auto pairs = pair(reference, candidate);
  REQUIRE(pairs.size() == 3);
  CHECK(pairs[0].key.name == "a");
  CHECK(pairs[0].candidate == nullptr);
  CHECK(pairs[1].key.name == "b");
  CHECK(pairs[1].reference == nullptr);
  CHECK(stored(pairs[2].reference) == &reference.manifest().tensors[0]);
  CHECK(stored(pairs[2].candidate) == &candidate.manifest().tensors[1]);
}

TEST_CASE("keys that differ in any part are different tensors") {
  std::vector<trace::TensorEntry> entries(6, entry_of("a"));
  entries[1].key.step = 1;
  entries[2].key.microbatch = 0;
  entries[3].key.kind = Kind::kParamGrad;
  entries[4].key.call = 1;
  entries[5].key.name = "a[1]";
  const MemoryTrace reference = trace_of(entries);
  const MemoryTrace candidate = trace_of({});
  CHECK(pair(reference, candidate).size() == 6);
}

TEST_CASE("a further copy of a tied parameter is held against the reference's only one") {
  const MemoryTrace reference = trace_of({entry_of("w")});
  const MemoryTrace candidate = trace_of({entry_of("w"), entry_of("w", 1), entry_of("v", 1)});
  const auto pairs = pair(reference, candidate, {&reference});
  REQUIRE(pairs.size() == 3);
  CHECK(pairs[0].key.name == "v");
  CHECK(pairs[0].reference == nullptr);
  CHECK(pairs[2].key.copy == 1);
  CHECK(stored(pairs[2].reference) == &reference.manifest().tensors[0]);
  CHECK(stored(pairs[2].candidate) == &candidate.manifest().tensors[1]);
  CHECK(pairs[2].noise.size() == 1);
}

TEST_CASE("a reference that has the copy itself keeps it") {
  const MemoryTrace reference = trace_of({entry_of("w"), entry_of("w", 1)});
  const MemoryTrace candidate = trace_of({entry_of("w", 1)});
  const auto pairs = pair(reference, candidate);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].candidate == nullptr);
  CHECK(stored(pairs[1].reference) == &reference.manifest().tensors[1]);
}

TEST_CASE("noise runs belong to the tensors they have") {
  const MemoryTrace reference = trace_of({entry_of("a"), entry_of("b")});
  const MemoryTrace first = trace_of({entry_of("a"), entry_of("b"), entry_of("z")});
  const MemoryTrace second = trace_of({entry_of("b")});
  const auto pairs = pair(reference, reference, {&first, &second});
  REQUIRE(pairs.size() == 2);
  REQUIRE(pairs[0].noise.size() == 1);
  CHECK(pairs[0].noise[0].source == &first);
  REQUIRE(pairs[1].noise.size() == 2);
  CHECK(stored(pairs[1].noise[1].view) == &second.manifest().tensors[0]);
}

TEST_CASE("a noise run of another shape or type is no run of this reference") {
  const MemoryTrace reference = trace_of({entry_of("a")});
  const auto refusal = [&reference](const MemoryTrace& noise) {
    try {
      pair(reference, reference, {&noise});
    } catch (const base::Error& error) {
      CHECK(error.kind() == base::ErrorKind::kInput);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string shape = refusal(trace_of({entry_of("a", 0, {3})}));
  CHECK(shape.find("[3] f32 in this noise run, [2] f32 in the reference") != std::string::npos);
  const std::string dtype = refusal(trace_of({entry_of("a", 0, {2}, tensor::DType::kFloat64)}));
  CHECK(dtype.find("[2] f64 in this noise run") != std::string::npos);
  CHECK(refusal(trace_of({entry_of("b", 0, {3})})).empty());
}

TEST_CASE("shapes must be equal and types of one class") {
  const auto reason = [](const trace::TensorEntry& reference, const trace::TensorEntry& candidate) {
    return incomparable_reason(
        {reference.key, layout::view_of(reference), layout::view_of(candidate), {}, {}});
  };
  using tensor::DType;
  const auto of = [](DType dtype) { return entry_of("a", 0, {2}, dtype); };
  CHECK(reason(of(DType::kFloat32), of(DType::kBFloat16)).empty());
  CHECK(reason(of(DType::kInt64), of(DType::kBool)).empty());
  CHECK(reason(of(DType::kFloat32), of(DType::kInt32)) == "reference [2] f32, candidate [2] i32");
  CHECK(reason(entry_of("a"), entry_of("a", 0, {2, 1})) ==
        "reference [2] f32, candidate [2, 1] f32");
}

trace::TensorEntry argument(const std::string& name,
                            std::optional<std::uint64_t> position = std::nullopt,
                            tensor::Shape shape = {2}) {
  trace::TensorEntry entry = make_entry(name, std::move(shape), Kind::kInput);
  entry.position = position;
  return entry;
}

TEST_CASE("an optional argument on one side is told, and shifts no other") {
  const MemoryTrace reference = trace_of({argument("a"), argument("a[cos]", 1)});
  const MemoryTrace candidate =
      trace_of({argument("a"), argument("a[mask]", 1), argument("a[cos]", 2)});
  const auto pairs = pair(reference, candidate);
  REQUIRE(pairs.size() == 3);
  CHECK(pairs[1].key.name == "a[cos]");
  CHECK(stored(pairs[1].candidate) == &candidate.manifest().tensors[2]);
  CHECK(pairs[2].key.name == "a[mask]");
  CHECK(pairs[2].reference == nullptr);
  CHECK(*pairs[2].note == "a ran in the reference without this argument");
  CHECK(*pair(candidate, reference)[2].note == "a ran in the candidate without this argument");
}

TEST_CASE("a module that did not run on one side at all lacks no argument there") {
  const auto pairs = pair(trace_of({argument("a")}), trace_of({argument("b")}));
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].note->empty());
  CHECK(pairs[1].note->empty());
}

}  // namespace
}  // namespace ttrace::comparison::pairing_test
