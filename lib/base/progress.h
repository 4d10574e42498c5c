// Where long work tells how far it is; whoever wants to know shows it.
#pragma once

#include <cstdint>
#include <string>

namespace ttrace::base {

// Called from any thread; implementations must be cheap.
class Progress {
 public:
  virtual ~Progress() = default;

  // So many more bytes are to be read.
  virtual void expect(std::uint64_t bytes) = 0;
  // So many of them are done.
  virtual void advance(std::uint64_t bytes) = 0;
  // The relative error of one tensor; the largest so far is of interest.
  virtual void measured(const std::string& tensor, double relative_error) = 0;
};

}  // namespace ttrace::base
