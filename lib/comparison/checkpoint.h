// Whether what a file says was measured can be of the tensors at hand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "comparison/finished.h"
#include "comparison/pairing.h"
#include "comparison/result.h"

namespace ttrace::comparison {

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

// What is finished of a comparison: known from before, and told as it comes.

// What is known is set before the comparison begins; the other members may be called from several
// threads.
class FinishedWork {
 public:
  // `on_line` gets the line of everything finished from now on, one at a time; may be null. With
  // `keep`, lines() has everything that was of use, old and new.
  explicit FinishedWork(std::function<void(const std::string& line)> on_line = nullptr,
                        bool keep = false)
      : on_line_(std::move(on_line)), keep_(keep) {}

  // False if something of this sort was known of the tensor already: it is then replaced.
  bool know(Finished finished);
  bool knows_nothing() const { return known_.empty(); }
  // Somebody wants to be told.
  bool listens() const { return on_line_ != nullptr || keep_; }

  // What is known of the tensor, which is then forgotten; or nothing.
  template <typename What>
  std::optional<What> take(const trace::TensorKey& key) {
    auto found = taken(key, index_of<What>());
    if (!found) return std::nullopt;
    return std::get<What>(std::move(found->what));
  }

  // Has been found out now.
  void tell(const Finished& finished);
  // Was known, and used.
  void tell_again(const Finished& finished);

  // In the order of the keys.
  std::vector<std::string> lines() const;
  // Throws an input error that names a measurement that the comparison did not ask for. (It need
  // not ask for a replay, where the others' gradients tell that it is none.)
  void require_all_taken() const;

 private:
  using Id = std::pair<trace::TensorKey, std::size_t>;

  template <typename What>
  static constexpr std::size_t index_of() {
    return decltype(Finished::what)(What{}).index();
  }
  std::optional<Finished> taken(const trace::TensorKey& key, std::size_t index);
  void keep(const Finished& finished, std::string line);

  std::function<void(const std::string& line)> on_line_;
  bool keep_;
  mutable std::mutex mutex_;
  std::map<Id, Finished> known_;
  std::map<Id, std::string> lines_;
};

// those that are to be measured and are known get what is known.
// Throws an input error where it cannot be of the pair.
void restore_measurements(FinishedWork& work, const trace::Source& candidate,
                          std::vector<Result>& results);

// What measuring pair yielded: its result has a comparison or is unreadable.
void tell_measurement(FinishedWork& work, const Result& result);

}  // namespace ttrace::comparison
