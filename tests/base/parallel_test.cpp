#include "base/parallel.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace ttrace::base::parallel_test {
namespace {

TEST_CASE("parallel_for calls every index once") {
  for (const unsigned threads : {0U, 1U, 4U}) {
    for (const std::size_t count : {0U, 1U, 3U, 1000U}) {
      CAPTURE(threads, count);
      std::vector<std::atomic<int>> calls(count);
      parallel_for(count, threads, [&](std::size_t i) { ++calls.at(i); });
      std::size_t once = 0;
      for (const std::atomic<int>& n : calls) once += n == 1 ? 1 : 0;
      CHECK(once == count);
    }
  }
}

std::string thrown_by(std::size_t count, unsigned threads,
                      const std::function<void(std::size_t)>& work) {
  try {
    parallel_for(count, threads, work);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

TEST_CASE("parallel_for rethrows the exception of the smallest index") {
  for (const unsigned threads : {1U, 4U}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      CAPTURE(threads, repeat);
      const std::string thrown = thrown_by(100, threads, [](std::size_t i) {
        // The smallest is the slowest: being first in time must not matter.
        if (i == 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (i == 3 || i == 4 || i == 5 || i == 90) throw std::runtime_error(std::to_string(i));
      });
      CHECK(thrown == "3");
    }
  }
}

TEST_CASE("a later exception does not take the place of the smallest index's") {
  std::latch both(2);
  const std::string thrown = thrown_by(100, 4, [&both](std::size_t i) {
    if (i != 3 && i != 4) return;
    both.arrive_and_wait();
    if (i == 4) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    throw std::runtime_error(std::to_string(i));
  });
  CHECK(thrown == "3");
}

TEST_CASE("parallel_for stops taking work after an exception") {
  std::atomic<std::size_t> calls{0};
  CHECK(thrown_by(1000000, 1, [&](std::size_t i) {
          ++calls;
          if (i == 10) throw std::runtime_error("ten");
        }) == "ten");
  CHECK(calls == 11);
}

TEST_CASE("threads resolve to themselves or to the cores") {
  CHECK(resolve_threads(3) == 3);
  CHECK(resolve_threads(0) >= 1);
}

}  // namespace
}  // namespace ttrace::base::parallel_test
