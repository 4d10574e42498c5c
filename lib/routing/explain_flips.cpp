#include "routing/explain_flips.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace ttrace::routing {
namespace {

using base::concat;
using base::short_number;

// Of these the noise and the spread of scores are taken.
constexpr std::uint64_t kSampledTokens = 256;
constexpr std::uint64_t kSampledExperts = 64;
constexpr std::uint64_t kSampledChoices = 64;  // tokens whose choice must follow from scores

// Rounding makes scores neither larger nor smaller: of this many tokens at least, no more than this
// share of their difference lies along them.
constexpr std::uint64_t kFewestForFactor = 64;
constexpr double kMostAlong = 0.5;

struct TokenSample {
  double noise = 0;
  double spread = 0;
  double along = 0;  // the share of the difference that lies along the scores
};

// Samples evenly spaced tokens and experts; a value that is not finite makes the noise infinite.
TokenSample flip_sample(const Decision& decision, Scores& reference, Scores& candidate) {
  const std::uint64_t tokens = std::min(decision.tokens, kSampledTokens);
  const std::uint64_t experts = std::min(decision.experts, kSampledExperts);
  double squares = 0;
  double scores2 = 0;
  double products = 0;
  double deviations = 0;
  for (std::uint64_t i = 0; i < tokens; ++i) {
    const std::uint64_t token = i * decision.tokens / tokens;
    double sum = 0;
    double sum_of_squares = 0;
    for (std::uint64_t k = 0; k < experts; ++k) {
      const std::uint64_t expert = k * decision.experts / experts;
      const double score = reference.of(token, expert).value;
      const double off = candidate.of(token, expert).value - score;
      if (!std::isfinite(off)) return {std::numeric_limits<double>::infinity(), 0, 0};
      squares += off * off;
      scores2 += score * score;
      products += off * score;
      sum += score;
      sum_of_squares += score * score;
    }
    deviations += std::max(0.0, sum_of_squares - sum * sum / static_cast<double>(experts));
  }
  const auto count = static_cast<double>(tokens * experts);
  const double sizes = std::sqrt(squares * scores2);
  const double along = tokens >= kFewestForFactor && sizes > 0 ? std::abs(products) / sizes : 0;
  return {std::sqrt(squares / count), std::sqrt(deviations / count), along};
}

// The score of the worst of `better` minus that of the best of `worse` in one run: negative where
// the run prefers one of `worse`.
struct Lead {
  double value = 0;
  double rounding = 0;
};

Lead lead(Scores& scores, std::uint64_t token, const std::vector<std::uint64_t>& better,
          const std::vector<std::uint64_t>& worse) {
  std::optional<Lead> least;
  for (const std::uint64_t b : better) {
    for (const std::uint64_t w : worse) {
      if (b == w) continue;
      const Score high = scores.of(token, b);
      const Score low = scores.of(token, w);
      const Lead here{high.value - low.value, high.rounding + low.rounding};
      if (!least || !(here.value + here.rounding >= least->value + least->rounding)) least = here;
    }
  }
  return least.value_or(Lead{});
}

// The largest distance between the scores of swapped experts.
Lead gap(Scores& scores, std::uint64_t token, const Moved& moved) {
  Lead widest;
  for (const std::uint64_t l : moved.left) {
    for (const std::uint64_t j : moved.joined) {
      const Score a = scores.of(token, l);
      const Score b = scores.of(token, j);
      const Lead here{std::abs(a.value - b.value), a.rounding + b.rounding};
      if (!(here.value <= widest.value)) widest = here;
    }
  }
  return widest;
}

std::string list(const std::vector<std::uint64_t>& experts) {
  std::string text;
  for (const std::uint64_t expert : experts) text += concat(text.empty() ? "" : ", ", expert);
  return text;
}

class Examiner {
 public:
  Examiner(const Decision& decision, Scores& reference, Scores& candidate, NoiseSpread noise)
      : decision_(decision),
        noise_(noise),
        before_(decision.reference, decision.tokens),
        after_(decision.candidate, decision.tokens),
        reference_(reference),
        candidate_(candidate),
        sample_(flip_sample(decision, reference, candidate)) {}

  const TokenSample& sample() const { return sample_; }

  // Returns why the flip is not explained; if it is, returns nothing and raises `largest_gap` to
  // it.
  std::string examine(std::uint64_t token, double& largest_gap) {
    const auto change =
        moved(before_.row(token), after_.row(token), decision_.spelling, decision_.experts);
    if (!change) return "not as many experts as in the reference, or such as do not exist";
    const std::string swap = concat("expert ", list(change->joined), " for ", list(change->left));
    // For experts that are merely out of order, only the gap is checked.
    const bool reordered = std::is_permutation(change->left.begin(), change->left.end(),
                                               change->joined.begin(), change->joined.end());
    if (!reordered) {
      const Lead own = lead(candidate_, token, change->joined, change->left);
      if (!(own.value >= -own.rounding)) {
        return concat(swap, ", against its own scores, which are ", short_number(-own.value),
                      " apart the other way");
      }
      const Lead reference = lead(reference_, token, change->left, change->joined);
      if (!(reference.value >= -reference.rounding)) {
        return concat(swap, "; the reference's own choice does not follow from these scores");
      }
    }
    if (noise_ == NoiseSpread::kEven && sample_.along > kMostAlong) {
      return concat(swap,
                    ", where the scores are larger or smaller than the reference's as a whole, ",
                    "which rounding does not make them");
    }
    const Lead apart = gap(reference_, token, *change);
    const bool near = apart.value <= kMostNoise * sample_.noise + apart.rounding;
    if (noise_ == NoiseSpread::kEven && !near) {
      return concat(swap, ", which are ", short_number(apart.value),
                    " apart in the reference, where the noise of the scores is ",
                    short_number(sample_.noise));
    }
    largest_gap = std::max(largest_gap, apart.value);
    return "";
  }

 private:
  const Decision& decision_;
  NoiseSpread noise_;
  TokenRows before_;
  TokenRows after_;
  Scores& reference_;
  Scores& candidate_;
  TokenSample sample_;
};

}  // namespace

bool choice_follows(const Decision& decision, Scores& reference) {
  TokenRows rows(decision.reference, decision.tokens);
  const std::uint64_t tokens = std::min(decision.tokens, kSampledChoices);
  for (std::uint64_t i = 0; i < tokens; ++i) {
    const std::uint64_t token = i * decision.tokens / tokens;
    const auto chosen = experts_of(rows.row(token), decision.spelling, decision.experts);
    if (!chosen) return false;
    std::vector<std::uint64_t> others;
    for (std::uint64_t expert = 0; expert < decision.experts; ++expert) {
      if (!std::binary_search(chosen->begin(), chosen->end(), expert)) others.push_back(expert);
    }
    const Lead own = lead(reference, token, *chosen, others);
    if (!(own.value >= -own.rounding)) return false;
  }
  return true;
}

Explanation explain_flips(const Decision& decision, const std::vector<std::uint64_t>& flipped,
                          Scores& reference, Scores& candidate, NoiseSpread noise) {
  Examiner examiner(decision, reference, candidate, noise);
  Explanation result;
  result.noise = examiner.sample().noise;
  result.spread = examiner.sample().spread;
  if (flipped.size() > kMostExamined) {
    result.unexplained = flipped.size();
    result.first = Unexplained{flipped.front(),
                               concat("one of more flips than are examined, ", kMostExamined)};
    return result;
  }
  for (const std::uint64_t token : flipped) {
    std::string why = examiner.examine(token, result.largest_gap);
    if (why.empty()) continue;
    if (++result.unexplained == 1) result.first = Unexplained{token, std::move(why)};
  }
  return result;
}

std::string describe_flips(const comparison::RouterFlips& router) {
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

}  // namespace ttrace::routing
