#include <cstdlib>
#include <fstream>
#include <sstream>

#include "answer/answer_json.h"
#include "answer/schema_maker.h"
#include "support/catch.h"

namespace ttrace::answer::answer_schema_test {
namespace {

std::string schema_file() { return std::string(TTRACE_SOURCE_DIR) + "/schemas/answer.schema.json"; }

// With TTRACE_WRITE_SCHEMAS in the environment it writes the file.
TEST_CASE("the schema of answers is that of their members") {
  const std::string made = test::SchemaMaker().answer(answer::kAnswerSchema).dump(1) + "\n";
  if (std::getenv("TTRACE_WRITE_SCHEMAS") != nullptr) std::ofstream(schema_file()) << made;
  std::stringstream kept;
  kept << std::ifstream(schema_file()).rdbuf();
  CHECK(kept.str() == made);
}

}  // namespace
}  // namespace ttrace::answer::answer_schema_test
