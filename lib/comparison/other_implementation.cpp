#include "comparison/other_implementation.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/message.h"
#include "trace/key.h"

namespace ttrace::comparison {
namespace {

using base::render;
using judge::Outcome;
using trace::Kind;

// What a module computes differently: "attention", "eager" in the reference, "sdpa" in the
// candidate.
struct Difference {
  std::string aspect;
  std::string reference;
  std::string candidate;
};

bool is_around(std::string_view outer, std::string_view inner) {
  return outer == inner || trace::is_inside(inner, outer);
}

// The implementations of a run by aspect and module. A candidate's modules may have other names
// than the reference's. If all modules of a run have one implementation, it counts for any name.
class Implementations {
 public:
  explicit Implementations(const trace::Manifest& manifest) {
    for (const trace::Module& module : manifest.modules) {
      for (const auto& [aspect, value] : module.implementation) {
        by_module_[aspect][module.name] = value;
        values_[aspect].insert(value);
      }
    }
  }

  const std::map<std::string, std::map<std::string, std::string>>& all() const {
    return by_module_;
  }
  std::optional<std::string> of(const std::string& aspect, const std::string& module) const {
    const auto modules = by_module_.find(aspect);
    if (modules == by_module_.end()) return std::nullopt;
    const auto found = modules->second.find(module);
    if (found != modules->second.end()) return found->second;
    const std::set<std::string>& values = values_.at(aspect);
    return values.size() == 1 ? std::optional(*values.begin()) : std::nullopt;
  }

 private:
  std::map<std::string, std::map<std::string, std::string>> by_module_;
  std::map<std::string, std::set<std::string>> values_;
};

// Returns the modules that compute in another way in the candidate, by name.
std::map<std::string, Difference> modules_that_differ(const Implementations& reference,
                                                      const Implementations& candidate) {
  std::map<std::string, Difference> found;
  const auto add = [&](const Implementations& modules_of) {
    for (const auto& [aspect, modules] : modules_of.all()) {
      for (const auto& [module, unused] : modules) {
        const auto ours = reference.of(aspect, module);
        const auto theirs = candidate.of(aspect, module);
        if (ours && theirs && *ours != *theirs) found[module] = {aspect, *ours, *theirs};
      }
    }
  };
  add(reference);
  add(candidate);
  return found;
}

// What the data flow of a run says about a module's results.
class Flow {
 public:
  explicit Flow(const trace::Manifest& manifest) {
    std::set<std::string> modules;
    for (const trace::Module& module : manifest.modules) {
      if (!module.class_name.empty()) modules.insert(module.name);
    }
    for (const trace::Module& module : manifest.modules) {
      read_.insert(module.inputs.begin(), module.inputs.end());
      if (!module.computed_from) continue;
      // The entry of a loss has no class.
      std::set<std::string>& sources =
          modules.contains(module.name) ? handed_on_[module.name] : read_;
      sources.insert(module.computed_from->begin(), module.computed_from->end());
    }
  }

  bool is_read(const std::string& value) const { return read_.contains(value); }
  // The values that the results of a container may be.
  const std::set<std::string>& sources_of(const std::string& container) const {
    static const std::set<std::string> kNone;
    const auto found = handed_on_.find(container);
    return found == handed_on_.end() ? kNone : found->second;
  }

 private:
  std::set<std::string> read_;
  std::map<std::string, std::set<std::string>> handed_on_;
};

// One call of a module.
using ModuleCall =
    std::tuple<std::uint64_t, std::optional<std::uint64_t>, std::string, std::uint64_t>;

ModuleCall module_call_of(const trace::TensorKey& key) {
  return {key.step, key.microbatch, std::string(trace::module_of_value(key.name)), key.call};
}

bool is_argument(Kind kind) { return kind == Kind::kInput || kind == Kind::kGradInput; }
bool is_result(Kind kind) { return kind == Kind::kOutput || kind == Kind::kGradOutput; }

// Whether the sides have it in forms that neither a cut nor lost rows can explain.
bool has_other_form(const TensorComparison& result) {
  const layout::View& reference = *result.reference;
  const layout::View& candidate = *result.candidate;
  return reference.shape.size() != candidate.shape.size() ||
         tensor::is_floating(reference.dtype) != tensor::is_floating(candidate.dtype);
}

class Marking {
 public:
  Marking(const trace::Manifest& reference, const trace::Manifest& candidate,
          std::map<std::string, Difference> differing, std::vector<TensorComparison>& results)
      : of_reference_(reference),
        of_candidate_(candidate),
        differing_(std::move(differing)),
        results_(results) {
    for (const TensorComparison& result : results) {
      if (result.reference == nullptr || result.candidate == nullptr) continue;
      if (result.key.kind == Kind::kOutput) ran_.insert(module_call_of(result.key));
      if (is_argument(result.key.kind)) given_.insert(module_call_of(result.key));
    }
  }

  void run() {
    // First the differing modules themselves, then the modules around them, which hand values on.
    each([this](TensorComparison& result, const std::string& module) {
      const auto found = differing_.find(module);
      if (found == differing_.end()) return;
      if (is_argument(result.key.kind)) {
        arguments_.push_back(&result);
        mark(found->second, result);
      } else if (!flow_of(result).is_read(result.key.name)) {
        values_.insert(result.key.name);
        mark(found->second, result);
      }
    });
    for (bool more = true; more;) {
      more = false;
      each([&](TensorComparison& result, const std::string& module) {
        if (const Difference* found = handed_on(result, module)) {
          if (is_result(result.key.kind)) values_.insert(result.key.name);
          mark(*found, result);
          more = true;
        }
      });
    }
  }

 private:
  // Visits the bad tensors that another implementation may explain.
  template <typename Visit>
  void each(Visit visit) {
    for (TensorComparison& result : results_) {
      const Kind kind = result.key.kind;
      const bool one_sided = judge::is_one_sided(result.outcome) &&
                             (result.reference == nullptr) != (result.candidate == nullptr);
      const bool other_form =
          result.outcome == Outcome::kIncomparable && is_argument(kind) && has_other_form(result);
      if (!other_form && !(one_sided && (is_argument(kind) || is_result(kind)))) continue;
      const ModuleCall call = module_call_of(result.key);
      // Where a result could not be recorded, another argument shows that the module ran.
      const bool ran = ran_.contains(call) || (is_argument(kind) && given_.contains(call));
      if (!ran) continue;
      visit(result, std::string(trace::module_of_value(result.key.name)));
    }
  }

  // Returns the difference of a module inside this one whose argument or result `result` hands on;
  // or null.
  const Difference* handed_on(const TensorComparison& result, const std::string& module) const {
    if (is_result(result.key.kind)) {
      const Flow& flow = flow_of(result);
      if (flow.is_read(result.key.name)) return nullptr;
      for (const std::string& source : flow.sources_of(module)) {
        if (values_.contains(source)) return within(module);
      }
      return nullptr;
    }
    for (const TensorComparison* argument : arguments_) {
      const std::string inner(trace::module_of_value(argument->key.name));
      if (inner != module && is_around(module, inner) && is_same_tensor(result, *argument)) {
        return &differing_.at(inner);
      }
    }
    return nullptr;
  }

  const Difference* within(const std::string& module) const {
    for (const auto& [inner, difference] : differing_) {
      if (is_around(module, inner)) return &difference;
    }
    return nullptr;
  }

  static bool is_same_tensor(const TensorComparison& outer, const TensorComparison& inner) {
    const auto alike = [](const layout::ViewPtr& a, const layout::ViewPtr& b) {
      if (a == nullptr || b == nullptr) return a == b;
      return a->shape == b->shape && a->dtype == b->dtype;
    };
    return outer.key.step == inner.key.step && outer.key.microbatch == inner.key.microbatch &&
           alike(outer.reference, inner.reference) && alike(outer.candidate, inner.candidate);
  }

  static void mark(const Difference& difference, TensorComparison& result) {
    const bool of_reference = result.candidate == nullptr;
    const std::string sides =
        render({"{reference} {aspect} in the reference, {candidate} in the candidate",
                {{"reference", difference.reference},
                 {"aspect", difference.aspect},
                 {"candidate", difference.candidate}}});
    if (result.outcome == Outcome::kIncomparable) {
      result.reason = render({"{sides}, which take it in different forms: {why}",
                              {{"sides", sides}, {"why", result.reason}}});
    } else {
      result.lacking = of_reference ? TraceSide::kCandidate : TraceSide::kReference;
      result.reason =
          render({"{sides}; only {owner} has it",
                  {{"sides", sides},
                   {"owner", of_reference ? difference.reference : difference.candidate}}});
    }
    result.outcome = Outcome::kNotRecorded;
    result.other_implementation = true;
  }

  const Flow& flow_of(const TensorComparison& result) const {
    return result.reference == nullptr ? of_candidate_ : of_reference_;
  }

  Flow of_reference_;
  Flow of_candidate_;
  std::map<std::string, Difference> differing_;
  std::vector<TensorComparison>& results_;
  std::set<ModuleCall> ran_;  // in both runs
  std::set<ModuleCall> given_;
  std::vector<const TensorComparison*> arguments_;  // of the modules that differ
  std::set<std::string> values_;                    // results that were marked
};

}  // namespace

void mark_other_implementations(const trace::Manifest& reference, const trace::Manifest& candidate,
                                std::vector<TensorComparison>& results) {
  auto found = modules_that_differ(Implementations(reference), Implementations(candidate));
  if (!found.empty()) Marking(reference, candidate, std::move(found), results).run();
}

}  // namespace ttrace::comparison
