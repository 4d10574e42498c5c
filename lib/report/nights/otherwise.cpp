#include "report/nights/otherwise.h"

#include <algorithm>
#include <cmath>

#include "base/message.h"
#include "layout/mesh.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::render;

constexpr double kFarther = 10;      // times as far off as before
constexpr double kLeastFarOff = 10;  // times what is allowed
// Up to this many times what is allowed noise decides on which ranks an error stands out
// (kBeyond in localize/describe_layout.cpp).
constexpr double kRanksOfNoise = 2;

bool is_number(const std::optional<double>& used) { return used && std::isfinite(*used); }

// Without a number of before nothing says that it is as far off as it was.
bool is_farther(const std::optional<double>& was, const std::optional<double>& is) {
  if (!is_number(is)) return is_number(was);
  return *is > kLeastFarOff && (!is_number(was) || *is >= kFarther * *was);
}

// A tensor that merely follows from another one may follow into all copies or into some.
bool is_other_kind(const NightTensor& was, const NightTensor& is) {
  if (was.outcome == is.outcome) return false;
  const auto differs_in_value = [](const std::string& outcome) {
    return outcome == "diverged" || outcome == "replica_conflict";
  };
  const bool follows = !was.in_finding || !is.in_finding;
  return !follows || !differs_in_value(was.outcome) || !differs_in_value(is.outcome);
}

std::string likeliest(const Evidence& evidence) {
  return evidence.causes.empty() ? "not known" : evidence.causes.front();
}

bool is_of_other_cause(const Evidence& was, const Evidence& is) {
  if (was.causes.empty() && is.causes.empty()) return false;
  return std::none_of(is.causes.begin(), is.causes.end(), [&was](const std::string& cause) {
    return std::find(was.causes.begin(), was.causes.end(), cause) != was.causes.end();
  });
}

bool is_beyond_noise(const NightTensor& tensor) {
  return !tensor.furthest || !(*tensor.furthest <= kRanksOfNoise);
}

// Ranks that were right before; none where an error was on all of the ranks that there were.
std::vector<std::uint64_t> other_ranks(const Night& older, const NightTensor& was,
                                       const NightTensor& is) {
  const std::vector<std::uint64_t>& before = was.evidence->ranks;
  if (before.empty() || before.size() == older.ranks) return {};
  if (!is_beyond_noise(was) || !is_beyond_noise(is)) return {};
  std::vector<std::uint64_t> others;
  std::set_difference(is.evidence->ranks.begin(), is.evidence->ranks.end(), before.begin(),
                      before.end(), std::back_inserter(others));
  return others;
}

}  // namespace

bool rose(double from, double to) {
  constexpr double kLeastFactor = 1.25;
  constexpr double kLeast = 0.05;
  if (std::isinf(to)) return !std::isinf(from);
  return to >= kLeastFactor * from && to - from >= kLeast;
}

Otherwise::Otherwise(const Night& older, const Night& newer) : older_(older) {
  one_is_just_right_ =
      std::any_of(older.tensors.begin(), older.tensors.end(), [&newer](const NightTensor& was) {
        if (!was.in_finding || !is_number(was.used)) return false;
        const NightTensor* const is = newer.find(was.id);
        return is != nullptr && is->fate == Fate::kRight && is_number(is->used) &&
               !rose(*is->used, *was.used);
      });
}

std::string Otherwise::why(const NightTensor& was, const NightTensor& is) const {
  if (is_other_kind(was, is)) {
    return render(
        {"it is {is}, and was {was}", {{"is", words(is.outcome)}, {"was", words(was.outcome)}}});
  }
  if (is.one_sided && !was.one_sided) {
    return render({"it is finite on one side alone, and was on both", {}});
  }
  if (was.evidence && is.evidence && is_of_other_cause(*was.evidence, *is.evidence)) {
    return render({"the cause is {is}, and was {was}",
                   {{"is", likeliest(*is.evidence)}, {"was", likeliest(*was.evidence)}}});
  }
  if (is_farther(was.furthest, is.furthest)) {
    if (!is_number(was.furthest)) {
      return render({"it is off by {is} times what is allowed, and no number says how far it was",
                     {{"is", *is.furthest}}});
    }
    if (!is_number(is.furthest)) {
      return render(
          {"no number says any more how far it is off, and it was {was} times what is "
           "allowed",
           {{"was", *was.furthest}}});
    }
    return render({"it is off by {is} times what is allowed, and was by {was}",
                   {{"is", *is.furthest}, {"was", *was.furthest}}});
  }
  if (was.evidence && is.evidence) {
    const std::vector<std::uint64_t> others = other_ranks(older_, was, is);
    if (!others.empty()) {
      return render({"it is wrong on {ranks}, where it was right",
                     {{"ranks", layout::describe_ranks(others)}}});
    }
  }
  const bool seen = was.in_finding || was.suspect;
  if (is.suspect && !is.in_finding && !seen) {
    return render({"it is much further off than what comes into it, and was not", {}});
  }
  if (is.in_finding && !seen && !one_is_just_right_) {
    return render({"it follows from no other finding any more", {}});
  }
  return "";
}

}  // namespace ttrace::report
