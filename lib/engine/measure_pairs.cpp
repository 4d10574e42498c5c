#include "engine/measure_pairs.h"

#include <algorithm>
#include <memory>

#include "base/parallel.h"
#include "compare/sections.h"
#include "engine/pair_work.h"

namespace ttrace::engine {
namespace {

using report::Result;

struct Task {
  std::size_t pair = 0;
  std::size_t section = 0;
  std::uint64_t elements = 0;
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

// Of all that is read to measure a part of `elements` of the pair.
std::uint64_t bytes_of(const Pair& pair, std::uint64_t elements) {
  const std::uint64_t reference = tensor::element_bytes(pair.reference->dtype);
  const std::uint64_t runs = pair.noise.size();
  return elements * (reference * (1 + runs + (runs > 0 ? 1 : 0)) +
                     tensor::element_bytes(pair.candidate->dtype));
}

void tell(base::Progress& progress, const Result& result) {
  if (!result.comparison) return;
  progress.measured(to_string(result.key), report::relative_error(result.comparison->measurement));
}

}  // namespace

bool is_to_be_measured(const Result& result) {
  return result.outcome == verdict::Outcome::kMatch && !result.comparison;
}

void measure_pairs(const MeasuredSides& sides, const std::vector<Pair>& pairs, unsigned threads,
                   std::vector<Result>& results, const WorkHooks& hooks) {
  const auto work_of = [&](std::size_t i) {
    return std::make_unique<PairWork>(sides, pairs[i], results[i].exact);
  };
  std::vector<Task> tasks;
  std::vector<Task> noise_tasks;
  std::vector<std::unique_ptr<PairWork>> works(pairs.size());
  for (const std::size_t i : in_order_of_files(pairs, results)) {
    if (hooks.progress != nullptr) {
      const tensor::Box all = tensor::whole(pairs[i].reference->shape);
      hooks.progress->expect(bytes_of(pairs[i], tensor::volume(all)));
    }
    const std::vector<tensor::Box> sections = compare::sections_of(pairs[i].reference->shape);
    for (std::size_t section = 0; section < sections.size(); ++section) {
      tasks.push_back({i, section, tensor::volume(sections[section])});
    }
    if (sections.size() == 1) continue;
    works[i] = work_of(i);
    for (std::size_t section = 0; section < sections.size(); ++section) {
      if (works[i]->has_noise_sections()) noise_tasks.push_back({i, section, 0});
    }
  }
  base::parallel_for(noise_tasks.size(), threads, [&](std::size_t t) {
    if (!hooks.stopped()) works[noise_tasks[t].pair]->measure_noise(noise_tasks[t].section);
  });
  base::parallel_for(tasks.size(), threads, [&](std::size_t t) {
    const auto [i, section, elements] = tasks[t];
    if (hooks.stopped()) return;
    // Of one section, and so one thread's own.
    if (!works[i]) works[i] = work_of(i);
    const bool last = works[i]->measure(section);
    if (hooks.progress != nullptr) hooks.progress->advance(bytes_of(pairs[i], elements));
    if (!last) return;
    works[i]->finish(results[i]);
    works[i].reset();
    if (hooks.progress != nullptr) tell(*hooks.progress, results[i]);
    if (hooks.finished) hooks.finished(i);
  });
}

}  // namespace ttrace::engine
