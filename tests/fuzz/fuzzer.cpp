// A fuzzer of one target, whose name is in TTRACE_FUZZ_TARGET. scripts/fuzz.sh runs it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz/targets.h"

namespace {

const ttrace::fuzz::Target& chosen() {
  const char* const name = std::getenv("TTRACE_FUZZ_TARGET");
  const ttrace::fuzz::Target* const found =
      name == nullptr ? nullptr : ttrace::fuzz::find_target(name);
  if (found != nullptr) return *found;
  std::fputs("TTRACE_FUZZ_TARGET must be one of", stderr);
  for (const ttrace::fuzz::Target& one : ttrace::fuzz::targets()) {
    std::fprintf(stderr, " %.*s", static_cast<int>(one.name.size()), one.name.data());
  }
  std::fputs("\n", stderr);
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const ttrace::fuzz::Target& target = chosen();
  read(target, {reinterpret_cast<const char*>(bytes), size});
  return 0;
}
