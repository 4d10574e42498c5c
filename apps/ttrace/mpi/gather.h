// What the MPI module offers: a C interface, because the module is loaded when it is needed. It is
// the only code that knows MPI.
#pragma once

extern "C" {

// The version of ttrace that the module was built with; no other may use it.
const char* ttrace_mpi_version();

// Called by all ranks: brings the text of each to rank 0, where `take` gets them in the order of
// the ranks. Begins and ends MPI, so it can be called once. Returns 0, or another number with
// `error` (of `error_bytes`, at least one) saying why.
int ttrace_mpi_gather(const char* mine, unsigned long long bytes,
                      void (*take)(void* context, int rank, const char* text,
                                   unsigned long long bytes),
                      void* context, char* error, unsigned long long error_bytes);
}
