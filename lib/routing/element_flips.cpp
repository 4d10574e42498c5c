#include "routing/element_flips.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "routing/explain_flips.h"

namespace ttrace::routing {
namespace {

// The most large differences that are examined. A gradient with more is wrong by more than
// rounding.
constexpr std::size_t kMostLarge = std::size_t{1} << 14;

// Elements that may be equal within rounding in one window. More are no near tie.
constexpr std::size_t kMostTied = 16;

// A maximum that moves takes its gradient along, so the differences cancel but for this share of
// their sizes: the roundings of a gradient that noise runs allow, or those of its type.
constexpr double kMostCreated = 1.0 / 64;
constexpr double kMostRoundings = 8;  // ε of that type

constexpr std::size_t kImageDimensions = 4;  // samples, channels, and at least two extents

// A kink whose gradient vanishes on neither side is known by one multiple for this many elements at
// least, which leaves at most this share of their squares and is this far from 1.
constexpr std::uint64_t kFewestBends = 4;
constexpr double kMostOffMultiple = 1.0 / 64;
constexpr double kLeastBend = 0.25;

}  // namespace

bool FlippedElements::by_rounding() const {
  return total() > 0 && moved > 0 && largest <= kMostNoise * noise;
}

void ElementFlips::Limit::add(double next, bool beyond) {
  if (held_by > 0 && next == value) {
    ++held_by;
  } else if (held_by == 0 || beyond) {
    value = next;
    held_by = 1;
  }
}

ElementFlips::ElementFlips(const tensor::Shape& shape, double large, double epsilon)
    : large_off_(large), epsilon_(epsilon) {
  const std::size_t first = shape.size() >= kImageDimensions ? 2 : 1;
  for (std::size_t d = first; d < shape.size(); ++d) per_window_ *= shape[d];
  per_window_ = std::max<std::uint64_t>(per_window_, 1);
}

bool ElementFlips::Bends::one_multiple() const {
  if (count < kFewestBends || !(sharp2 > 0)) return false;
  const double multiple = product / sharp2;
  return std::abs(multiple - 1) >= kLeastBend &&
         dull2 - multiple * product <= kMostOffMultiple * larger2;
}

bool ElementFlips::Bends::jump() const {
  return count > 0 && off2 >= kLeastBend * kLeastBend * larger2;
}

void ElementFlips::Bends::add(double dull, double sharp, double off, double from_zero) {
  ++count;
  distance = std::max(distance, from_zero);
  dull2 += dull * dull;
  sharp2 += sharp * sharp;
  product += dull * sharp;
  larger2 += std::max(dull * dull, sharp * sharp);
  off2 += off * off;
}

void ElementFlips::add(const Elements& elements) {
  for (std::size_t e = 0; e < elements.argument_before.size(); ++e, ++added_) {
    const double before = elements.argument_before[e];
    const double after = elements.argument_after[e];
    Large element{added_ / per_window_, before, after, elements.gradient_before[e],
                  elements.gradient_after[e]};
    const double off = element.off();
    least_before_.add(before, before < least_before_.value);
    least_after_.add(after, after < least_after_.value);
    greatest_before_.add(before, before > greatest_before_.value);
    greatest_after_.add(after, after > greatest_after_.value);
    const bool crossed = (before > 0) != (after > 0);
    if (!crossed || !std::isfinite(after - before)) {
      ++same_side_;
      squares_ += (after - before) * (after - before);
    }
    if (crossed) {
      const double sharp = before > 0 ? element.gradient_before : element.gradient_after;
      const double dull = before > 0 ? element.gradient_after : element.gradient_before;
      const double from_zero = std::max(std::abs(before), std::abs(after));
      element.sign = dull == 0 && sharp != 0;
      if (!element.sign) {
        bends_.add(dull, sharp, off, from_zero);
        continue;
      }
      ++signs_.signs;
      signs_.largest = std::max(signs_.largest, from_zero);
      moved_ += off * off;
    }
    const bool large = std::abs(off) > large_off_;
    if (large && large_.size() < kMostLarge) {
      large_.push_back(element);
    } else if (!element.sign) {
      rest_ += off * off;
      too_many_ = too_many_ || large;
    }
  }
}

FlippedElements ElementFlips::found(Allowed allowed) const {
  FlippedElements found = signs_;
  found.noise = same_side_ > 0 ? std::sqrt(squares_ / static_cast<double>(same_side_)) : 0;
  std::vector<Large> large = large_;
  if (!too_many_) {
    explain_limits(large, found);
    explain_maxima(large, found);
  }
  double moved = moved_;
  double rest = rest_;
  for (const Large& element : large) {
    if (!element.sign) (element.chosen ? moved : rest) += element.off() * element.off();
  }
  const bool bent = bends_.one_multiple();
  if (bent || (allowed == Allowed::kAny && bends_.jump())) {
    found.known = bent;
    found.signs += bends_.count;
    found.largest = std::max(found.largest, bends_.distance);
    moved += bends_.off2;
  } else {
    rest += bends_.off2;
  }
  found.moved = std::sqrt(moved);
  found.rest = std::sqrt(rest);
  return found;
}

void ElementFlips::explain_limits(std::vector<Large>& large, FlippedElements& found) const {
  const auto reached_alone = [](const Limit& before, const Limit& after, const Large& element) {
    return before.value == after.value && std::min(before.held_by, after.held_by) > 1 &&
           (element.before == before.value) != (element.after == after.value) &&
           (element.before == before.value ? element.gradient_before : element.gradient_after) == 0;
  };
  for (Large& element : large) {
    const double apart = std::abs(element.after - element.before);
    if (element.sign || !(apart <= kMostNoise * found.noise)) continue;
    if (!reached_alone(least_before_, least_after_, element) &&
        !reached_alone(greatest_before_, greatest_after_, element)) {
      continue;
    }
    element.chosen = true;
    ++found.limits;
    found.largest = std::max(found.largest, apart);
  }
}

void ElementFlips::explain_maxima(std::vector<Large>& large, FlippedElements& found) const {
  std::vector<Large*> others;
  for (Large& element : large) {
    const bool finite = std::isfinite(element.off()) && std::isfinite(element.before) &&
                        std::isfinite(element.after);
    if (!element.chosen && finite) others.push_back(&element);
  }
  std::sort(others.begin(), others.end(), [](const Large* a, const Large* b) {
    return std::tie(a->window, a->before, a->after, a->gradient_after, a->gradient_before) <
           std::tie(b->window, b->before, b->after, b->gradient_after, b->gradient_before);
  });
  const double near = kMostNoise * found.noise;
  for (std::size_t begin = 0, end = 0; begin < others.size(); begin = end) {
    double sum = others[begin]->off();
    double sizes = std::abs(sum);
    double widest = 0;
    bool other_order = false;
    for (end = begin + 1; end < others.size(); ++end) {
      const Large& last = *others[end - 1];
      const Large& next = *others[end];
      if (next.window != last.window) break;
      const double apart =
          std::max(std::abs(next.before - last.before), std::abs(next.after - last.after));
      if (!(apart <= near)) break;
      other_order = other_order || (next.before - last.before) * (next.after - last.after) <= 0;
      widest = std::max(widest, apart);
      sum += next.off();
      sizes += std::abs(next.off());
    }
    const bool kept = std::abs(sum) <= std::max(kMostCreated, kMostRoundings * epsilon_) * sizes;
    if (end - begin < 2 || end - begin > kMostTied || !other_order || !kept) continue;
    for (std::size_t k = begin; k < end; ++k) {
      others[k]->chosen = true;
      found.maxima += others[k]->sign ? 0 : 1;
    }
    found.largest = std::max(found.largest, widest);
  }
}

}  // namespace ttrace::routing
