#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/text.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr double kMostMultiplications = 0x1p27;  // over all orders that are tried
// Of more chunks only orders in which two are swapped are tried.
constexpr std::uint64_t kMostChunksInAnyOrder = 4;

// The two factors of a weight's gradient dYᵀ·X, of one module call.
struct Operands {
  std::vector<double> dy;  // [tokens, out]
  std::vector<double> x;   // [tokens, in]
  std::uint64_t tokens = 0;
  std::uint64_t out = 0;
  std::uint64_t in = 0;
  std::uint64_t first = 0;  // extent of the first dimension
};

const comparison::TensorComparison* operand_value(const Case& the_case, trace::Kind kind,
                                                  std::string_view name) {
  const trace::TensorKey& key = the_case.result->key;
  const comparison::TensorComparison* found = nullptr;
  for (const auto* record : the_case.related->of_kind(kind)) {
    if (record->key.name != name || record->key.step != key.step) continue;
    if (record->key.microbatch != key.microbatch || record->reference == nullptr) continue;
    if (found != nullptr) return nullptr;  // several calls
    found = record;
  }
  return found;
}

std::optional<Operands> operands_of(const Case& the_case) {
  const trace::TensorKey& key = the_case.result->key;
  const tensor::Shape& shape = the_case.result->shape;
  constexpr std::string_view kWeight = ".weight";
  if (key.kind != trace::Kind::kParamGrad || shape.size() != 2) return std::nullopt;
  if (!std::string_view(key.name).ends_with(kWeight)) return std::nullopt;
  const std::string_view module =
      std::string_view(key.name).substr(0, key.name.size() - kWeight.size());
  const auto* x = operand_value(the_case, trace::Kind::kInput, module);
  const auto* dy = operand_value(the_case, trace::Kind::kGradOutput, module);
  if (x == nullptr || dy == nullptr || x->shape.size() != dy->shape.size()) return std::nullopt;
  if (x->shape.size() < 2 || x->shape.back() != shape[1] || dy->shape.back() != shape[0]) {
    return std::nullopt;
  }
  if (!std::equal(x->shape.begin(), x->shape.end() - 1, dy->shape.begin())) return std::nullopt;
  Operands made;
  made.out = shape[0];
  made.in = shape[1];
  made.first = x->shape[0];
  made.tokens = 1;
  for (std::size_t d = 0; d + 1 < x->shape.size(); ++d) made.tokens *= x->shape[d];
  const double work = static_cast<double>(made.tokens) * static_cast<double>(made.out) *
                      static_cast<double>(made.in);
  if (!(work * 2 <= kMostMultiplications)) return std::nullopt;
  made.x.resize(made.tokens * made.in);
  made.dy.resize(made.tokens * made.out);
  the_case.related->reference(*x)
      .open(measure::Replicas::kFirstOnly)
      ->read(tensor::whole(x->shape), made.x);
  the_case.related->reference(*dy)
      .open(measure::Replicas::kFirstOnly)
      ->read(tensor::whole(dy->shape), made.dy);
  return made;
}

// Adds chunk `of_dy` of dY transposed times chunk `of_x` of X.
void add_product(const Operands& operands, std::uint64_t chunks, std::uint64_t of_dy,
                 std::uint64_t of_x, std::vector<double>& sum) {
  const std::uint64_t length = operands.tokens / chunks;
  for (std::uint64_t t = 0; t < length; ++t) {
    const double* dy = &operands.dy[(of_dy * length + t) * operands.out];
    const double* x = &operands.x[(of_x * length + t) * operands.in];
    for (std::uint64_t o = 0; o < operands.out; ++o) {
      double* row = &sum[o * operands.in];
      for (std::uint64_t i = 0; i < operands.in; ++i) row[i] += dy[o] * x[i];
    }
  }
}

std::vector<std::vector<std::size_t>> orders_of(std::uint64_t chunks) {
  std::vector<std::size_t> order(chunks);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<std::size_t>> orders;
  if (chunks <= kMostChunksInAnyOrder) {
    while (std::next_permutation(order.begin(), order.end())) orders.push_back(order);
    return orders;
  }
  for (std::size_t i = 0; i < chunks; ++i) {
    for (std::size_t j = i + 1; j < chunks; ++j) {
      std::vector<std::size_t> swapped = order;
      std::swap(swapped[i], swapped[j]);
      orders.push_back(std::move(swapped));
    }
  }
  return orders;
}

double squared_distance_in(const std::vector<tensor::Box>& boxes, std::uint64_t width,
                           const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (const tensor::Box& box : boxes) {
    for (std::uint64_t i = 0; i < box.extent[0]; ++i) {
      for (std::uint64_t j = 0; j < box.extent[1]; ++j) {
        const std::uint64_t at = (box.origin[0] + i) * width + box.origin[1] + j;
        sum += (a[at] - b[at]) * (a[at] - b[at]);
      }
    }
  }
  return sum;
}

std::string describe_order(const std::vector<std::size_t>& order) {
  std::string text;
  for (const std::size_t chunk : order) text += base::concat(text.empty() ? "" : " ", chunk);
  return text;
}

}  // namespace

std::vector<Cause> find_operand_order(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.exact) return {};
  if (the_case.conflict || the_case.measurement->total.nonfinite_different > 0) return {};
  const auto operands = operands_of(the_case);
  if (!operands) return {};
  const tensor::Box whole = tensor::whole(the_case.result->shape);
  std::vector<double> candidate(tensor::volume(whole));
  std::vector<double> reference(candidate.size());
  the_case.candidate.open(measure::Replicas::kFirstOnly)->read(whole, candidate);
  the_case.reference.open(measure::Replicas::kFirstOnly)->read(whole, reference);
  const double allowed = the_case.tolerance.allowed_norm();

  // The module is a matrix product if this is the reference's gradient.
  std::vector<double> product(candidate.size(), 0.0);
  add_product(*operands, 1, 0, 0, product);
  if (squared_distance_in({whole}, operands->in, product, reference) > allowed * allowed) return {};

  std::set<std::uint64_t> counts;
  for (const std::uint64_t size : axis_sizes(the_case)) counts.insert({size, 2 * size});
  double most_work = kMostMultiplications;
  for (const std::uint64_t chunks : counts) {
    if (operands->first % chunks != 0) continue;
    const auto orders = orders_of(chunks);
    const double work = static_cast<double>(orders.size()) *
                        static_cast<double>(operands->tokens * operands->out * operands->in);
    most_work -= work;
    if (most_work < 0) break;
    struct Best {
      double left2 = 0;
      std::vector<std::size_t> order;  // empty: as the reference
    };
    std::vector<Best> best;
    for (const measure::BlockStats& block : the_case.measurement->blocks) {
      best.push_back(
          {squared_distance_in(block.owner->boxes, operands->in, candidate, reference), {}});
    }
    for (const std::vector<std::size_t>& order : orders) {
      std::fill(product.begin(), product.end(), 0.0);
      for (std::uint64_t i = 0; i < chunks; ++i) {
        add_product(*operands, chunks, i, order[i], product);
      }
      for (std::size_t b = 0; b < best.size(); ++b) {
        const double left2 = squared_distance_in(the_case.measurement->blocks[b].owner->boxes,
                                                 operands->in, candidate, product);
        if (left2 < best[b].left2) best[b] = {left2, order};
      }
    }
    double left2 = 0;
    std::set<std::string> said;
    for (const Best& one : best) {
      left2 += one.left2;
      if (!one.order.empty()) said.insert(describe_order(one.order));
    }
    const double left = std::sqrt(left2);
    if (said.empty() || !explains(the_case, left, {orders.size()})) {
      reject(the_case, "wrong_order", left);
      continue;
    }
    std::string text;
    for (const std::string& order : said) text += base::concat(text.empty() ? "" : ", or ", order);
    return {cause_that_leaves(
        the_case, left, "wrong_order", "",
        {"the product of the output's gradient and the input, whose {chunks} chunks along "
         "dimension {dim} are in the order {chunk_order}",
         {{"chunks", chunks}, {"dim", std::uint64_t{0}}, {"chunk_order", text}}})};
  }
  return {};
}

}  // namespace ttrace::localize
