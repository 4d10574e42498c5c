// What is finished of a comparison: known from before, and told as it comes.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/finished.h"
#include "engine/pairing.h"
#include "report/compare_report.h"

namespace ttrace::engine {

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

// results[i] belongs to pairs[i]; those that are to be measured and are known get what is known.
// Throws an input error where it cannot be of the pair.
void restore_measurements(FinishedWork& work, const trace::Source& candidate,
                          const std::vector<Pair>& pairs, std::vector<report::Result>& results);

// What measuring pair yielded: its result has a comparison or is unreadable.
void tell_measurement(FinishedWork& work, const report::Result& result);

}  // namespace ttrace::engine
