#include "routing/kinks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "comparison/local_files.h"
#include "judge/outcome.h"
#include "routing/element_flips.h"
#include "tensor/box.h"

namespace ttrace::routing {
namespace {

using comparison::KinkFlips;
using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

// After this many gradients in a row that are not explained, the run is given up: where the
// backward pass is broken, all of them are off.
constexpr std::size_t kMostInVain = 16;

std::string_view module_of(const TensorComparison& result) {
  return trace::module_of_value(result.key.name);
}

// The prefix that the names of a module and its siblings share: "layers.3." of "layers.3.mlp".
std::string_view siblings_of(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : module.substr(0, dot + 1);
}

bool contains(std::string_view outer, std::string_view module) {
  return module.size() > outer.size() && module.starts_with(outer) && module[outer.size()] == '.';
}

bool is_gradient(const TensorComparison& result) {
  return result.key.kind == Kind::kGradOutput || result.key.kind == Kind::kGradInput;
}

bool diverged_by_numbers(const TensorComparison& result) {
  return result.outcome == Outcome::kDiverged && result.comparison && !result.exact &&
         !result.comparison->replay &&
         result.comparison->measurement.total.nonfinite_different == 0;
}

// A difference of a gradient is large from this share of what is allowed of all of it: 64 smaller
// ones of that size would be within it.
constexpr double kLargeShare = 0.125;

class Kinks {
 public:
  Kinks(const KinkInput& input, comparison::CompareReport& out)
      : input_(input),
        out_(out),
        moved_(out.results.size(), 0),
        moved_parts_(out.results.size(), 0),
        known_(out.results.size(), true),
        dependants_(out.results.size()) {
    for (std::size_t i = 0; i < out.results.size(); ++i) {
      for (const std::size_t d : input.flow.depends_on[i]) dependants_[d].push_back(i);
    }
    link_names_of_one_value();
  }

  // What kinks that are not known would explain is left to what known ones do not.
  void run() {
    for (const auto allowed : {ElementFlips::Allowed::kKnown, ElementFlips::Allowed::kAny}) {
      look_for(allowed);
      if (elsewhere_) leave_gradients();
      for (std::size_t i = 0; i < out_.results.size() && !out_.kinks.empty(); ++i) {
        if (moved_parts_[i] > 0 && diverged_by_numbers(out_.results[i])) {
          judge_again(i, {room(i), room(i)});
        }
      }
    }
  }

 private:
  void look_for(ElementFlips::Allowed allowed) {
    std::size_t in_vain = 0;
    for (const std::size_t i : input_.flow.topological_order) {
      if (!is_gradient(out_.results[i]) || flipped_.contains(i) || !may_flip(i)) continue;
      if (in_vain == kMostInVain) break;
      const std::vector<std::size_t> beside = arguments_of(i);
      if (beside.empty()) continue;
      const bool explained = std::any_of(beside.begin(), beside.end(), [&](std::size_t argument) {
        return explain(i, argument, allowed);
      });
      in_vain = explained ? 0 : in_vain + 1;
    }
  }

  // A value that modules pass on, as a dropout that drops nothing does, has one gradient under many
  // names, whose sums are equal in every bit. The data flow may know what comes back to one of them
  // alone, so each counts as computed from the one before it in a circle.
  void link_names_of_one_value() {
    using Numbers = std::tuple<std::uint64_t, std::optional<std::uint64_t>, tensor::Shape, double,
                               double, double, double>;
    std::map<Numbers, std::vector<std::size_t>> values;
    for (std::size_t i = 0; i < out_.results.size(); ++i) {
      const TensorComparison& result = out_.results[i];
      if (!is_gradient(result) || !result.comparison || result.exact) continue;
      const measure::TileStats& total = result.comparison->measurement.total;
      // Without a difference no flip is in it; what is not finite has no order.
      if (!(total.sum_d2 > 0) || !std::isfinite(total.sum_r2 + total.sum_d2 + total.sum_d) ||
          !std::isfinite(total.sum_rc)) {
        continue;
      }
      values[{result.key.step, result.key.microbatch, result.shape, total.sum_r2, total.sum_d2,
              total.sum_rc, total.sum_d}]
          .push_back(i);
    }
    for (const auto& [numbers, names] : values) {
      for (std::size_t k = 0; names.size() > 1 && k < names.size(); ++k) {
        dependants_[names[k]].push_back(names[(k + 1) % names.size()]);
      }
    }
  }

  // Whether flips in this gradient may explain a divergence: its own, or that of a tensor computed
  // from it. Noise runs flip other elements, so that the gradient as a whole may match.
  bool may_flip(std::size_t i) const {
    if (diverged_by_numbers(out_.results[i])) return true;
    if (out_.results[i].outcome != Outcome::kMatch || !out_.results[i].comparison) return false;
    return std::any_of(dependants_[i].begin(), dependants_[i].end(),
                       [&](std::size_t d) { return diverged_by_numbers(out_.results[d]); });
  }

  // Returns the values that may be the argument of a kink which the gradient comes through: the
  // module's own first, then those of its siblings and of the modules inside it, then those of the
  // modules around it and their siblings.
  std::vector<std::size_t> arguments_of(std::size_t gradient) const {
    const TensorComparison& of = out_.results[gradient];
    const std::string_view module = module_of(of);
    std::vector<std::size_t> own;
    std::vector<std::size_t> others;
    std::vector<std::size_t> beyond;
    for (std::size_t i = 0; i < out_.results.size(); ++i) {
      const TensorComparison& result = out_.results[i];
      if (result.key.kind != Kind::kOutput && result.key.kind != Kind::kInput) continue;
      if (result.shape != of.shape || result.exact || !result.comparison) continue;
      if (result.outcome != Outcome::kMatch && result.outcome != Outcome::kBelowNoiseFloor)
        continue;
      if (result.key.step != of.key.step || result.key.microbatch != of.key.microbatch) continue;
      const std::string_view name = module_of(result);
      if (name == module) {
        if (result.key.call == of.key.call) own.push_back(i);
      } else if (siblings_of(name) == siblings_of(module) || contains(name, module)) {
        others.push_back(i);
      } else if (!siblings_of(name).empty() && module.starts_with(siblings_of(name))) {
        beyond.push_back(i);
      }
    }
    own.insert(own.end(), others.begin(), others.end());
    own.insert(own.end(), beyond.begin(), beyond.end());
    return own;
  }

  bool explain(std::size_t gradient, std::size_t argument, ElementFlips::Allowed allowed_kinks) {
    const TensorComparison& result = out_.results[gradient];
    const std::optional<FlippedElements> explained = compared(gradient, argument, allowed_kinks);
    if (!explained || !explained->by_rounding()) return false;
    const double allowed = result.comparison->tolerance.allowed_norm();
    if (!(explained->rest <= allowed + room(gradient))) return false;

    const double norm = std::sqrt(result.comparison->measurement.total.sum_r2);
    // Relative to a norm of 0, any move would allow everything downstream.
    if (!(norm > 0)) return false;
    KinkFlips flips;
    flips.key = result.key;
    flips.argument = out_.results[argument].key;
    flips.elements = result.comparison->measurement.total.elements;
    flips.flipped = explained->total();
    flips.at_limits = explained->limits;
    flips.at_maxima = explained->maxima;
    flips.noise = explained->noise;
    flips.largest = explained->largest;
    flips.moved = explained->moved / norm;
    out_.kinks.push_back(flips);
    flipped_.insert(gradient);
    const bool diverged = result.outcome == Outcome::kDiverged;
    known_[gradient] = known_[gradient] && explained->known;
    if (diverged)
      judge_again(gradient, {explained->moved + room(gradient),
                             kRoomOfKinks * explained->moved + room(gradient)});
    for (const std::size_t i : reached_from(gradient)) {
      moved_parts_[i] += flips.moved * flips.moved;
      known_[i] = known_[i] && explained->known;
      // If the gradient matches as a whole, the noise of what follows already contains such flips.
      if (diverged) moved_[i] += flips.moved * flips.moved;
    }
    return true;
  }

  // Nothing if a shard can no longer be read.
  std::optional<FlippedElements> compared(std::size_t gradient, std::size_t argument,
                                          ElementFlips::Allowed allowed) {
    const comparison::Pair& g = out_.results[gradient];
    const comparison::Pair& a = out_.results[argument];
    const judge::Tolerance& tolerance = out_.results[gradient].comparison->tolerance;
    ElementFlips flips(g.reference->shape, kLargeShare * tolerance.allowed_norm(),
                       tolerance.epsilon);
    try {
      const measure::TensorRef tensors[] = {{&input_.reference, a.reference},
                                            {&input_.candidate, a.candidate},
                                            {&input_.reference, g.reference},
                                            {&input_.candidate, g.candidate}};
      std::vector<std::unique_ptr<measure::TensorReader>> readers;
      for (const measure::TensorRef& tensor : tensors) {
        readers.push_back(tensor.open(measure::Replicas::kFirstOnly));
      }
      std::vector<double> values[4];
      tensor::for_each_sub_box(tensor::whole(g.reference->shape), measure::kReadElements,
                               [&](const tensor::Box& box) {
                                 for (std::size_t k = 0; k < 4; ++k) {
                                   values[k].resize(tensor::volume(box));
                                   readers[k]->read(box, values[k]);
                                 }
                                 flips.add({values[0], values[1], values[2], values[3]});
                               });
      for (const auto& reader : readers) out_.environment.bytes_read += reader->bytes_read();
    } catch (const base::InputError& error) {
      elsewhere_ = elsewhere_ || comparison::needs_another_machine(error.what());
      return std::nullopt;
    }
    return flips.found(allowed);
  }

  // Which of them flips explain is not known.
  void leave_gradients() {
    for (TensorComparison& result : out_.results) {
      const bool backward = is_gradient(result) || result.key.kind == Kind::kParamGrad ||
                            result.key.kind == Kind::kMainGrad;
      if (backward && diverged_by_numbers(result)) comparison::leave_to_other_machine(result);
    }
  }

  // The norm that flips so far allow result i, as a whole, on top.
  double room(std::size_t i) const { return room_for(i, moved_[i]); }

  double room_for(std::size_t i, double moved) const {
    const double norm = std::sqrt(out_.results[i].comparison->measurement.total.sum_r2);
    return kRoomOfKinks * std::min(std::sqrt(moved), carried(i)) * norm;
  }

  // By how much the gradients that flips reach, and that result i is computed from, are off,
  // relative to their norms. Infinite if none is known.
  double carried(std::size_t i) const {
    double most = -1;
    for (const std::size_t d : input_.flow.depends_on[i]) {
      const TensorComparison& before = out_.results[d];
      if (!is_gradient(before) && before.key.kind != Kind::kParamGrad) continue;
      if (!before.comparison || before.exact) return std::numeric_limits<double>::infinity();
      const measure::TileStats& total = before.comparison->measurement.total;
      const bool reached = moved_parts_[d] > 0 || flipped_.contains(d);
      if (reached && total.sum_r2 > 0)
        most = std::max(most, std::sqrt(total.sum_d2 / total.sum_r2));
    }
    return most < 0 ? std::numeric_limits<double>::infinity() : most;
  }

  // In norms: how much more is allowed, and kRoomOfKinks times what flips moved.
  struct Room {
    double norm = 0;
    double flow = 0;
  };

  void judge_again(std::size_t i, const Room& room) {
    TensorComparison& result = out_.results[i];
    comparison::ComparedNumbers numbers = *result.comparison;
    const measure::TileStats& total = numbers.measurement.total;
    const double norm = std::sqrt(total.sum_r2);
    const double along = norm > 0 ? std::abs(total.sum_rc - total.sum_r2) / norm : 0;
    if (!(along <=
          numbers.tolerance.allowed_norm() + room_along(room.flow, norm, total.elements))) {
      return;
    }
    judge::allow_kinks(room.norm, numbers.tolerance);
    // A slice may consist of little else than what one element moves.
    const double of_parts = room_for(i, moved_parts_[i]);
    const double room_of_parts = std::max(room.norm, of_parts);
    judge::SliceJudgement slices = numbers.slices;
    // No slice that was not kept is off by more than the whole.
    if (measure::difference_norm(total) <= room_of_parts) slices.beyond = slices.found.size();
    numbers.slices =
        with_room_of_kinks(std::move(slices), room_of_parts, std::max(room.flow, of_parts));
    numbers.tolerance.kinks = room_of_parts;
    const judge::Judgement judgement = judge::judge(
        result.key.kind, numbers.measurement, numbers.tolerance, result.exact, numbers.slices);
    if (judge::is_bad(judgement.outcome)) return;
    if (!known_[i]) {
      result.outcome = Outcome::kNotJudged;
      result.reason =
          "off by no more than elements on the other side of a kink may move it, but which kink it "
          "is was not recorded";
      return;
    }
    result.comparison = std::move(numbers);
    result.outcome = judgement.outcome;
    result.reason = judgement.reason;
  }

  // Returns everything downstream of a gradient, the gradients of the modules around it, and those
  // of all values of the modules that it reaches: a value that modules pass on has one gradient,
  // which they name before the terms that it is the sum of.
  std::vector<std::size_t> reached_from(std::size_t gradient) const {
    const TensorComparison& of = out_.results[gradient];
    std::vector<bool> reached = localize::reached(dependants_, {gradient});
    const auto beside = [&](std::size_t i) {
      const TensorComparison& result = out_.results[i];
      return is_gradient(result) && result.key.step == of.key.step &&
             result.key.microbatch == of.key.microbatch;
    };
    std::set<std::string_view> modules;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (reached[i] && beside(i) && i != gradient) modules.insert(module_of(out_.results[i]));
    }
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const std::string_view module = module_of(out_.results[i]);
      if (i == gradient) continue;
      if (reached[i] ||
          (beside(i) && (modules.contains(module) || contains(module, module_of(of))))) {
        found.push_back(i);
      }
    }
    return found;
  }

  const KinkInput& input_;
  comparison::CompareReport& out_;
  // For result i, Σ moved² of the flips that reach it, relative to the norms: first of those in
  // gradients that diverged, then of all.
  std::vector<double> moved_;
  std::vector<double> moved_parts_;
  std::vector<bool> known_;        // whether it is known which kinks these are
  std::set<std::size_t> flipped_;  // gradients that were explained
  std::vector<std::vector<std::size_t>> dependants_;
  bool elsewhere_ = false;  // whether a gradient could not be looked at on this machine
};

}  // namespace

double room_along(double room, double reference_norm, std::uint64_t elements) {
  if (!(room > 0) || !(reference_norm > 0) || elements == 0) return room;
  const double moved = room / kRoomOfKinks;
  const double by_chance =
      room / std::sqrt(std::min(static_cast<double>(elements), kMostDirections));
  return std::min(room, by_chance + moved * moved / reference_norm);
}

judge::SliceJudgement with_room_of_kinks(judge::SliceJudgement judgement, double room,
                                         double flow) {
  using judge::Slice;
  if (judgement.beyond > judgement.found.size()) return judgement;
  const auto allow = [room, flow](Slice& slice) {
    std::uint64_t elements = 0;
    for (const tensor::Box& box : slice.boxes) elements += tensor::volume(box);
    const bool scale = slice.what == Slice::What::kScale;
    judge::allow_kinks(scale ? room_along(flow, slice.reference_norm, elements) : room,
                       slice.tolerance);
  };
  std::erase_if(judgement.found, [&allow](Slice& slice) {
    allow(slice);
    return slice.difference_norm <= slice.tolerance.allowed_norm();
  });
  judgement.beyond = judgement.found.size();
  if (judgement.worst) allow(*judgement.worst);
  return judgement;
}

void explain_kinks(const KinkInput& input, comparison::CompareReport& out) {
  const bool any = std::any_of(out.results.begin(), out.results.end(), diverged_by_numbers);
  if (any) Kinks(input, out).run();
}

}  // namespace ttrace::routing
