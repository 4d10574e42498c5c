// Keeps what a comparison or an audit has measured, for `--resume` and for the merge of several
// processes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/tensor_comparison.h"

namespace ttrace::comparison {

// The measurement of a pair, or why it cannot be measured.
struct FinishedMeasurement {
  std::string unreadable;  // or empty
  measure::Measurement measurement;
  std::optional<judge::NoiseEstimate> noise;
};

// An updated parameter replayed, or why it cannot be.
struct FinishedReplay {
  // The factor that clipping multiplied its gradient by, which depends on all gradients.
  double clip = 1;
  std::string problem;  // or empty
  measure::UpdateMeasurement measured;
};

// A tensor of an audit judged by its expression, or why it cannot be.
struct FinishedJudgement {
  std::string problem;    // or empty
  std::string judgement;  // as audit/finished_judgement.h writes it
};

// The work that a result belongs to: `localize` compares, and also judges each run by itself.
enum class WorkOf { kCommand, kCandidate, kReference };

// The result of the long part of a comparison or an audit for one tensor. Tolerances, outcomes, the
// frontier and causes are computed anew from it.
struct Finished {
  trace::TensorKey key;
  std::variant<FinishedMeasurement, FinishedReplay, FinishedJudgement> what;
  WorkOf of = WorkOf::kCommand;
};

// Checks that a measurement read from a file fits its tensor: boxes and indices lie in the tensor,
// ranks in its meshes, and there is one number for every cell of the grid. The numbers themselves
// may have any value.
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

// Hands out measurements of an earlier run, and records new ones. Call restore() before the
// comparison begins; several threads may call the other members.
class Checkpoint {
 public:
  // `on_line` gets the line of everything finished from now on, one at a time; may be null. With
  // `keep`, lines() has everything that was used, restored and new.
  explicit Checkpoint(std::function<void(const std::string& line)> on_line = nullptr,
                      bool keep = false)
      : on_line_(std::move(on_line)), keep_(keep) {}
  // Shows the results of one of several works in `whole`, which must outlive it.
  Checkpoint(Checkpoint& whole, WorkOf of) : whole_(&whole), of_(of) {}

  // Adds a measurement of an earlier run. Returns false if it replaces one of the same tensor and
  // sort.
  bool restore(Finished finished);
  // Adds one of several parts that may have measured the same tensor: the first stays, unless it
  // says why it could not be judged and this one judged it. Throws an input error if the two
  // measured otherwise: then their files differ.
  void restore_one_of(Finished finished);
  bool empty() const { return whole_ ? whole_->empty() : known_.empty(); }
  // Whether record() has any effect.
  bool is_recorded() const { return whole_ ? whole_->is_recorded() : on_line_ != nullptr || keep_; }

  // Removes and returns the measurement of the tensor; nothing if there is none.
  template <typename What>
  std::optional<What> take(const trace::TensorKey& key) {
    auto found = (whole_ ? *whole_ : *this).taken({of_, key, index_of<What>()});
    if (!found) return std::nullopt;
    return std::get<What>(std::move(found->what));
  }

  // Records a measurement made now.
  void record(const Finished& finished);
  // Records a measurement that was restored and used.
  void record_again(const Finished& finished);

  // In the order of the works and keys.
  std::vector<std::string> lines() const;
  // Throws an input error that names a restored measurement that the comparison did not take.
  // Replays may be left over: gradients of other processes can show that an update has no replay.
  void require_all_taken() const;

 private:
  using Id = std::tuple<WorkOf, trace::TensorKey, std::size_t>;

  template <typename What>
  static constexpr std::size_t index_of() {
    return decltype(Finished::what)(What{}).index();
  }
  static Id id_of(const Finished& finished) {
    return {finished.of, finished.key, finished.what.index()};
  }
  std::optional<Finished> taken(const Id& id);
  void keep(const Finished& finished, std::string line);

  Checkpoint* whole_ = nullptr;
  WorkOf of_ = WorkOf::kCommand;
  std::function<void(const std::string& line)> on_line_;
  bool keep_ = false;
  mutable std::mutex mutex_;
  std::map<Id, Finished> known_;
  std::map<Id, std::string> lines_;
};

// Gives records that are to be measured their restored measurements. Throws an input error where
// one does not fit its tensor.
void restore_measurements(Checkpoint& work, const trace::Source& candidate,
                          std::vector<TensorComparison>& results);

// Records what measuring a pair yielded: `result` has a comparison or is unreadable.
void record_measurement(Checkpoint& work, const TensorComparison& result);

}  // namespace ttrace::comparison
