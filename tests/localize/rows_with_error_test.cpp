#include "localize/describe_difference.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize {
namespace {

using test::make_entry;
using test::MemoryTrace;

std::string words(tensor::Shape shape, const std::vector<std::size_t>& wrong) {
  const auto entry = make_entry("a", std::move(shape));
  std::vector<double> values(*tensor::element_count(entry.shape), 1.0);
  MemoryTrace reference;
  MemoryTrace candidate;
  reference.put(entry, values);
  for (const std::size_t i : wrong) values[i] += 1;
  candidate.put(entry, values);
  return rows_with_error({&reference, &reference.manifest().tensors[0]},
                         {&candidate, &candidate.manifest().tensors[0]});
}

TEST_CASE("rows and columns that hold the error are named") {
  CHECK(words({8, 4}, {12, 13, 14, 15}) == "100 % of the squared error in row 3 of 8");
  CHECK(words({8, 4}, {2, 6, 10, 14, 18}) == "100 % of the squared error in column 2 of 4");
  CHECK(words({8, 8}, {16, 24}) ==
        "100 % of the squared error in rows 2 to 3 of 8; 100 % of the squared error in column 0 of "
        "8");
}

TEST_CASE("of more or fewer dimensions the indices are named with theirs") {
  CHECK(words({16}, {3, 4, 9}) ==
        "100 % of the squared error in indices 3 to 4, 9 of 16 along dimension 0");
  CHECK(words({2, 8, 2}, {4, 5, 20}) ==
        "100 % of the squared error in index 2 of 8 along dimension 1");
}

TEST_CASE("many places are counted") {
  CHECK(words({64}, {1, 5, 9, 13, 20}) ==
        "100 % of the squared error in indices 1, 5, 9 and 2 more places of 64 along dimension 0");
}

TEST_CASE("an error that is everywhere, nowhere, or among few indices stands out nowhere") {
  CHECK(words({4}, {0, 1, 2, 3}).empty());
  CHECK(words({8}, {}).empty());
  CHECK(words({3, 2}, {1}).empty());
  CHECK(words({}, {0}).empty());
  CHECK(words({0, 8}, {}).empty());
}

TEST_CASE("most of the error is enough") {
  const auto entry = make_entry("a", {8, 2});
  std::vector<double> values(16, 1.0);
  MemoryTrace reference;
  MemoryTrace candidate;
  reference.put(entry, values);
  for (double& value : values) value += 0.01;
  values[4] += 1;
  candidate.put(entry, values);
  CHECK(rows_with_error({&reference, &reference.manifest().tensors[0]},
                        {&candidate, &candidate.manifest().tensors[0]}) ==
        "99.9 % of the squared error in row 2 of 8");
}

}  // namespace
}  // namespace ttrace::localize
