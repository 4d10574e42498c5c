#include "base/instruction_sets.h"

#include <fstream>
#include <sstream>
#include <string>

#include "support/catch.h"

#ifdef __x86_64__
TEST_CASE("instruction sets are those that the kernel of the system lists") {
  std::ifstream cpus("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpus, line) && line.rfind("flags", 0) != 0) {
  }
  if (line.empty()) return;  // no Linux
  const auto listed = [&](const std::string& wanted) {
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
      if (word == wanted) return true;
    }
    return false;
  };
  const ttrace::base::InstructionSets& found = ttrace::base::instruction_sets();
  const bool v3 =
      listed("avx2") && listed("bmi1") && listed("bmi2") && listed("f16c") && listed("fma");
  CHECK(found.v3 == v3);
  CHECK(found.v4 == (v3 && listed("avx512f") && listed("avx512bw") && listed("avx512cd") &&
                     listed("avx512dq") && listed("avx512vl")));
}
#endif
