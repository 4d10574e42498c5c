// What is new in a tensor that had been wrong before: a new bug may hide where an old one was.
#pragma once

#include <string>

#include "report/nights/night.h"

namespace ttrace::report {

class Otherwise {
 public:
  // Both must outlive this.
  Otherwise(const Night& older, const Night& newer);

  // Why a tensor that is wrong in both reports is wrong in another way than before, or empty: it is
  // wrong in another kind, not finite where it was, of another cause, ten times as far off and by
  // more than ten times what is allowed, on other ranks, or no consequence of another finding any
  // more.
  std::string why(const NightTensor& was, const NightTensor& is) const;

 private:
  const Night& older_;
  // A finding of the older report is right by so little that what follows from it may be what is
  // first now.
  bool one_is_just_right_ = false;
};

// Whether a share of the tolerance moved upwards: by a quarter of itself and by 0.05.
bool rose(double from, double to);

}  // namespace ttrace::report
