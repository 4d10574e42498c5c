// Whether tokens that went to other experts are near a tie, or the routing is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "routing/choices.h"

namespace ttrace::routing {

// A flip is near a tie if the scores of the swapped experts differ by at most this many times the
// noise of a score. A flip needs noise that closes this gap, the difference of two scores' noise;
// the largest of a hundred thousand tokens is 4.4·√2 = 6.2 times the rms of one score if the noise
// is Gaussian.
inline constexpr double kMostNoise = 8;

// Scores agree, whatever their tolerance, if their noise is at most this share of the spread of a
// token's scores.
inline constexpr double kMostNoiseShare = 0.1;

// The most flips of one choice that are examined. One with more is not considered healthy.
inline constexpr std::size_t kMostExamined = std::size_t{1} << 16;

// A flip that rounding does not explain.
struct Unexplained {
  std::uint64_t token = 0;
  std::string why;
};

struct Explanation {
  std::uint64_t unexplained = 0;
  std::optional<Unexplained> first;  // the first of those
  double noise = 0;                  // rms of the difference of both runs' scores, over a sample
  double spread = 0;                 // rms of the reference's scores around their token's mean
  double largest_gap = 0;  // between experts swapped, in the reference's scores, of those explained
  bool explained() const { return unexplained == 0; }
  bool scores_agree() const { return noise <= kMostNoiseShare * spread; }
};

// Even: the noise of the scores is rounding, of one size for all tokens. Uneven: flips before this
// router have reached some tokens more than others.
enum class NoiseSpread { kEven, kUneven };

// A flip is explained if (1) as many experts were chosen as in the reference, (2) each run chose
// those that its own scores prefer, within their rounding, and (3), where the noise is even, the
// reference's scores of the swapped experts are at most kMostNoise times the noise plus their
// rounding apart and the noise does not lie along the scores, as a wrong factor does. `flipped` is
// not empty. Throws an input error if a shard cannot be read.
Explanation explain_flips(const Decision& decision, const std::vector<std::uint64_t>& flipped,
                          Scores& reference, Scores& candidate,
                          NoiseSpread noise = NoiseSpread::kEven);

// Whether the reference chose what these scores of its own prefer, within their rounding, over a
// sample of tokens: hidden states may have the shape of scores too. Throws an input error if a
// shard cannot be read.
bool choice_follows(const Decision& decision, Scores& reference);

// Describes why the decision of a router is judged as it is.
std::string describe_flips(const comparison::RouterFlips& router);

}  // namespace ttrace::routing
