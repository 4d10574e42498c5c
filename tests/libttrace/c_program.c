/* A program in C that uses libttrace as its users do: the header must be C, and every wrong request
 * must be answered with a sentence. Prints the first failure and exits with 1. */
#include "ttrace.h"

#include <stdio.h>
#include <string.h>

enum { MATCH = 0, DIVERGED = 1, UNUSABLE = 2, INCONCLUSIVE = 3 };

static int failures = 0;

/* Compares and checks the exit code and that the answer contains `expected`. */
static void expect(const char* what, const ttrace_comparison* comparison, int code,
                   const char* expected) {
  char* answer = NULL;
  const int got = ttrace_compare_device(comparison, &answer);
  if (got != code || answer == NULL || strstr(answer, expected) == NULL) {
    printf("%s: exit code %d instead of %d, answer %s\n", what, got, code, answer ? answer : "");
    ++failures;
  }
  ttrace_free(answer);
}

int main(void) {
  const uint64_t shape[2] = {2, 3};
  const float values[6] = {1, 2, 3, 4, 5, 6};
  const float same[6] = {1, 2, 3, 4, 5, 6};
  const float doubled[6] = {2, 4, 6, 8, 10, 12};
  ttrace_tensor reference = {"x", NULL, "float32", shape, 2, TTRACE_CPU, 0, values};
  ttrace_tensor candidate = reference;
  ttrace_comparison request = {TTRACE_INTERFACE_VERSION,       1, {"ref", &reference, 1, 0},
                               {"run", &candidate, 1, 0}, NULL, 0};

  candidate.data = same;
  expect("equal values", &request, MATCH, "\"verdict\": \"match\"");
  candidate.data = doubled;
  expect("twice the values", &request, DIVERGED, "\"name\":\"scaled\"");
  candidate.data = values;
  expect("the same memory", &request, INCONCLUSIVE, "\"verdict\": \"inconclusive\"");

  candidate = reference;
  candidate.data = NULL;
  expect("no data", &request, UNUSABLE, "the candidate: tensor 0 (\"x\"): its data is NULL");
  candidate = reference;
  candidate.dtype = "float31";
  expect("an unknown dtype", &request, UNUSABLE, "there is no dtype \"float31\"");
  candidate = reference;
  candidate.kind = "outputs";
  expect("an unknown kind", &request, UNUSABLE, "there is no kind \"outputs\"");
  candidate = reference;
  candidate.name = NULL;
  expect("no name", &request, UNUSABLE, "a name is empty");
  candidate = reference;
  candidate.device_type = TTRACE_CUDA;
  expect("a device", &request, UNUSABLE, "CUDA device 0");
  candidate.device_id = -1;
  expect("a device before the first", &request, UNUSABLE, "CUDA device -1; devices are counted");
  candidate.device_type = 99;
  expect("a device of another kind", &request, UNUSABLE, "it is on a device of type 99");
  candidate = reference;
  candidate.dims = 33;
  expect("too many dimensions", &request, UNUSABLE, "it has 33 dimensions");
  const uint64_t huge[2] = {UINT64_MAX, 2};
  candidate = reference;
  candidate.shape = huge;
  expect("an overflow", &request, UNUSABLE, "too many elements");
  candidate = reference;

  const ttrace_tensor twice[2] = {reference, reference};
  request.candidate.tensors = twice;
  request.candidate.count = 2;
  expect("one name twice", &request, UNUSABLE, "another one of this kind has the same name");
  request.candidate.tensors = NULL;
  expect("no tensors", &request, UNUSABLE, "`tensors` is NULL, and `count` is 2");
  request.candidate = (ttrace_run){"run", &candidate, 1, 0};

  request.interface_version = 0;
  expect("another interface", &request, UNUSABLE, "version 0 of the interface");
  expect("no request", NULL, UNUSABLE, "the request is NULL");
  if (ttrace_compare_device(NULL, NULL) != UNUSABLE) ++failures;
  if (strlen(ttrace_version()) == 0) ++failures;
  if (failures == 0) printf("libttrace %s answers as it should\n", ttrace_version());
  return failures == 0 ? 0 : 1;
}
