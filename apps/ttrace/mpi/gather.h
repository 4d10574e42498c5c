// The C interface of the MPI module, which is loaded on demand. Only the module uses MPI.
#pragma once

extern "C" {

// The version of ttrace that the module was built with. Other versions must not use it.
const char* ttrace_mpi_version();

// Sends the text of every rank to rank 0, which passes them to `take` in the order of the ranks.
// Every rank must call it. Initializes and finalizes MPI, so it can be called only once. Returns 0,
// or another number after writing the reason to `error` (of `error_bytes` ≥ 1).
int ttrace_mpi_gather(const char* mine, unsigned long long bytes,
                      void (*take)(void* context, int rank, const char* text,
                                   unsigned long long bytes),
                      void* context, char* error, unsigned long long error_bytes);
}
