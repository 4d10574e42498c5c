#include "judge/calibration.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::judge {
namespace {

using test::make_key;
using trace::Kind;

PolicyRule rule(std::vector<std::string> names, std::vector<Kind> kinds = {}) {
  PolicyRule made;
  made.names = std::move(names);
  made.kinds = std::move(kinds);
  return made;
}

TEST_CASE("the first rule that matches name and kind counts") {
  const Policy policy{rule({"layers.*"}, {Kind::kMainGrad}), rule({"layers.*"}),
                      rule({"x", "head"})};
  CHECK(rule_for(policy, make_key("layers.0.mlp", Kind::kMainGrad)) == 0);
  CHECK(rule_for(policy, make_key("layers.0.mlp")) == 1);
  CHECK(rule_for(policy, make_key("head")) == 2);
  CHECK(rule_for(policy, make_key("embedding")) == std::nullopt);
}

TEST_CASE("a rule that skips ends after its last day") {
  PolicyRule skip = rule({"*"});
  CHECK_FALSE(skips(skip, "2026-11-21"));
  skip.skip = "known issue";
  CHECK(skips(skip, "2026-11-21"));
  skip.until = "2026-11-21";
  CHECK(skips(skip, "2026-11-21"));
  CHECK_FALSE(skips(skip, "2026-11-22"));
  CHECK(skips(skip, "2025-12-31"));
}

TEST_CASE("a date is a day of the calendar") {
  for (const char* text : {"2026-11-21", "2028-02-29"}) CHECK(is_date(text));
  for (const char* text :
       {"2026-11-31", "2027-02-29", "2026-1-01", "21.11.2026", "", "tomorrow", "2026-11-21 "}) {
    CHECK_FALSE(is_date(text));
  }
}

}  // namespace
}  // namespace ttrace::judge
