// Running as one of several processes that mpirun has started. Only a module that is loaded on
// demand (mpi/gather.cpp) uses the MPI library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The C interface of the module.
extern "C" {

// The version of ttrace that the module was built with. Other versions must not use it.
[[gnu::visibility("default")]] const char* ttrace_mpi_version();

// Sends the text of every rank to rank 0, which passes them to `take` in the order of the ranks.
// Every rank must call it. Initializes and finalizes MPI, so it can be called only once. Returns 0,
// or another number after writing the reason to `error` (of `error_bytes` ≥ 1).
[[gnu::visibility("default")]] int ttrace_mpi_gather(
    const char* mine, unsigned long long bytes,
    void (*take)(void* context, int rank, const char* text, unsigned long long bytes),
    void* context, char* error, unsigned long long error_bytes);
}

namespace ttrace::app {

struct MpiRank {
  std::uint64_t rank = 0;
  std::uint64_t size = 1;
};

// The rank from the environment variables of the launcher (Open MPI, MPICH and others with PMI), or
// nothing for a single process.
std::optional<MpiRank> mpi_rank();

// The name of the module, or why there is none, for people.
std::string describe_mpi_module();

class MpiModule {
 public:
  // Loads the module. Throws an input error if it is missing or of another version.
  MpiModule();

  // Gathers the texts of all ranks. Every rank must call it, once. Returns all texts on rank 0 and
  // nothing on the others. Throws an input error if MPI fails.
  std::vector<std::string> gathered(const std::string& mine) const;

 private:
  void* library_;  // never closed: MPI leaves threads and handlers behind
};

}  // namespace ttrace::app
