#include "engine/measure_pairs.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "base/parallel.h"
#include "compare/sections.h"
#include "engine/pair_work.h"

namespace ttrace::engine {
namespace {

using report::Result;

struct Task {
  std::size_t pair = 0;
  std::size_t section = 0;
};

// In the order in which the reference was written, as far as its manifest tells: what is read one
// after the other then lies so in the files.
std::vector<std::size_t> in_order_of_files(const std::vector<Pair>& pairs,
                                           const std::vector<Result>& results) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (is_to_be_measured(results[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const trace::TensorKey& x = pairs[a].key;
    const trace::TensorKey& y = pairs[b].key;
    if (x.step != y.step) return x.step < y.step;
    return pairs[a].reference->order < pairs[b].reference->order;
  });
  return order;
}

}  // namespace

bool is_to_be_measured(const Result& result) {
  return result.outcome == verdict::Outcome::kMatch && !result.comparison;
}

void measure_pairs(const MeasuredSides& sides, const std::vector<Pair>& pairs, unsigned threads,
                   std::vector<Result>& results, const WorkHooks& hooks) {
  std::vector<Task> tasks;
  std::vector<std::unique_ptr<PairWork>> works(pairs.size());
  for (const std::size_t i : in_order_of_files(pairs, results)) {
    const std::size_t sections = compare::sections_of(pairs[i].reference->shape).size();
    for (std::size_t section = 0; section < sections; ++section) tasks.push_back({i, section});
  }
  std::vector<std::once_flag> begun(pairs.size());
  base::parallel_for(tasks.size(), threads, [&](std::size_t t) {
    const auto [i, section] = tasks[t];
    if (hooks.stopped()) return;
    std::call_once(begun[i], [&, pair = i] {
      works[pair] = std::make_unique<PairWork>(sides, pairs[pair], results[pair].exact);
    });
    if (!works[i]->measure(section)) return;
    works[i]->finish(results[i]);
    works[i].reset();
    if (hooks.finished) hooks.finished(i);
  });
}

}  // namespace ttrace::engine
