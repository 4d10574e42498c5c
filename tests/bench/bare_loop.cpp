// The least that comparing files takes: reads them in turn, band by band on several threads, and
// adds up differences and squares of the bytes taken as float32, as `ttrace compare` adds up pairs.
// Prints the seconds. What ttrace takes beyond it is its own.
//   ttrace_bare_loop THREADS REFERENCE CANDIDATE [NOISE...]
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "measure/cpu/kernel.h"

namespace ttrace {
namespace {

constexpr std::size_t kBand = std::size_t{1} << 18;  // bytes, as much as ttrace reads at once

struct File {
  int descriptor = -1;
  std::uint64_t bytes = 0;
};

File opened(const char* path) {
  File file;
  file.descriptor = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts {};
  if (file.descriptor < 0 || fstat(file.descriptor, &facts) != 0) {
    std::perror(path);
    std::exit(2);
  }
  file.bytes = static_cast<std::uint64_t>(facts.st_size);
  return file;
}

// The files of a trace, one after the other.
class Trace {
 public:
  explicit Trace(const std::string& names) {
    std::size_t at = 0;
    while (at <= names.size()) {
      const std::size_t stop = std::min(names.find(',', at), names.size());
      files_.push_back(opened(names.substr(at, stop - at).c_str()));
      bytes_ += files_.back().bytes;
      at = stop + 1;
    }
  }

  std::uint64_t bytes() const { return bytes_; }

  void read(std::uint64_t at, std::vector<std::byte>& band) const {
    std::size_t done = 0;
    for (const File& file : files_) {
      while (at < file.bytes && done < band.size()) {
        const std::size_t wanted = std::min<std::uint64_t>(band.size() - done, file.bytes - at);
        const ssize_t got =
            pread(file.descriptor, band.data() + done, wanted, static_cast<off_t>(at));
        if (got <= 0) std::exit(2);
        done += static_cast<std::size_t>(got);
        at += static_cast<std::uint64_t>(got);
      }
      if (done == band.size()) return;
      at -= file.bytes;
    }
  }

 private:
  std::vector<File> files_;
  std::uint64_t bytes_ = 0;
};

// Returns Σ (C - R)² of one band, of the reference against every other trace.
double add_band(const std::vector<Trace>& traces, std::uint64_t at, std::size_t bytes) {
  const measure::Kernel& kernel = *measure::usable_kernels().front();
  constexpr std::size_t kTile = measure::kTileElements * sizeof(float);
  thread_local std::vector<std::byte> reference;
  thread_local std::vector<std::byte> other;
  reference.resize(bytes);
  other.resize(bytes);
  double squares = 0;
  traces.front().read(at, reference);
  for (std::size_t t = 1; t < traces.size(); ++t) {
    traces[t].read(at, other);
    for (std::size_t tile = 0; tile < bytes; tile += kTile) {
      const std::size_t elements = std::min(kTile, bytes - tile) / sizeof(float);
      measure::TileSums sums;
      kernel.sum(measure::StoredType::kF32, reference.data() + tile, other.data() + tile, elements,
                 sums);
      squares += sums.d2;
    }
  }
  return squares;
}

int run(unsigned threads, const std::vector<const char*>& paths) {
  std::vector<Trace> traces;
  for (const char* path : paths) traces.emplace_back(path);
  std::uint64_t shared = traces.front().bytes();
  for (const Trace& trace : traces) shared = std::min(shared, trace.bytes());
  const auto start = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> next = 0;
  std::vector<double> squares(threads, 0);
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (std::uint64_t at = next.fetch_add(kBand); at < shared; at = next.fetch_add(kBand)) {
        squares[t] += add_band(traces, at, std::min<std::uint64_t>(kBand, shared - at));
      }
    });
  }
  for (std::thread& one : running) one.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  double total = 0;
  for (const double one : squares) total += one;
  std::printf("%.3f s, squares %g\n", seconds.count(), total);
  return 0;
}

}  // namespace
}  // namespace ttrace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: ttrace_bare_loop THREADS REFERENCE CANDIDATE [NOISE...]\n");
    return 2;
  }
  const unsigned threads = static_cast<unsigned>(std::max(1, std::atoi(argv[1])));
  return ttrace::run(threads, {argv + 2, argv + argc});
}
