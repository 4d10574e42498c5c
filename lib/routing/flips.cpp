#include "routing/flips.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "compare/tensor_reader.h"

namespace ttrace::routing {
namespace {

bool says_else(double reference, double candidate, Spelling spelling) {
  if (spelling == Spelling::kMap) return (reference != 0) != (candidate != 0);
  return reference != candidate;
}

}  // namespace

std::vector<std::uint64_t> flipped_tokens(const Decision& decision) {
  const auto reader = [](const compare::TensorRef& tensor) {
    return tensor.open(compare::Replicas::kFirstOnly);
  };
  const auto reference = reader(decision.reference);
  const auto candidate = reader(decision.candidate);
  const tensor::Box all = tensor::whole(decision.reference.view->shape);
  std::vector<std::uint64_t> tokens;
  if (decision.tokens == 0 || tensor::volume(all) == 0) return tokens;
  const std::uint64_t length = tensor::volume(all) / decision.tokens;
  std::vector<double> r;
  std::vector<double> c;
  std::uint64_t at = 0;  // slabs follow each other in row-major order
  tensor::for_each_slab(all, compare::kBandElements, [&](const tensor::Box& slab) {
    r.resize(tensor::volume(slab));
    c.resize(r.size());
    reference->read(slab, r);
    candidate->read(slab, c);
    for (std::size_t i = 0; i < r.size(); ++i) {
      if (!says_else(r[i], c[i], decision.spelling)) continue;
      const std::uint64_t token = (at + i) / length;
      if (tokens.empty() || tokens.back() != token) tokens.push_back(token);
    }
    at += r.size();
  });
  return tokens;
}

std::optional<std::vector<std::uint64_t>> experts_of(std::span<const double> row, Spelling spelling,
                                                     std::uint64_t experts) {
  std::vector<std::uint64_t> chosen;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (spelling == Spelling::kMap) {
      if (row[i] != 0) chosen.push_back(i);
    } else {
      if (!(row[i] >= 0 && row[i] < static_cast<double>(experts))) return std::nullopt;
      chosen.push_back(static_cast<std::uint64_t>(row[i]));
    }
  }
  std::sort(chosen.begin(), chosen.end());
  if (std::adjacent_find(chosen.begin(), chosen.end()) != chosen.end()) return std::nullopt;
  if (!chosen.empty() && chosen.back() >= experts) return std::nullopt;
  return chosen;
}

std::optional<Moved> moved(std::span<const double> reference, std::span<const double> candidate,
                           Spelling spelling, std::uint64_t experts) {
  const auto before = experts_of(reference, spelling, experts);
  const auto after = experts_of(candidate, spelling, experts);
  if (!before || !after || before->size() != after->size()) return std::nullopt;
  Moved result;
  std::set_difference(before->begin(), before->end(), after->begin(), after->end(),
                      std::back_inserter(result.left));
  std::set_difference(after->begin(), after->end(), before->begin(), before->end(),
                      std::back_inserter(result.joined));
  if (!result.left.empty() || spelling == Spelling::kMap) return result;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (reference[i] == candidate[i]) continue;
    result.left.push_back(static_cast<std::uint64_t>(reference[i]));
    result.joined.push_back(static_cast<std::uint64_t>(candidate[i]));
  }
  return result;
}

}  // namespace ttrace::routing
