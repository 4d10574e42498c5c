#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "layout/map_rules.h"

namespace ttrace::layout {
namespace {

// More values than any module has. If there are more, they are paired by position.
constexpr std::size_t kMostAligned = 1'000;

// What a module received or returned in one call.
using Call = std::tuple<trace::Kind, std::string, std::uint64_t, std::optional<std::uint64_t>,
                        std::uint64_t>;  // kind, module, step, micro-batch, call

struct Value {
  std::uint64_t position = 0;
  std::size_t tensor = 0;  // index of the view
};
using Calls = std::map<Call, std::vector<Value>>;

// Returns 2 for "attn[2]", and 0 for any other name.
std::uint64_t named_position(std::string_view name, std::string_view module) {
  std::uint64_t position = 0;
  if (name.size() < module.size() + 3) return 0;
  const std::string_view inside = name.substr(module.size() + 1, name.size() - module.size() - 2);
  const char* const end = inside.data() + inside.size();
  const auto [stop, error] = std::from_chars(inside.data(), end, position);
  return error == std::errc() && stop == end ? position : 0;
}

// The position that the collector recorded; a tensor that rules made of others has none.
std::optional<std::uint64_t> given_position(const View& view) {
  const auto* stored = std::get_if<Stored>(&view.how);
  return stored == nullptr ? std::nullopt : stored->entry->position;
}

Calls calls_of(const std::vector<ViewPtr>& tensors) {
  Calls calls;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const View& view = *tensors[i];
    const trace::TensorKey& key = view.key;
    if (!is_module_value(key.kind)) continue;
    const std::string_view module = trace::module_of_value(key.name);
    const std::uint64_t position = given_position(view).value_or(named_position(key.name, module));
    calls[{key.kind, std::string(module), key.step, key.microbatch, key.call}].push_back(
        {position, i});
  }
  for (auto& [call, values] : calls) {
    std::stable_sort(values.begin(), values.end(),
                     [](const Value& a, const Value& b) { return a.position < b.position; });
  }
  return calls;
}

bool alike(const View& first, const View& second, bool same_call) {
  if (tensor::is_floating(first.dtype) != tensor::is_floating(second.dtype)) return false;
  // Of another micro-batch, or of several, only the number of dimensions is the same.
  return same_call ? first.shape == second.shape : first.shape.size() == second.shape.size();
}

class Renaming {
 public:
  Renaming(const std::vector<ViewPtr>& tensors, const std::vector<ViewPtr>& reference)
      : tensors_(tensors), reference_(reference), names_(tensors.size()) {}

  std::vector<ViewPtr> run() {
    const Calls others = calls_of(reference_);
    for (const auto& [call, values] : calls_of(tensors_)) {
      auto known = others.find(call);
      const bool same_call = known != others.end();
      if (!same_call) {
        // The reference may have run several micro-batches at once.
        known = others.lower_bound({std::get<0>(call), std::get<1>(call), 0, std::nullopt, 0});
        const bool same_module = known != others.end() &&
                                 std::get<0>(known->first) == std::get<0>(call) &&
                                 std::get<1>(known->first) == std::get<1>(call);
        if (!same_module) continue;
      }
      rename_call(std::get<1>(call), values, known->second, same_call);
    }
    std::vector<ViewPtr> renamed = tensors_;
    for (std::size_t i = 0; i < renamed.size(); ++i) {
      if (names_[i].empty() || names_[i] == renamed[i]->key.name) continue;
      View view = *renamed[i];
      view.key.name = std::move(names_[i]);
      renamed[i] = std::make_shared<View>(std::move(view));
    }
    return renamed;
  }

 private:
  void rename_call(const std::string& module, const std::vector<Value>& ours,
                   const std::vector<Value>& theirs, bool same_call) {
    std::set<std::size_t> met;
    for (const auto& [mine, other] : matched(ours, theirs, same_call)) {
      const std::string& name = reference_[theirs[other].tensor]->key.name;
      names_[ours[mine].tensor] = name;
      met.insert(mine);
    }
    std::set<std::string_view> known;
    for (const Value& value : theirs) known.insert(reference_[value.tensor]->key.name);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const std::string& name = tensors_[ours[i].tensor]->key.name;
      if (met.contains(i) || !known.contains(name)) continue;
      // It must not be paired with another tensor that happens to have its name.
      names_[ours[i].tensor] = base::concat(module, "[position ", ours[i].position, "]");
    }
  }

  // Pairs of indices, ascending in both.
  std::vector<std::pair<std::size_t, std::size_t>> matched(const std::vector<Value>& ours,
                                                           const std::vector<Value>& theirs,
                                                           bool same_call) const {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    if (ours.size() == theirs.size() || std::max(ours.size(), theirs.size()) > kMostAligned) {
      for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
        pairs.emplace_back(i, i);
      }
      return pairs;
    }
    const auto meets = [&](std::size_t i, std::size_t j) {
      return alike(*tensors_[ours[i].tensor], *reference_[theirs[j].tensor], same_call);
    };
    // most[i][j]: how many pairs values i, i + 1, ... and j, j + 1, ... can make at most.
    std::vector<std::vector<std::size_t>> most(ours.size() + 1,
                                               std::vector<std::size_t>(theirs.size() + 1, 0));
    for (std::size_t i = ours.size(); i-- > 0;) {
      for (std::size_t j = theirs.size(); j-- > 0;) {
        most[i][j] = std::max(most[i + 1][j], most[i][j + 1]);
        if (meets(i, j)) most[i][j] = std::max(most[i][j], most[i + 1][j + 1] + 1);
      }
    }
    for (std::size_t i = 0, j = 0; i < ours.size() && j < theirs.size();) {
      if (meets(i, j) && most[i][j] == most[i + 1][j + 1] + 1) {
        pairs.emplace_back(i++, j++);
      } else if (most[i + 1][j] >= most[i][j + 1]) {
        ++i;
      } else {
        ++j;
      }
    }
    return pairs;
  }

  const std::vector<ViewPtr>& tensors_;
  const std::vector<ViewPtr>& reference_;
  std::vector<std::string> names_;  // new ones; empty where nothing changes
};

}  // namespace

std::vector<ViewPtr> renamed_values(const std::vector<ViewPtr>& tensors, bool by_position,
                                    const std::vector<ViewPtr>& reference,
                                    bool reference_by_position) {
  if (by_position == reference_by_position) return tensors;
  return Renaming(tensors, reference).run();
}

}  // namespace ttrace::layout
