// The functions of ttrace.h. No exception leaves them.
#include "ttrace.h"

#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <new>
#include <string>
#include <vector>

#include "answer/answer_json.h"
#include "base/error.h"
#include "devices.h"
#include "engine/compare_traces.h"
#include "memory_run.h"
#include "report/to_answer/to_answer.h"

namespace ttrace::library {
namespace {

constexpr int kUnusable = 2;

// Copies to memory that ttrace_free releases; null if there is none.
char* copy_of(const std::string& text) {
  char* const copy = new (std::nothrow) char[text.size() + 1];
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

int compare(const ttrace_comparison& request, std::string& answer) {
  if (request.interface_version != TTRACE_INTERFACE_VERSION) {
    throw base::input_error("the caller was built for version ", request.interface_version,
                            " of the interface, this library has version ",
                            TTRACE_INTERFACE_VERSION, "; build both from the same sources");
  }
  if (request.noise_count > 0 && request.noise == nullptr) {
    throw base::input_error("`noise` is NULL, and `noise_count` is ", request.noise_count);
  }
  const Devices devices(request);
  const MemoryRun reference(request.reference, "the reference", false, devices);
  const MemoryRun candidate(request.candidate, "the candidate", false, devices);
  std::deque<MemoryRun> perturbed;
  std::vector<const trace::Source*> noise;
  for (std::size_t i = 0; i < request.noise_count; ++i) {
    perturbed.emplace_back(request.noise[i], base::concat("noise run ", i), true, devices);
    noise.push_back(&perturbed.back());
  }
  engine::CompareOptions options;
  options.execution.threads = request.threads;
  options.execution.backend = &devices.backend();
  comparison::CompareReport report = engine::compare_traces(reference, candidate, noise, options);
  report.environment.version = TTRACE_VERSION;
  answer = answer::json_of(report::to_answer(report));
  return answer::exit_code(report.verdict);
}

// CUDA has a current device per thread. Work on devices runs in a thread of its own, so that the
// caller's stays as it is.
int compare_in_suitable_thread(const ttrace_comparison& request, std::string& answer) {
  if (request.interface_version != TTRACE_INTERFACE_VERSION || !uses_devices(request)) {
    return compare(request, answer);
  }
  return std::async(std::launch::async, [&] { return compare(request, answer); }).get();
}

}  // namespace
}  // namespace ttrace::library

extern "C" {

int ttrace_compare_device(const ttrace_comparison* comparison, char** answer) {
  namespace base = ttrace::base;
  namespace library = ttrace::library;
  std::string text;
  int code = library::kUnusable;
  try {
    if (comparison == nullptr) throw base::input_error("the request is NULL");
    code = library::compare_in_suitable_thread(*comparison, text);
  } catch (const base::Error& error) {
    text = error.what();
  } catch (const std::bad_alloc&) {
    if (answer != nullptr) *answer = nullptr;
    return library::kUnusable;
  } catch (const std::exception& error) {
    text = base::internal_error(error.what()).what();
  }
  if (answer != nullptr) *answer = library::copy_of(text);
  return code;
}

void ttrace_free(char* answer) { delete[] answer; }

const char* ttrace_version(void) { return TTRACE_VERSION; }

}  // extern "C"
