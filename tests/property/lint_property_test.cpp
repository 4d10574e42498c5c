// Random traces with a row, a copy of an index or a dataset that is not as it should be: lint
// tells.
#include <algorithm>

#include "base/error.h"
#include "engine/lint_trace.h"
#include "property/dealt_tensor.h"
#include "property/message_place.h"
#include "property/random_defect.h"

namespace ttrace::engine::lint_property_test {
namespace {

using base::concat;
using test::DealtTensor;
using test::Doubles;
using test::MemoryTrace;
using test::NaiveHolder;
using test::Random;
using test::RandomTensor;

const trace::Rows* rows_of(const trace::TensorEntry& entry) {
  for (const auto& [axis, placement] : entry.placements) {
    if (const auto* rows = std::get_if<trace::Rows>(&placement)) return rows;
  }
  return nullptr;
}

// A random tensor placed by rows that has elements; what seems a loop ends after a few tries.
RandomTensor random_rows_tensor(Random& random, trace::Mesh& mesh) {
  while (true) {
    mesh = test::random_mesh(random);
    RandomTensor tensor = test::random_tensor(random, mesh, test::random_shape(random));
    if (tensor.index && tensor.elements() > 0) return tensor;
  }
}

// The numbers with a row dropped, given twice, or beyond the dimension.
void change_rows(Random& random, RandomTensor& tensor) {
  const std::uint64_t extent = tensor.entry.shape[rows_of(tensor.entry)->dim];
  std::int64_t& number = tensor.numbers[random.between(0, tensor.numbers.size() - 1)];
  switch (random.between(0, 2)) {
    case 0:
      number = -1;
      break;
    case 1:
      number = static_cast<std::int64_t>(random.between(0, extent - 1));
      break;
    default:
      number = static_cast<std::int64_t>(extent + random.between(0, 2));
  }
}

// Whether the first row that `finding` tells is beyond the tensor or not held once.
bool tells_wrong_row(const std::string& finding, const RandomTensor& tensor,
                     const test::NaiveDeal& deal) {
  const auto told = test::numbers_after(finding, "row ");
  if (told.empty()) return false;
  const std::uint64_t dim = rows_of(tensor.entry)->dim;
  const std::uint64_t extent = tensor.entry.shape[dim];
  if (told[0] >= extent) {
    const auto& numbers = tensor.numbers;
    return std::find(numbers.begin(), numbers.end(), static_cast<std::int64_t>(told[0])) !=
           numbers.end();
  }
  const std::vector<int> times = test::times_held(deal, tensor.elements());
  const tensor::Box whole = tensor::whole(tensor.entry.shape);
  for (std::uint64_t i = 0; i < times.size(); ++i) {
    if (tensor::coordinates(whole, i)[dim] == told[0] && times[i] == 1) return false;
  }
  return true;
}

TEST_CASE("a row that is dropped, doubled or beyond the tensor is told by its number") {
  test::for_seeds(2000, [](Random& random) {
    trace::Mesh mesh;
    RandomTensor tensor = random_rows_tensor(random, mesh);
    do {
      change_rows(random, tensor);
    } while (test::is_sound(tensor, mesh));
    MemoryTrace trace(mesh);
    const DealtTensor dealt = test::deal_into(trace, random, tensor);
    const LintResult result = lint_trace(trace, {});
    std::string problem = "nothing is told";
    if (!result.findings.empty()) {
      const std::string& finding = result.findings[0];
      problem = tells_wrong_row(finding, dealt.tensor, dealt.deal)
                    ? ""
                    : concat("no row that is wrong: ", finding);
    }
    test::check_case(problem, mesh, dealt.tensor);
  });
}

// Two holders of the same elements, or nothing.
std::optional<std::pair<NaiveHolder, NaiveHolder>> two_copies(const test::NaiveDeal& deal) {
  for (const NaiveHolder& first : deal.holders) {
    for (const NaiveHolder& second : deal.holders) {
      const bool same = first.block == second.block && first.rank != second.rank;
      if (same && std::any_of(first.dataset.elements.begin(), first.dataset.elements.end(),
                              [](std::int64_t element) { return element >= 0; })) {
        return std::pair(first, second);
      }
    }
  }
  return std::nullopt;
}

TEST_CASE("copies of an index that differ are told with a rank") {
  std::uint64_t found = 0;
  test::for_seeds(1000, [&](Random& random) {
    trace::Mesh mesh;
    const RandomTensor tensor = random_rows_tensor(random, mesh);
    MemoryTrace trace(mesh);
    const DealtTensor dealt = test::deal_into(trace, random, tensor);
    const auto copies = two_copies(dealt.deal);
    if (!copies) return;
    ++found;
    const NaiveHolder& changed = random.chance(0.5) ? copies->first : copies->second;
    std::vector<std::int64_t> numbers = tensor.rows(mesh)[changed.linear];
    std::int64_t& number = numbers[random.between(0, numbers.size() - 1)];
    number = number < 0 ? 0 : -1;
    trace.put_bits(tensor.index->key, changed.rank, tensor.index->dtype, {numbers.size()},
                   test::encode(tensor.index->dtype, Doubles(numbers.begin(), numbers.end())));
    const LintResult result = lint_trace(trace, {});
    std::string problem = "nothing is told";
    if (!result.findings.empty()) {
      const bool named = !test::numbers_after(result.findings[0], "rank ").empty() ||
                         !test::numbers_after(result.findings[0], "ranks ").empty() ||
                         !test::numbers_after(result.findings[0], "row ").empty();
      problem = named ? "" : result.findings[0];
    }
    test::check_case(problem, mesh, dealt.tensor);
  });
  CHECK(found > 300);
}

TEST_CASE("a dataset whose shape or type does not fit is told with its file") {
  test::for_seeds(2000, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    MemoryTrace trace(mesh);
    const DealtTensor dealt = test::deal_into(
        trace, random, test::random_tensor(random, mesh, test::random_shape(random)));
    std::string problem;
    const LintResult before = lint_trace(trace, {});
    if (!before.findings.empty()) problem = "told without cause: " + before.findings[0];
    std::vector<const NaiveHolder*> holders;  // of elements
    for (const NaiveHolder& holder : dealt.deal.holders) {
      const auto& elements = holder.dataset.elements;
      const bool any = std::any_of(elements.begin(), elements.end(), [](auto e) { return e >= 0; });
      if (any) holders.push_back(&holder);
    }
    if (!holders.empty() && problem.empty()) {
      const NaiveHolder& holder = *holders[random.between(0, holders.size() - 1)];
      tensor::Shape shape = holder.dataset.shape;
      auto dtype = dealt.tensor.entry.dtype;
      if (shape.empty() || random.chance(0.2)) {
        dtype = tensor::DType::kFloat32;
      } else {
        std::uint64_t& extent = shape[random.between(0, shape.size() - 1)];
        extent = random.chance(0.5) ? extent + 1 : extent - 1;
      }
      const std::size_t count = *tensor::element_count(shape);
      trace.put_bits(dealt.tensor.entry.key, holder.rank, dtype, shape,
                     test::encode(dtype, Doubles(count)));
      const LintResult after = lint_trace(trace, {});
      const std::string file = concat(trace.rank_file(holder.rank), ": ");
      if (after.findings.size() != 1 || after.findings[0].find(file) != 0) {
        problem = concat("rank ", holder.rank, "'s dataset is not told once");
      }
    }
    test::check_case(problem, mesh, dealt.tensor);
  });
}

}  // namespace
}  // namespace ttrace::engine::lint_property_test
