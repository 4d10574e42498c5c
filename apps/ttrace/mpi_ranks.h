// ttrace as one of several processes that mpirun has started. The MPI library itself is behind a
// module that is loaded when it is needed: mpi/gather.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ttrace::app {

struct MpiRank {
  std::uint64_t rank = 0;
  std::uint64_t size = 1;
};

// What the launcher says in the environment (Open MPI, MPICH and those that speak PMI); nothing for
// a process that is alone.
std::optional<MpiRank> mpi_rank();

// "ttrace_mpi.so of this build", or why there is none, for people.
std::string describe_mpi_module();

class MpiModule {
 public:
  // Throws an input error if there is no module beside the program, or if it is of another version.
  MpiModule();

  // Called by all ranks, once: the texts of all on rank 0, nothing on the others. Throws an input
  // error if MPI fails.
  std::vector<std::string> gathered(const std::string& mine) const;

 private:
  void* library_;  // never closed: MPI leaves threads and handlers behind
};

}  // namespace ttrace::app
