#include "report/routing_text.h"

#include <algorithm>
#include <ostream>

#include "base/concat.h"
#include "base/number_text.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::short_number;
using verdict::Outcome;

constexpr std::size_t kMostRouters = 4;

}  // namespace

std::string flip_words(const RouterFlips& router) {
  const std::string how_many = concat(router.flipped, " of ", base::plural(router.tokens, "token"),
                                      " went to other experts");
  if (router.unexplained > 0) {
    return concat(how_many, "; rounding does not explain ", router.unexplained,
                  " of them, the first token ", router.first_unexplained, ": ", router.why);
  }
  if (router.follows) {
    return concat(how_many, ", each as its own scores prefer, which flips before it have reached");
  }
  return concat(how_many, ", each near a tie: the scores of those swapped are at most ",
                short_number(router.largest_gap), " apart, where their noise is ",
                short_number(router.noise), " (", router.scores, ")");
}

std::string left_out_words(const Result& result) {
  if (result.tokens_left_out == 0) return "";
  return concat("without the rows of ", base::plural(result.tokens_left_out, "token"),
                " that went to other experts");
}

void write_routing(const CompareReport& report, bool all, std::ostream& out) {
  if (report.routers.empty()) return;
  std::uint64_t flipped = 0;
  std::uint64_t unexplained = 0;
  for (const RouterFlips& router : report.routers) {
    flipped += router.flipped;
    unexplained += router.unexplained;
  }
  const auto without = static_cast<std::uint64_t>(
      std::count_if(report.results.begin(), report.results.end(), [](const Result& result) {
        return result.tokens_left_out > 0 && result.outcome == Outcome::kMatch;
      }));
  out << "  routing: " << base::plural(flipped, "token") << " went to other experts in "
      << base::plural(report.routers.size(), "router");
  if (unexplained > 0) {
    out << ", " << unexplained << " of them for no reason that rounding gives";
  } else {
    out << ", rounding explains them all, which is no bug by itself";
  }
  out << "; " << base::plural(without, "tensor") << " matched without their rows, "
      << report.counts.at(Outcome::kAfterRoutingFlip) << " computed from them not judged\n";
  std::size_t shown = 0;
  for (const RouterFlips& router : report.routers) {
    if (!all && shown == kMostRouters) break;
    ++shown;
    out << "    " << base::printable(to_string(router.key)) << ": "
        << base::printable(flip_words(router)) << "\n";
  }
  if (shown < report.routers.size()) {
    out << "    and " << report.routers.size() - shown << " more (--all)\n";
  }
}

}  // namespace ttrace::report
