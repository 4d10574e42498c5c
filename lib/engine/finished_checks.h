// Whether what a file says was measured can be of the tensors at hand.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "engine/finished.h"
#include "engine/pairing.h"

namespace ttrace::engine {

// What is derived from a measurement relies on boxes and indices that lie in the tensor, ranks of
// its meshes, and as many numbers as the grid has cells. Numbers themselves may be any.
class FinishedChecks {
 public:
  // `candidate` must outlive this.
  explicit FinishedChecks(const trace::Source& candidate) : candidate_(candidate) {}

  // Both sides of the pair are there. Throws an input error, without a file's name.
  void require_fits(const FinishedMeasurement& finished, const Pair& pair);
  void require_fits(const FinishedReplay& finished, const Pair& pair);

 private:
  class OfPair;
  const std::set<std::uint64_t>& ranks_of(const std::string& mesh);

  const trace::Source& candidate_;
  std::map<std::string, std::set<std::uint64_t>> ranks_;
};

}  // namespace ttrace::engine
