#include "watching.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "answer/answer_json.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "divergence_command.h"
#include "process.h"
#include "recording.h"
#include "report/nights/step_changes.h"
#include "report/page/shown_text.h"

namespace ttrace::app {
namespace {

using base::concat;
using WatchClock = std::chrono::steady_clock;

constexpr auto kBetweenLooks = std::chrono::milliseconds(500);
constexpr auto kSlice = std::chrono::milliseconds(50);
// How often a step is judged again because its files changed meanwhile. Each time waits twice as
// long as the time before, so that a commit on a slow disk can end.
constexpr int kMostTries = 5;

constexpr int kAgreesExit = 0;
constexpr int kDivergesExit = 1;
constexpr int kUndecidedExit = 3;

std::string first_line(std::string text) { return text.substr(0, text.find('\n')); }

class Watch {
 public:
  Watch(const WatchFlags& flags, FollowedTrace& run, WatchTally& tally)
      : flags_(flags),
        run_(run),
        tally_(tally),
        timeout_(seconds_in("--timeout", flags.timeout)),
        policy_(flags.judge.policy.read()),
        command_(flags.on_divergence, seconds_in("--command-limit", flags.command_limit),
                 signal_.flag()) {
    files_.emplace(flags.answer);
    reference_ = steps_to_judge_by(flags.judge);
  }

  int run() {
    auto last_news = WatchClock::now();
    while (true) {
      const TraceState state = run_.look();
      if (state.began_anew) begin_anew();
      if (const auto step = next_of(state)) {
        judge(*step, !state.is_whole);
      } else if (state.is_whole) {
        return judge_again() ? end(state.finished, "the job has ended", false) : interrupted();
      } else if (!state.began_anew && WatchClock::now() - last_news > timeout_) {
        if (!judge_again()) return interrupted();
        return end({}, concat("nothing new for ", flags_.timeout, ": ", state.waits_for), true);
      } else {
        if (state.began_anew) last_news = WatchClock::now();
        wait(kBetweenLooks);
        if (!signal_.flag()) continue;
      }
      if (signal_.flag()) return interrupted();
      last_news = WatchClock::now();
    }
  }

 private:
  bool is_selected(std::uint64_t step) const {
    const auto& steps = flags_.judge.pair.selection.steps;
    return steps.empty() || std::find(steps.begin(), steps.end(), step) != steps.end();
  }

  // Returns the first finished step that is not judged.
  std::optional<std::uint64_t> next_of(const TraceState& state) const {
    for (const std::uint64_t step : state.finished) {
      if (is_selected(step) && !done_.contains(step)) return step;
    }
    return std::nullopt;
  }

  void begin_anew() {
    say(concat("the job began anew: ", base::printable(run_.path()),
               " has the trace of another run now"));
    tally_ = {};
    done_.clear();
    again_.clear();
    in_doubt_.clear();
    tries_.clear();
    changes_ = {};
    last_.reset();
    if (files_are_written_) files_.emplace(flags_.answer);
    files_are_written_ = false;
  }

  // Judges the steps that could not be read while the job wrote, now that it does not any more.
  // Returns false if a signal ended that.
  bool judge_again() {
    for (const std::uint64_t step : std::exchange(again_, {})) {
      tries_[step] = kMostTries;
      judge(step, false);
      if (signal_.flag()) return false;
    }
    return true;
  }

  // `is_written`: whether the job may still write, so that what cannot be read is judged again.
  void judge(std::uint64_t step, bool is_written) {
    if (reference_ && !reference_->contains(step)) {
      done_.insert(step);
      ++tally_.not_in_reference;
      say(concat("step ", step, "  NOT JUDGED  the reference has ", steps_of_reference()));
      return;
    }
    std::string problem;
    std::optional<JudgedStep> judged;
    try {
      judged = judge_step(flags_.judge, step, run_.open(step), policy_, signal_.flag());
    } catch (const base::InputError& error) {
      problem = error.what();
    }
    if (signal_.flag()) return;
    // A commit may hide tensors for a moment, and another run may have taken the place of this one.
    // What was read of a step is right whatever was added behind it: a commit leaves it as it is.
    const bool lacks = !judged || (!judged->read_all && judged->answer.exit_code != kDivergesExit);
    const bool agrees = judged && judged->answer.exit_code == kAgreesExit;
    const bool proves = agrees || (!lacks && !run_.was_replaced());
    if (!proves && run_.has_changed() && ++tries_[step] < kMostTries) {
      wait(kSlice * (1 << tries_[step]));
      return;
    }
    done_.insert(step);
    if (!judged || (lacks && !agrees && is_written)) {
      doubt(step, true);
      if (is_written) again_.insert(step);
      if (judged) problem = "not all of its tensors can be read as long as the job writes";
      say(concat("step ", step, "  NOT JUDGED  ", base::printable(problem)));
      return;
    }
    doubt(step, judged->answer.exit_code == kUndecidedExit);
    tell(step, std::move(judged->answer));
  }

  void tell(std::uint64_t step, GivenAnswer given) {
    const std::string name = concat("step ", step);
    const answer::Answer answer = given.answer(report::Detail::kAll);
    const std::string headline = first_line(report::shown_line(report::page_answer_of(answer)));
    const std::string changes = changes_.add(step, answer);
    ++tally_.judged;
    say(concat(name, "  ", headline, changes.empty() ? "" : concat("  (", changes, ")")));
    last_ = std::move(given);
    if (last_->exit_code != kDivergesExit || tally_.diverged++ > 0) return;
    tally_.first_diverged = step;
    write_files();
    const std::string& file = flags_.answer.json();
    const bool is_file = !file.empty() && !is_stdout(file);
    command_.start(
        {run_.path(), step, headline, is_file ? file : "", is_file ? "" : answer::json_of(answer)});
  }

  void write_files() {
    if (files_are_written_ || !last_) return;
    files_are_written_ = true;
    unwritten_ = files_->write_files(*last_);
    if (unwritten_) base::warn_even_if_quiet(base::printable(unwritten_->what()));
  }

  void doubt(std::uint64_t step, bool is_in_doubt) {
    if (!is_in_doubt && in_doubt_.erase(step) == 0) return;
    if (is_in_doubt) in_doubt_.insert(step);
    tally_.in_doubt = in_doubt_.size();
    tally_.first_in_doubt = in_doubt_.empty() ? 0 : *in_doubt_.begin();
  }

  // Writes the line at once, for a reader at the other end of a pipe.
  static void say(const std::string& line) {
    if (base::is_quiet()) return;
    std::cout << line << "\n";
    std::cout.flush();
  }

  void wait(std::chrono::milliseconds time) const {
    const auto end = WatchClock::now() + time;
    while (WatchClock::now() < end && !signal_.flag()) std::this_thread::sleep_for(kSlice);
  }

  std::string steps_of_reference() const {
    const std::vector<std::uint64_t> steps(reference_->begin(), reference_->end());
    return concat(steps.size() == 1 ? "step " : "steps ", base::numbers_in_words(steps),
                  steps.size() == 1 ? " alone" : "");
  }

  // Counts the steps of the reference that the run should have and, at its end, has not.
  std::uint64_t missing(const std::vector<std::uint64_t>& finished) const {
    if (!reference_) return 0;
    return static_cast<std::uint64_t>(
        std::count_if(reference_->begin(), reference_->end(), [&](std::uint64_t step) {
          return is_selected(step) && !std::binary_search(finished.begin(), finished.end(), step);
        }));
  }

  int end(const std::vector<std::uint64_t>& finished, const std::string& why, bool too_early) {
    write_files();
    const bool audits = flags_.judge.audits();
    const std::string steps = base::plural(tally_.judged, "step");
    const std::string left =
        tally_.not_in_reference == 0
            ? ""
            : concat("; the reference lacks ", base::plural(tally_.not_in_reference, "step"));
    int exit_code = kUndecidedExit;
    std::string text;
    if (tally_.diverged > 0) {
      exit_code = kDivergesExit;
      text = concat(audits ? "BROKEN  " : "DIVERGED  ", "first at step ", tally_.first_diverged,
                    ", in ", tally_.diverged, " of ", steps);
    } else if (tally_.judged == 0 && tally_.in_doubt == 0) {
      text = "INCONCLUSIVE  no step was judged";
    } else if (tally_.in_doubt > 0) {
      text = concat("INCONCLUSIVE  nothing diverged, but ", base::plural(tally_.in_doubt, "step"),
                    " could not be judged, the first of them step ", tally_.first_in_doubt);
    } else if (too_early) {
      text = concat("INCONCLUSIVE  nothing diverged in ", steps, ", and the job has not ended");
    } else if (const std::uint64_t lacking = missing(finished); lacking > 0) {
      text = concat("INCONCLUSIVE  nothing diverged in ", steps, ", but the run lacks ",
                    base::plural(lacking, "step"), " of the reference");
    } else {
      exit_code = kAgreesExit;
      text = concat(audits ? "HOLDS  " : "MATCH  ", steps, audits ? " hold" : " agree",
                    tally_.judged == 1 ? "s" : "");
    }
    std::cout << text << left << "; " << base::printable(why) << "\n";
    std::cout.flush();
    if (unwritten_) throw *unwritten_;
    return exit_code;
  }

  int interrupted() {
    write_files();
    std::cout << "INCONCLUSIVE  interrupted after " << base::plural(tally_.judged, "step");
    if (tally_.diverged > 0) std::cout << "; step " << tally_.first_diverged << " has diverged";
    std::cout << "\n";
    std::cout.flush();
    return kUndecidedExit;
  }

  const WatchFlags& flags_;
  FollowedTrace& run_;
  WatchTally& tally_;
  const std::chrono::duration<double> timeout_;
  const StopSignal signal_;
  const std::shared_ptr<const report::AnswerPolicy> policy_;
  std::optional<AnswerOutput> files_;  // of the first step that diverged, or else the last
  bool files_are_written_ = false;
  std::optional<base::Error> unwritten_;
  std::optional<std::set<std::uint64_t>> reference_;  // its steps
  std::set<std::uint64_t> done_;
  std::set<std::uint64_t> again_;  // of done_: to be judged once the job writes no more
  std::set<std::uint64_t> in_doubt_;
  std::map<std::uint64_t, int> tries_;
  report::StepChanges changes_;
  std::optional<GivenAnswer> last_;
  DivergenceCommand command_;
};

}  // namespace

int watch_trace(const WatchFlags& flags, FollowedTrace& run,
                const SurvivingValue<WatchTally>& tally) {
  return Watch(flags, run, *tally).run();
}

}  // namespace ttrace::app
