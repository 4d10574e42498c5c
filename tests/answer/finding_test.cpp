#include "answer/finding.h"

#include "support/catch.h"

namespace ttrace::answer::finding_test {
namespace {

TEST_CASE("the evidence of a cause is a rendered message, and its values are typed") {
  const base::Message evidence{
      "{share} of the {wrong:element} along {axis}[ on {ranks}]",
      {{"share", 0.25}, {"wrong", std::uint64_t{8}}, {"axis", "tp"}, {"ranks", ""}}};
  const Cause cause = cause_of("zeroed", "tp", evidence, 0.5, {{"which", "0 to 7"}});
  CHECK(cause.name == "zeroed");
  CHECK(cause.axis == "tp");
  CHECK(cause.unexplained == 0.5);
  CHECK(cause.evidence == "0.25 of the 8 elements along tp");
  CHECK(cause.fits == nullptr);
  CHECK(cause.values == CauseValues{{"which", "0 to 7"},
                                    {"share", 0.25},
                                    {"wrong", std::uint64_t{8}},
                                    {"axis", "tp"},
                                    {"ranks", ""}});
}

TEST_CASE("a value that stands in both counts as the cause gives it, and once") {
  const Cause cause =
      cause_of("scaled", "", {"{times} times", {{"times", "2.0001"}}}, 0, {{"times", "2"}});
  CHECK(cause.evidence == "2.0001 times");
  CHECK(cause.values == CauseValues{{"times", "2"}});
}

}  // namespace
}  // namespace ttrace::answer::finding_test
