// What a comparison tells of how far it is.
#include <atomic>
#include <map>
#include <mutex>

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::progress_test {
namespace {

class Counted : public base::Progress {
 public:
  void expect(std::uint64_t bytes) override { expected += bytes; }
  void advance(std::uint64_t bytes) override { done += bytes; }
  void measured(const std::string& tensor, double relative_error) override {
    const std::lock_guard lock(mutex_);
    errors[tensor] = relative_error;
  }

  std::atomic<std::uint64_t> expected{0};
  std::atomic<std::uint64_t> done{0};
  std::map<std::string, double> errors;

 private:
  std::mutex mutex_;
};

TEST_CASE("all that is expected is done, and every tensor is told with its error") {
  test::MemoryTrace reference;
  test::MemoryTrace candidate(test::make_mesh({{"tp", 2}}));
  test::MemoryTrace noise;
  for (const char* name : {"a", "b", "c"}) {
    trace::TensorEntry entry = test::make_entry(name, {4});
    reference.put(entry, {1, 1, 1, 1});
    noise.put(entry, {1, 1, 1, 1});
    candidate.put(entry, std::vector<double>(4, name[0] == 'b' ? 1.5 : 1));
  }
  candidate.lose_rank(1);
  for (const unsigned threads : {1U, 3U}) {
    Counted progress;
    CompareOptions options;
    options.execution.threads = threads;
    options.progress = &progress;
    compare_traces(reference, candidate, {&noise}, options);
    // Four elements of the reference, of the noise run and of the candidate.
    const std::uint64_t element = tensor::element_bytes(test::make_entry("a", {4}).dtype);
    CHECK(progress.expected == 3 * 3 * 4 * element);
    CHECK(progress.done == progress.expected);
  }
}

TEST_CASE("the error told is that of the report") {
  test::MemoryTrace reference;
  test::MemoryTrace candidate;
  const trace::TensorEntry entry = test::make_entry("b", {4});
  reference.put(entry, {1, 1, 1, 1});
  candidate.put(entry, {1.5, 1.5, 1.5, 1.5});
  Counted progress;
  CompareOptions options;
  options.progress = &progress;
  compare_traces(reference, candidate, {}, options);
  CHECK(progress.errors == std::map<std::string, double>{{to_string(entry.key), 0.5}});
}

}  // namespace
}  // namespace ttrace::engine::progress_test
