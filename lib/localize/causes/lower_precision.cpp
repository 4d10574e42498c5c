#include <array>
#include <cmath>

#include "localize/causes/trial.h"
#include "measure/sections.h"
#include "tensor/codec.h"

namespace ttrace::localize {
namespace {

constexpr std::uint64_t kMostSampled = std::uint64_t{1} << 20;  // elements that are read
// Of these, that are not zero, and different values among them.
constexpr std::uint64_t kFewestSampled = 8;
constexpr double kMostOffGrid = 0.001;    // of the candidate's elements, not on the grid
constexpr double kMostOfReference = 0.5;  // of the reference's elements, on the grid
// The largest error that counts as rounding to the grid, in units of ε·‖R‖. One rounding makes 0.3,
// a sum over several ranks somewhat more.
constexpr double kMostError = 4;
// Nor is it more than this share of ‖R‖, to which four ε of an 8-bit type come near.
constexpr double kMostOfNorm = 0.5;

struct Grid {
  tensor::DType dtype;
  std::uint64_t of_candidate = 0;
  std::uint64_t of_reference = 0;
  std::uint64_t from_reference = 0;  // of the candidate's elements, the reference's rounded to it
  std::uint64_t from_candidate = 0;

  void add(double reference, double candidate) {
    const double r = tensor::round_to(dtype, reference);
    const double c = tensor::round_to(dtype, candidate);
    of_reference += r == reference ? 1 : 0;
    of_candidate += c == candidate ? 1 : 0;
    from_reference += r == candidate ? 1 : 0;
    from_candidate += c == reference ? 1 : 0;
  }
  bool holds_candidate(std::uint64_t elements) const {
    return static_cast<double>(elements - of_candidate) <=
           kMostOffGrid * static_cast<double>(elements);
  }
  // Whether one side is the other, rounded.
  bool is_rounding(std::uint64_t elements) const {
    return from_reference == elements || from_candidate == elements;
  }
};

// The spacing that one number of the type has relative to its size.
double relative_spacing(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat8E4M3:
      return 0x1p-3;
    case tensor::DType::kFloat8E5M2:
      return 0x1p-2;
    default:
      return tensor::epsilon(dtype);
  }
}

// The narrower types that the case's elements fit, and how many elements were looked at. What was
// stored before a step is nobody's result: one side must be the other, rounded.
struct Fitting {
  std::vector<Grid> grids;
  std::uint64_t elements = 0;
};

Fitting fitting_grids(const Case& the_case, bool stored_before) {
  const tensor::DType stored = the_case.candidate.view->dtype;
  Fitting fitting;
  for (const tensor::DType dtype :
       {tensor::DType::kFloat32, tensor::DType::kFloat16, tensor::DType::kBFloat16,
        tensor::DType::kFloat8E4M3, tensor::DType::kFloat8E5M2}) {
    if (relative_spacing(dtype) > relative_spacing(stored)) fitting.grids.push_back({dtype});
  }
  const auto of_reference = the_case.reference.open(measure::Replicas::kFirstOnly);
  const auto of_candidate = the_case.candidate.open(measure::Replicas::kFirstOnly);
  std::vector<double> r;
  std::vector<double> c;
  std::uint64_t sampled = 0;
  tensor::for_each_sub_box(tensor::whole(the_case.reference.view->shape), measure::kReadElements,
                           [&](const tensor::Box& box) {
                             if (sampled >= kMostSampled || fitting.grids.empty()) return;
                             r.resize(tensor::volume(box));
                             c.resize(r.size());
                             of_reference->read(box, r);
                             of_candidate->read(box, c);
                             sampled += r.size();
                             for (std::size_t i = 0; i < r.size(); ++i) {
                               const bool says_nothing =
                                   stored_before ? r[i] == c[i] : c[i] == 0 || r[i] == 0;
                               if (says_nothing || !std::isfinite(c[i])) continue;
                               ++fitting.elements;
                               for (Grid& grid : fitting.grids) grid.add(r[i], c[i]);
                             }
                             std::erase_if(fitting.grids, [&](const Grid& grid) {
                               return !(stored_before ? grid.is_rounding(fitting.elements)
                                                      : grid.holds_candidate(fitting.elements));
                             });
                           });
  return fitting;
}

std::vector<Cause> stored_through(const Case& the_case, const Fitting& fitting) {
  if (fitting.grids.empty()) return {};
  const Grid& grid = fitting.grids.front();
  const std::string type(dtype_short_name(grid.dtype));
  if (grid.from_reference == fitting.elements) {
    return {cause_of(
        the_case, "lower_precision", "",
        {"every element that differs is {reference}'s, rounded to {type}", {{"type", type}}}, 0)};
  }
  return {cause_of(the_case, "lower_precision", "",
                   {"every element that differs is the candidate's, rounded to {type} in {rounded}",
                    {{"type", type}, {"rounded", std::string("the reference")}}},
                   0)};
}

}  // namespace

std::vector<Cause> find_lower_precision(const Case& the_case) {
  const auto elements = tensor::element_count(the_case.reference.view->shape);
  const measure::TileStats& total = the_case.measurement->total;
  if (the_case.exact || !elements || *elements < kFewestSampled) return {};
  if (total.nonfinite_different > 0) return {};
  const bool stored_before = the_case.result != nullptr && the_case.result->stored_before;
  const Fitting fitting = fitting_grids(the_case, stored_before);
  if (fitting.elements < kFewestSampled) return {};
  if (stored_before) return stored_through(the_case, fitting);
  // Few different values lie on many grids: those of a constant on all of them.
  if (variety_of(the_case).of_candidate < kFewestSampled) return {};
  const double error = measure::difference_norm(total);
  const double norm = measure::reference_norm(total);
  std::vector<Cause> causes;
  for (const Grid& grid : fitting.grids) {
    const double share =
        static_cast<double>(grid.of_reference) / static_cast<double>(fitting.elements);
    const double unit = relative_spacing(grid.dtype) * norm;
    const double most = std::min(kMostError * unit, kMostOfNorm * norm);
    if (share > kMostOfReference || !(error <= most)) continue;
    const double left = std::max(0.0, error - unit);
    // A later grid is coarser and replaces an earlier one: the coarsest that holds all values
    // counts.
    causes.assign(1, cause_of(the_case, "lower_precision", "",
                              {"all values are numbers of {type}, {percent} % of {reference}'s "
                               "are, and the error is {epsilons} of its ε",
                               {{"type", std::string(dtype_short_name(grid.dtype))},
                                {"percent", 100 * share},
                                {"epsilons", error / unit}}},
                              relative_to_reference(the_case, left)));
  }
  return causes;
}

}  // namespace ttrace::localize
