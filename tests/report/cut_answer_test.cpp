#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "report/reported_comparison.h"
#include "report/sample_report.h"
#include "report/told_json.h"
#include "support/catch.h"

namespace ttrace::report::cut_answer_test {
namespace {

using nlohmann::json;

json whole() { return json::parse(test::json_text(test::diverged_report())); }

// An answer without its tensors or counts would say that nothing is wrong.
TEST_CASE("an answer that was cut is refused by the name of what it lacks") {
  for (const char* member :
       {"command", "verdict", "headline", "exit_code", "findings", "counts", "coverage", "results",
        "reference", "candidate", "groups", "suspects", "selection", "tolerance", "environment"}) {
    json cut = whole();
    cut.erase(member);
    CAPTURE(member);
    CHECK_THROWS_AS(answer::read_answer(cut.dump(), "cut.json"), base::InputError);
    if (std::string(member) == "environment" || std::string(member) == "findings") continue;
    cut[member] = nullptr;
    CHECK_THROWS_AS(answer::read_answer(cut.dump(), "cut.json"), base::InputError);
  }
  json other = whole();
  other["command"] = "guess";
  CHECK_THROWS_AS(answer::read_answer(other.dump(), "cut.json"), base::InputError);
  other = whole();
  other["coverage"].erase("computed");
  CHECK_THROWS_AS(answer::read_answer(other.dump(), "cut.json"), base::InputError);
}

TEST_CASE("a time that no whole number holds is refused") {
  for (const json& time : {json(1e300), json("nan"), json(0x1p63)}) {
    json edited = whole();
    edited["environment"]["traces"]["reference"]["modified"] = time;
    CHECK_THROWS_AS(answer::read_answer(edited.dump(), "it"), base::InputError);
  }
}

TEST_CASE("a result under the id of another is refused where results are explained") {
  json edited = whole();
  edited["results"][0]["key"]["name"] = "another";
  CHECK_THROWS_AS(parse_reported(edited.dump(), "it"), base::InputError);
  CHECK_NOTHROW(parse_reported(whole().dump(), "it"));
}

}  // namespace
}  // namespace ttrace::report::cut_answer_test
