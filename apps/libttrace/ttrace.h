/* Compares tensors that are in memory, with the statistics, tolerances and verdict of `ttrace
 * compare`. C99 and C++; link libttrace. ttrace_torch.compare_tensors is the same for Python. */
#ifndef TTRACE_H
#define TTRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TTRACE_INTERFACE_VERSION 1

#ifdef __GNUC__
#define TTRACE_API __attribute__((visibility("default")))
#else
#define TTRACE_API
#endif

/* The values of DLPack's DLDeviceType. */
enum {
  TTRACE_CPU = 1,
  TTRACE_CUDA = 2,
  TTRACE_CUDA_HOST = 3 /* pinned memory of the host */
};

/* Dense and row-major. The memory is read during the call and never written.
 *
 * TTRACE_CUDA: `data` is memory of CUDA device `device_id` (as cudaMalloc gives, or managed
 * memory). The library opens ttrace_cuda.so, which lies beside it or is named by
 * TTRACE_CUDA_MODULE, and its kernels read the values in place; the report is that of the same
 * values on the CPU, but for its member `environment`. Without noise runs, pairs of floating-point
 * tensors on one device are read in place. Copied to the CPU in parts are: integers, tensors that
 * are compared with noise runs, pairs on two devices, data that is not aligned to its elements,
 * tensors that differ, where their cause is looked for, and all of them if the device has no memory
 * left to work in or its kernels fail; `environment.remarks` then says how much. Values that
 * cannot be copied either, because the device is lost, make their tensor "unreadable".
 *
 * The library reads on streams of its own, which wait for no other stream. As in DLPack, where a
 * consumer names a stream that the producer must make safe, the caller sees to it that everything
 * that writes the values has ended: it synchronizes its stream, or the device, before the call.
 * When the call returns, nothing reads the values any more. The calling thread's current CUDA
 * device stays as it is. */
typedef struct ttrace_tensor {
  const char* name;      /* "layers.0.mlp": pairs the tensors of both sides */
  const char* kind;      /* "output", "main_grad", ...: schemas/trace-v2.md; NULL: "output" */
  const char* dtype;     /* "float32", "bfloat16", "float8_e4m3fn", "int64", ... */
  const uint64_t* shape; /* may be NULL if dims is 0 */
  uint32_t dims;         /* at most 32; 0 for a single number */
  int32_t device_type;
  int32_t device_id;
  const void* data; /* may be NULL if there are no elements */
} ttrace_tensor;

/* The tensors of one run. */
typedef struct ttrace_run {
  const char* label; /* for messages and the report */
  const ttrace_tensor* tensors;
  size_t count;
  uint64_t seed; /* of a perturbed run: each has its own; ignored elsewhere */
} ttrace_run;

typedef struct ttrace_comparison {
  uint32_t interface_version; /* TTRACE_INTERFACE_VERSION */
  uint32_t threads;           /* 0: one per core */
  ttrace_run reference;
  ttrace_run candidate;
  /* Runs of the reference whose first activation was multiplied by 1 + epsilon * u. Without any,
   * the fallback rule judges. */
  const ttrace_run* noise;
  size_t noise_count;
} ttrace_comparison;

/* Returns the exit code of `ttrace compare`: 0 match, 1 diverged, 2 the request is wrong, 3
 * inconclusive. Sets *answer to the JSON report (schemas/answer-v1.md), or after 2 to one sentence
 * with the reason; the caller gives it to ttrace_free. It is NULL if memory ran out. May be called
 * from several threads. */
TTRACE_API int ttrace_compare_device(const ttrace_comparison* comparison, char** answer);

TTRACE_API void ttrace_free(char* answer);

/* "0.1.0"; valid for ever. */
TTRACE_API const char* ttrace_version(void);

#ifdef __cplusplus
}
#endif

#endif
