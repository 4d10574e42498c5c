#include "routing/choices.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "base/error.h"
#include "measure/measure.h"
#include "measure/tensor_reader.h"
#include "tensor/box.h"

namespace ttrace::routing {

TokenRows::TokenRows(const measure::TensorRef& tensor, std::uint64_t tokens)
    : tensor_(tensor), tokens_(tokens), at_(tokens) {
  const tensor::Shape& shape = tensor.view->shape;
  const auto dims = measure::row_dimensions(shape, tokens);
  if (!dims) throw base::internal_error("no rows of tokens in ", tensor::to_string(shape));
  leading_.assign(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(*dims));
  std::uint64_t length = 1;
  for (std::size_t d = *dims; d < shape.size(); ++d) length *= shape[d];
  values_.resize(length);
  reader_ = tensor_.open(measure::Replicas::kFirstOnly);
}

std::span<const double> TokenRows::row(std::uint64_t token) {
  if (token == at_) return values_;
  tensor::Box box = tensor::whole(tensor_.view->shape);
  const tensor::Shape place = tensor::coordinates(tensor::whole(leading_), token);
  for (std::size_t d = 0; d < place.size(); ++d) {
    box.origin[d] = place[d];
    box.extent[d] = 1;
  }
  reader_->read(box, values_);
  at_ = token;
  return values_;
}

namespace {

constexpr double kSumRounding = 4 * 0x1p-23;  // of a sum in f32, relative to Σ|x·w|

// Half an ulp of a score's exponential, in case the choice is made after a softmax or sigmoid.
constexpr double kExponentialRounding = 0.25;

double rounding_of_score(double score, double epsilon) {
  return epsilon * (std::abs(score) + kExponentialRounding);
}

constexpr std::size_t kMostRowsKept = std::size_t{1} << 20;  // elements of W: 8 MiB

class RecordedScores final : public Scores {
 public:
  RecordedScores(const measure::TensorRef& scores, std::uint64_t tokens, double epsilon)
      : rows_(scores, tokens), epsilon_(epsilon) {}

  Score of(std::uint64_t token, std::uint64_t expert) override {
    const double value = rows_.row(token)[expert];
    return {value, rounding_of_score(value, epsilon_)};
  }
  std::uint64_t bytes_read() const override { return rows_.bytes_read(); }

 private:
  TokenRows rows_;
  double epsilon_;
};

class LinearScores final : public Scores {
 public:
  LinearScores(const measure::TensorRef& input, const measure::TensorRef& weight,
               const std::optional<measure::TensorRef>& bias, std::uint64_t tokens, double epsilon)
      : input_(input, tokens), weight_(weight, weight.view->shape.at(0)), epsilon_(epsilon) {
    if (bias) bias_.emplace(*bias, bias->view->shape.at(0));
  }

  Score of(std::uint64_t token, std::uint64_t expert) override {
    const std::span<const double> x = input_.row(token);
    const std::span<const double> w = weights_of(expert);
    Score score;
    double sizes = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      score.value += x[i] * w[i];
      sizes += std::abs(x[i] * w[i]);
    }
    if (bias_) score.value += bias_->row(expert)[0];
    score.rounding = rounding_of_score(score.value, epsilon_) + kSumRounding * sizes;
    return score;
  }
  std::uint64_t bytes_read() const override {
    return input_.bytes_read() + weight_.bytes_read() + (bias_ ? bias_->bytes_read() : 0);
  }

 private:
  // Keeps rows: few are read again and again.
  std::span<const double> weights_of(std::uint64_t expert) {
    const auto found = kept_.find(expert);
    if (found != kept_.end()) return found->second;
    const std::span<const double> row = weight_.row(expert);
    if ((kept_.size() + 1) * row.size() > kMostRowsKept) return row;
    return kept_.emplace(expert, std::vector<double>(row.begin(), row.end())).first->second;
  }

  TokenRows input_;
  TokenRows weight_;
  std::optional<TokenRows> bias_;
  std::map<std::uint64_t, std::vector<double>> kept_;
  double epsilon_;
};

}  // namespace

std::unique_ptr<Scores> recorded_scores(const measure::TensorRef& scores, std::uint64_t tokens,
                                        double epsilon) {
  return std::make_unique<RecordedScores>(scores, tokens, epsilon);
}

std::unique_ptr<Scores> linear_scores(const measure::TensorRef& input,
                                      const measure::TensorRef& weight,
                                      const std::optional<measure::TensorRef>& bias,
                                      std::uint64_t tokens, double epsilon) {
  return std::make_unique<LinearScores>(input, weight, bias, tokens, epsilon);
}

namespace {

bool differ(double reference, double candidate, Spelling spelling) {
  if (spelling == Spelling::kMap) return (reference != 0) != (candidate != 0);
  return reference != candidate;
}

}  // namespace

std::vector<std::uint64_t> flipped_tokens(const Decision& decision) {
  const auto reference = decision.reference.open(measure::Replicas::kFirstOnly);
  const auto candidate = decision.candidate.open(measure::Replicas::kFirstOnly);
  const tensor::Box all = tensor::whole(decision.reference.view->shape);
  std::vector<std::uint64_t> tokens;
  if (decision.tokens == 0 || tensor::volume(all) == 0) return tokens;
  const std::uint64_t length = tensor::volume(all) / decision.tokens;
  std::vector<double> r;
  std::vector<double> c;
  std::uint64_t at = 0;  // boxes follow each other in row-major order
  tensor::for_each_sub_box(all, measure::kReadElements, [&](const tensor::Box& box) {
    r.resize(tensor::volume(box));
    c.resize(r.size());
    reference->read(box, r);
    candidate->read(box, c);
    for (std::size_t i = 0; i < r.size(); ++i) {
      if (!differ(r[i], c[i], decision.spelling)) continue;
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

namespace {

struct Choice {
  tensor::Box whole;
  std::vector<double> experts;
};

class ChoiceReader : public measure::TensorReader {
 public:
  explicit ChoiceReader(std::shared_ptr<const Choice> choice) : choice_(std::move(choice)) {}

  void read(const tensor::Box& box, std::span<double> out) override {
    tensor::copy_common(choice_->whole, std::as_bytes(std::span(choice_->experts)), box,
                        std::as_writable_bytes(out), sizeof(double));
  }
  void read_integers(const tensor::Box&, std::span<std::int64_t>) override {
    throw base::internal_error("an implied choice is read as numbers");
  }
  std::vector<measure::RankBoxes> rank_boxes() const override {
    return {{{choice_->whole}, {}, ""}};
  }
  std::optional<measure::ElementPlace> locate(const tensor::Shape&) const override {
    return std::nullopt;
  }
  void for_each_check(const measure::VisitCheck&) const override {}
  std::uint64_t bytes_read() const override { return 0; }

 private:
  std::shared_ptr<const Choice> choice_;
};

}  // namespace

measure::TensorRef implied_choice(const measure::TensorRef& of, Scores& scores,
                                  std::uint64_t tokens, std::uint64_t experts, std::uint64_t chosen,
                                  Order order) {
  const auto choice = std::make_shared<Choice>();
  choice->whole = tensor::whole({tokens, chosen});
  choice->experts.reserve(tokens * chosen);
  std::vector<double> row(experts);
  std::vector<std::uint64_t> best(experts);
  for (std::uint64_t token = 0; token < tokens; ++token) {
    for (std::uint64_t e = 0; e < experts; ++e) row[e] = scores.of(token, e).value;
    std::iota(best.begin(), best.end(), 0);
    const auto stop = best.begin() + static_cast<std::ptrdiff_t>(chosen);
    std::partial_sort(best.begin(), stop, best.end(), [&row](std::uint64_t a, std::uint64_t b) {
      if (row[a] > row[b] || row[b] > row[a]) return row[a] > row[b];
      return a < b;
    });
    if (order == Order::kByNumber) std::sort(best.begin(), stop);
    choice->experts.insert(choice->experts.end(), best.begin(), stop);
  }
  layout::View view = *of.view;
  view.dtype = tensor::DType::kInt64;
  view.shape = choice->whole.extent;
  measure::TensorRef made(of.source, std::make_shared<const layout::View>(std::move(view)));
  made.opener = [choice](measure::Replicas) { return std::make_unique<ChoiceReader>(choice); };
  return made;
}

}  // namespace ttrace::routing
