// A library in place of cuBLAS that computes on the host, in descending order of k and fused, so
// that its bits are not those of the kernels. TTRACE_FAKE_CUBLAS says how it is broken: 0 not at
// all, 1 it lacks a function, 2 it cannot be started, 3 it refuses the pedantic mode, 4 its
// products fail.
#include <algorithm>
#include <cstdio>
#include <new>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotInitialised = 1;
constexpr int kInvalidValue = 7;
constexpr int kExecutionFailed = 13;

struct Handle {
  bool pedantic = false;
  void* stream = nullptr;
};

}  // namespace

#define TTRACE_EXPORT extern "C" [[gnu::visibility("default")]]

TTRACE_EXPORT int cublasCreate_v2(void** handle);
TTRACE_EXPORT int cublasDestroy_v2(void* handle);
TTRACE_EXPORT int cublasGetVersion_v2(void* handle, int* version);
TTRACE_EXPORT int cublasSetStream_v2(void* handle, void* stream);
TTRACE_EXPORT int cublasSetMathMode(void* handle, int mode);
TTRACE_EXPORT const char* cublasGetStatusString(int status);
TTRACE_EXPORT int cublasDgemm_v2(void* handle, int of_a, int of_b, int m, int n, int k,
                                 const double* alpha, const double* a, int lda, const double* b,
                                 int ldb, const double* beta, double* c, int ldc);

int cublasCreate_v2(void** handle) {
  if (TTRACE_FAKE_CUBLAS == 2) return kNotInitialised;
  *handle = new Handle;
  return kSuccess;
}

int cublasDestroy_v2(void* handle) {
  delete static_cast<Handle*>(handle);
  return kSuccess;
}

int cublasGetVersion_v2(void*, int* version) {
  *version = 130100;
  return kSuccess;
}

int cublasSetStream_v2(void* handle, void* stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return stream == nullptr ? kInvalidValue : kSuccess;
}

int cublasSetMathMode(void* handle, int mode) {
  if (TTRACE_FAKE_CUBLAS == 3) return kInvalidValue;
  static_cast<Handle*>(handle)->pedantic = mode == 2;
  return kSuccess;
}

const char* cublasGetStatusString(int status) {
  return status == kNotInitialised ? "the library was not initialized" : "it says no";
}

#if TTRACE_FAKE_CUBLAS != 1
int cublasDgemm_v2(void* handle, int of_a, int of_b, int m, int n, int k, const double* alpha,
                   const double* a, int lda, const double* b, int ldb, const double* beta,
                   double* c, int ldc) {
  const Handle& made = *static_cast<const Handle*>(handle);
  if (TTRACE_FAKE_CUBLAS == 4 || !made.pedantic || made.stream == nullptr) return kExecutionFailed;
  const auto fits = [](int how, int rows, int columns, int leading) {
    return leading >= std::max(1, how == 0 ? rows : columns);
  };
  if (!fits(of_a, m, k, lda) || !fits(of_b, k, n, ldb) || ldc < m) return kInvalidValue;
  const auto at = [](const double* matrix, int how, int leading, int row, int column) {
    return matrix[how == 0 ? row + long{leading} * column : column + long{leading} * row];
  };
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      double sum = 0;
      for (int s = k; s-- > 0;) {
        sum = __builtin_fma(at(a, of_a, lda, i, s), at(b, of_b, ldb, s, j), sum);
      }
      double& element = c[i + long{ldc} * j];
      element = *alpha * sum + (*beta == 0 ? 0 : *beta * element);
    }
  }
  return kSuccess;
}
#endif
