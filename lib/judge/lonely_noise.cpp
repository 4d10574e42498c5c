#include "judge/lonely_noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "judge/fallback_rule.h"

namespace ttrace::judge {
namespace {

using trace::Kind;

bool takes_part(Kind kind) {
  return trace::is_module_value(kind) || kind == Kind::kParamGrad || kind == Kind::kMainGrad ||
         kind == Kind::kLoss || kind == Kind::kParam;
}

using OfModule = std::tuple<std::uint64_t, std::string, Kind>;

OfModule of_module_and_kind(const trace::TensorKey& key) {
  return {key.step, trace::module_of(key), key.kind};
}

// The module and those that it lies in, the whole model last.
std::vector<std::string> with_ancestors(std::string module) {
  std::vector<std::string> modules;
  while (module != trace::kWholeModel) {
    modules.push_back(module);
    const std::size_t dot = module.rfind('.');
    module = dot == std::string::npos ? std::string(trace::kWholeModel) : module.substr(0, dot);
  }
  modules.push_back(std::move(module));
  return modules;
}

// The noise of a group of tensors, in units of their sizes.
struct Group {
  std::vector<double> all;

  void sort() { std::sort(all.begin(), all.end()); }
  double median() const { return all.empty() ? 0 : all[(all.size() - 1) / 2]; }
  double largest() const { return all.empty() ? 0 : all.back(); }
  // Of the others than one that has `own`.
  double largest_beside(double own) const {
    if (all.size() < 2) return 0;
    return own < all.back() ? all.back() : all[all.size() - 2];
  }
};

}  // namespace

void LonelyNoise::add(const trace::TensorKey& key, double noise, double norm,
                      std::uint64_t elements, double epsilon) {
  if (!takes_part(key.kind) || !std::isfinite(noise) || !std::isfinite(norm)) return;
  tensors_.push_back({key, noise, norm, elements, epsilon});
}

std::vector<LonelyNoise::Found> LonelyNoise::find() const {
  TypicalSize typical;
  std::map<OfModule, double> largest;  // root mean squares
  for (const Tensor& tensor : tensors_) {
    typical.add(tensor.key.kind, tensor.norm, tensor.elements);
    const auto elements = static_cast<double>(std::max<std::uint64_t>(tensor.elements, 1));
    double& of_module = largest[of_module_and_kind(tensor.key)];
    of_module = std::max(of_module, tensor.norm / std::sqrt(elements));
  }
  std::map<Kind, double> usual;
  for (const Kind kind : trace::kAllKinds) usual.emplace(kind, typical.rms(kind));
  const auto share = [&](const Tensor& tensor) {
    const double rms =
        std::max(usual.at(tensor.key.kind), largest.at(of_module_and_kind(tensor.key)));
    // A loss may be nearly 0; it changes by as much as the numbers that it is made of.
    const double more =
        tensor.key.kind == Kind::kLoss ? 1 : rms * std::sqrt(static_cast<double>(tensor.elements));
    const double size = tensor.norm + more;
    return size > 0 ? tensor.noise / size : 0;
  };

  std::map<std::pair<std::uint64_t, Kind>, Group> kinds;
  std::map<std::pair<std::uint64_t, std::string>, Group> modules;
  for (const Tensor& tensor : tensors_) {
    const double noise = share(tensor);
    kinds[{tensor.key.step, tensor.key.kind}].all.push_back(noise);
    if (tensor.key.kind == Kind::kLoss) continue;
    for (const std::string& module : with_ancestors(trace::module_of(tensor.key))) {
      modules[{tensor.key.step, module}].all.push_back(noise);
    }
  }
  for (auto& [of, group] : kinds) group.sort();
  for (auto& [of, group] : modules) group.sort();

  const auto largest_of = [&kinds](std::uint64_t step, Kind kind) {
    const auto group = kinds.find({step, kind});
    return group == kinds.end() ? 0 : group->second.largest();
  };

  std::vector<Found> found;
  for (const Tensor& tensor : tensors_) {
    const trace::TensorKey& key = tensor.key;
    if (key.kind == Kind::kParam) continue;
    const double own = share(tensor);
    const Group& kind = kinds.at({key.step, key.kind});
    double shown = std::max(tensor.epsilon, largest_of(key.step, Kind::kParam));
    if (key.kind == Kind::kLoss) {
      if (!kinds.contains({key.step, Kind::kOutput})) continue;
      shown = std::max(shown, largest_of(key.step, Kind::kOutput));
    } else {
      const Group& module = modules.at({key.step, trace::module_of(key)});
      const Group& beside = module.all.size() > 1 ? module : kind;
      shown = std::max({shown, kind.median(), beside.largest_beside(own)});
    }
    if (tensors_.size() < kFewestWithNoise || !(shown > 0) || !(own > kLonely * shown)) continue;
    found.push_back({key, own / shown});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.key < b.key; });
  return found;
}

}  // namespace ttrace::judge
