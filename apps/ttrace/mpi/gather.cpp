#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "mpi_ranks.h"

namespace {

// MPI counts in int.
constexpr unsigned long long kMostAtOnce = 1ULL << 30;
constexpr int kTag = 0;

void check(int code, const char* doing) {
  if (code == MPI_SUCCESS) return;
  std::string message(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, message.data(), &length);
  message.resize(static_cast<std::size_t>(std::max(length, 0)));
  throw std::runtime_error(std::string(doing) + ": " + message);
}

template <typename Bytes, typename Transfer>
void in_chunks(Bytes* bytes, unsigned long long count, Transfer transfer) {
  for (unsigned long long at = 0; at < count; at += kMostAtOnce) {
    transfer(bytes + at, static_cast<int>(std::min(count - at, kMostAtOnce)));
  }
}

void gather(const char* mine, unsigned long long bytes,
            void (*take)(void*, int, const char*, unsigned long long), void* context) {
  int rank = 0;
  int size = 0;
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "beginning");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "beginning");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "beginning");
  std::vector<unsigned long long> counts(static_cast<std::size_t>(size));
  check(MPI_Gather(&bytes, 1, MPI_UNSIGNED_LONG_LONG, counts.data(), 1, MPI_UNSIGNED_LONG_LONG, 0,
                   MPI_COMM_WORLD),
        "gathering sizes");
  if (rank != 0) {
    in_chunks(mine, bytes, [](const char* chunk, int count) {
      check(MPI_Send(chunk, count, MPI_BYTE, 0, kTag, MPI_COMM_WORLD), "sending");
    });
    return;
  }
  take(context, 0, mine, bytes);
  for (int from = 1; from < size; ++from) {
    std::string text(counts[static_cast<std::size_t>(from)], '\0');
    in_chunks(text.data(), text.size(), [from](char* chunk, int count) {
      check(MPI_Recv(chunk, count, MPI_BYTE, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            "receiving");
    });
    take(context, from, text.data(), text.size());
  }
}

}  // namespace

extern "C" {

const char* ttrace_mpi_version() { return TTRACE_VERSION; }

int ttrace_mpi_gather(const char* mine, unsigned long long bytes,
                      void (*take)(void* context, int rank, const char* text,
                                   unsigned long long bytes),
                      void* context, char* error, unsigned long long error_bytes) {
  try {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "beginning");
    gather(mine, bytes, take, context);
    check(MPI_Finalize(), "ending");
    return 0;
  } catch (const std::exception& problem) {
    std::snprintf(error, error_bytes, "%s", problem.what());
    return 1;
  }
}
}
