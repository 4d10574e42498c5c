#include <sstream>

#include "replay/routing/explain_flips.h"
#include "report/sample_report.h"
#include "report/text_report.h"
#include "report/text_sections.h"
#include "support/catch.h"

namespace ttrace::report {
namespace {

using judge::Outcome;

comparison::RouterFlips flips() {
  comparison::RouterFlips router;
  router.key = ttrace::test::make_key("layers.1.mlp.router[1]");
  router.tokens = 64;
  router.experts = 8;
  router.flipped = 3;
  router.scores = "scores: made again from its input and layers.1.mlp.router.weight";
  router.noise = 0.02;
  router.largest_gap = 0.01;
  return router;
}

TEST_CASE("flips in words: explained, not explained, after others") {
  comparison::RouterFlips router = flips();
  CHECK(replay::describe_flips(router) ==
        "3 of 64 tokens went to other experts, each near a tie: the scores of those swapped are at "
        "most 0.01 apart, where their noise is 0.02 (scores: made again from its input and "
        "layers.1.mlp.router.weight)");
  router.follows = true;
  CHECK(replay::describe_flips(router) ==
        "3 of 64 tokens went to other experts, each as its own scores prefer, which flips before "
        "it have reached");
  router.unexplained = 2;
  router.first_unexplained = 17;
  router.why = "expert 1 for 0, against its own scores, which are 2 apart the other way";
  CHECK(replay::describe_flips(router) ==
        "3 of 64 tokens went to other experts; rounding does not explain 2 of them, the first "
        "token 17: expert 1 for 0, against its own scores, which are 2 apart the other way");
}

TEST_CASE("a finding says which rows its numbers leave out") {
  comparison::CompareReport report = test::diverged_report();
  std::ostringstream before;
  write_text(report, {}, before);
  CHECK(before.str().find("     routing ") == std::string::npos);
  report.results[0].tokens_left_out = 1;
  std::ostringstream out;
  write_text(report, {}, out);
  CHECK(out.str().find("     routing  without the rows of 1 token that went to other experts\n") !=
        std::string::npos);
}

TEST_CASE("the text report tells flips and what was not judged for them") {
  comparison::CompareReport report =
      test::report_of(comparison::Verdict::kInconclusive,
                      {test::compared("layers.1", {3, 4}, {3, 4}),
                       test::compared("layers.2", {3, 4}, {3, 5}, Outcome::kAfterRoutingFlip)});
  report.why = "nothing diverged";
  std::ostringstream none;
  write_text(report, {}, none);
  CHECK(none.str().find("routing:") == std::string::npos);
  CHECK(none.str().find(", 1 not judged after routing flips") != std::string::npos);
  report.results[0].tokens_left_out = 3;
  for (int i = 0; i < 6; ++i) report.routers.push_back(flips());
  std::ostringstream out;
  write_routing(report, false, out);
  CHECK(
      out.str().find("  routing: 18 tokens went to other experts in 6 routers, rounding explains "
                     "them all, which is no bug by itself; 1 tensor matched without their rows, 1 "
                     "computed from them not judged\n") == 0);
  CHECK(out.str().find("    and 2 more (--all)\n") != std::string::npos);
  std::ostringstream all;
  write_routing(report, true, all);
  CHECK(all.str().find("more (--all)") == std::string::npos);
  report.routers[1].unexplained = 1;
  std::ostringstream wrong;
  write_routing(report, false, wrong);
  CHECK(wrong.str().find(", 1 of them for no reason that rounding gives; ") != std::string::npos);
}

}  // namespace
}  // namespace ttrace::report
