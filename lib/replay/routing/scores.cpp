#include "replay/routing/scores.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "measure/left_out_rows.h"

namespace ttrace::replay {

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

constexpr double kSumRounding = 4 * 0x1p-23;

// Of the score itself, and half an ulp of its exponential, should the choice be made after a
// softmax or sigmoid.
double rounding_of(double score, double epsilon) { return epsilon * (std::abs(score) + 0.25); }

constexpr std::size_t kMostRowsKept = std::size_t{1} << 20;  // elements of W: 8 MiB

class RecordedScores final : public Scores {
 public:
  RecordedScores(const measure::TensorRef& scores, std::uint64_t tokens, double epsilon)
      : rows_(scores, tokens), epsilon_(epsilon) {}

  Score of(std::uint64_t token, std::uint64_t expert) override {
    const double value = rows_.row(token)[expert];
    return {value, rounding_of(value, epsilon_)};
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
    score.rounding = rounding_of(score.value, epsilon_) + kSumRounding * sizes;
    return score;
  }
  std::uint64_t bytes_read() const override {
    return input_.bytes_read() + weight_.bytes_read() + (bias_ ? bias_->bytes_read() : 0);
  }

 private:
  // A few rows are asked for again and again.
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

}  // namespace ttrace::replay
