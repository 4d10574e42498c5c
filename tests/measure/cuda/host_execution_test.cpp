// The layer that runs kernels on the host sees what is wrong with them.
#include "measure/cuda/host_execution.h"

#include <vector>

#include "measure/cuda/kernels/execution.h"
#include "support/catch.h"

namespace ttrace::test::host_execution_test {
namespace {

bool mentions(const Mistakes& mistakes, const std::string& text) {
  return !mistakes.empty() && mistakes.front().find(text) != std::string::npos;
}

// Every thread writes its own value and reads that of its neighbour.
template <typename Execution>
void rotate(Execution& execution, bool waits, std::vector<std::uint32_t>& out) {
  const auto values = execution.template shared<std::uint32_t, 64>();
  const std::uint32_t thread = execution.thread();
  values.store(thread, 10 * thread);
  if (waits) execution.sync();
  out[execution.block() * 64 + thread] = values.load((thread + 1) % 64);
}

TEST_CASE("a barrier makes what others wrote visible", "[cuda]") {
  std::vector<std::uint32_t> out(128);
  const Mistakes mistakes =
      run_grid(2, 64, [&](HostExecution& execution) { rotate(execution, true, out); });
  CHECK(mistakes == Mistakes());
  for (std::uint32_t i = 0; i < 128; ++i) CHECK(out[i] == 10 * ((i + 1) % 64));
}

TEST_CASE("a missing barrier is seen as a race", "[cuda]") {
  std::vector<std::uint32_t> out(64);
  const Mistakes mistakes =
      run_grid(1, 64, [&](HostExecution& execution) { rotate(execution, false, out); });
  REQUIRE_FALSE(mistakes.empty());
  // Threads run in order, so that thread 63 alone finds what its neighbour has written.
  bool race = false;
  for (const std::string& mistake : mistakes) {
    race = race || mistake ==
                       "race on shared value 0: thread 0 wrote it and thread 63 reads it with no "
                       "barrier in between";
  }
  CHECK(race);
}

TEST_CASE("a race that happens to give the right values is seen", "[cuda]") {
  // Thread t reads what thread t - 1 wrote before it, in the order of this layer.
  std::uint64_t sum = 0;
  const Mistakes mistakes = run_grid(1, 32, [&](HostExecution& execution) {
    const auto values = execution.shared<double, 32>();
    const std::uint32_t thread = execution.thread();
    values.store(thread, thread);
    if (thread > 0) sum += static_cast<std::uint64_t>(values.load(thread - 1));
  });
  CHECK(sum == 465);
  CHECK(mentions(mistakes, "race on shared value 0: thread 0 wrote it and thread 1 reads it"));
}

TEST_CASE("two writes and a write after a read are races too", "[cuda]") {
  const Mistakes two = run_grid(1, 32, [](HostExecution& execution) {
    execution.shared<double, 1>().store(0, execution.thread());
  });
  CHECK(mentions(two, "thread 0 wrote it and thread 1 writes it"));
  const Mistakes after = run_grid(1, 32, [](HostExecution& execution) {
    const auto value = execution.shared<double, 1>();
    if (execution.thread() == 31) value.store(0, 1);
    execution.sync();
    if (execution.thread() == 3) static_cast<void>(value.load(0));
    if (execution.thread() == 7) value.store(0, 2);
  });
  CHECK(mentions(after, "thread 3 read it and thread 7 writes it"));
}

TEST_CASE("a meeting of the warp orders its threads, but not those of others", "[cuda]") {
  const auto kernel = [](std::uint32_t reader) {
    return run_grid(1, 64, [reader](HostExecution& execution) {
      const auto value = execution.shared<double, 1>();
      if (execution.thread() == 0) value.store(0, 1);
      static_cast<void>(execution.from(1, 0));
      if (execution.thread() == reader) static_cast<void>(value.load(0));
    });
  };
  CHECK(kernel(31).empty());
  CHECK(mentions(kernel(32), "thread 0 wrote it and thread 32 reads it"));
}

TEST_CASE("shuffles give the value of another lane, one's own past the last", "[cuda]") {
  std::vector<std::uint64_t> down(64);
  std::vector<double> first(64);
  const Mistakes mistakes = run_grid(1, 64, [&](HostExecution& execution) {
    const std::uint32_t thread = execution.thread();
    down[thread] = execution.down(std::uint64_t{thread} << 40, 5);
    first[thread] = execution.from(thread + 0.5, 3);
  });
  CHECK(mistakes == Mistakes());
  for (std::uint32_t i = 0; i < 64; ++i) {
    CHECK(down[i] == std::uint64_t{i % 32 + 5 < 32 ? i + 5 : i} << 40);
    CHECK(first[i] == (i < 32 ? 3.5 : 35.5));
  }
}

TEST_CASE("threads that wait for others which never come are reported", "[cuda]") {
  const Mistakes shuffle = run_grid(1, 32, [](HostExecution& execution) {
    if (execution.thread() < 31) static_cast<void>(execution.down(1, 1));
  });
  CHECK(mentions(shuffle, "thread 0 of block 0 waits for its warp"));
  const Mistakes barrier = run_grid(1, 64, [](HostExecution& execution) {
    if (execution.thread() != 40) execution.sync();
  });
  CHECK(mentions(barrier, "thread 0 of block 0 waits for its block"));
}

TEST_CASE("shared memory has an end, and no values at first", "[cuda]") {
  const Mistakes past = run_grid(1, 32, [](HostExecution& execution) {
    execution.shared<double, 31>().store(execution.thread(), 0);
  });
  CHECK(mentions(past, "write of shared value 31 of 31"));
  const Mistakes unset = run_grid(1, 32, [](HostExecution& execution) {
    static_cast<void>(execution.shared<double, 32>().load(execution.thread()));
  });
  CHECK(mentions(unset, "read of shared value 0, which no thread has written"));
}

}  // namespace
}  // namespace ttrace::test::host_execution_test
