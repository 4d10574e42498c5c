#include "routing/implied_choice.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "tensor/box.h"

namespace ttrace::routing {
namespace {

struct Choice {
  tensor::Box whole;
  std::vector<double> experts;
};

class ChoiceReader : public compare::TensorReader {
 public:
  explicit ChoiceReader(std::shared_ptr<const Choice> choice) : choice_(std::move(choice)) {}

  void read(const tensor::Box& box, std::span<double> out) override {
    tensor::copy_common(choice_->whole, std::as_bytes(std::span(choice_->experts)), box,
                        std::as_writable_bytes(out), sizeof(double));
  }
  void read_integers(const tensor::Box&, std::span<std::int64_t>) override {
    throw base::internal_error("an implied choice is read as numbers");
  }
  std::vector<compare::Region> regions() const override { return {{{choice_->whole}, {}, ""}}; }
  std::optional<compare::Place> locate(const tensor::Shape&) const override { return std::nullopt; }
  void for_each_check(const compare::VisitCheck&) const override {}
  std::uint64_t bytes_read() const override { return 0; }

 private:
  std::shared_ptr<const Choice> choice_;
};

}  // namespace

compare::TensorRef implied_choice(const compare::TensorRef& of, Scores& scores,
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
  compare::TensorRef made(of.source, std::make_shared<const layout::View>(std::move(view)));
  made.opener = [choice](compare::Replicas) { return std::make_unique<ChoiceReader>(choice); };
  return made;
}

}  // namespace ttrace::routing
