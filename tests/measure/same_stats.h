// Statistics of two ways to measure one pair must have the same bits.
#pragma once

#include <optional>

#include "measure/tile_stats.h"
#include "support/catch.h"

namespace ttrace::test {

inline bool same(const std::optional<measure::Extreme>& a,
                 const std::optional<measure::Extreme>& b) {
  if (!a || !b) return !a && !b;
  return a->difference == b->difference && a->reference == b->reference &&
         a->candidate == b->candidate && a->at == b->at;
}

inline void check_same(const measure::TileStats& a, const measure::TileStats& b) {
  CHECK(a.elements == b.elements);
  CHECK(a.finite == b.finite);
  CHECK(a.sum_d2 == b.sum_d2);
  CHECK(a.sum_d == b.sum_d);
  CHECK(a.sum_r2 == b.sum_r2);
  CHECK(a.sum_c2 == b.sum_c2);
  CHECK(a.sum_rc == b.sum_rc);
  CHECK(a.unequal == b.unequal);
  CHECK(a.nonfinite_reference == b.nonfinite_reference);
  CHECK(a.nonfinite_candidate == b.nonfinite_candidate);
  CHECK(a.nonfinite_equal == b.nonfinite_equal);
  CHECK(a.nonfinite_different == b.nonfinite_different);
  CHECK(same(a.largest, b.largest));
  CHECK(a.first_nonfinite_difference == b.first_nonfinite_difference);
}

}  // namespace ttrace::test
