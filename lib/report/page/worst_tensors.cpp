#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/sections.h"

namespace ttrace::report {
namespace {

// The rank of a tensor by its used share. Tensors that are wrong without a number, and NaN, count
// as infinite.
double badness(const PageTensor& tensor) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!tensor.used) return tensor.alarming ? kInfinity : -1;
  return std::isnan(*tensor.used) ? kInfinity : *tensor.used;
}

std::string cell_text(const std::optional<double>& value) {
  return value ? base::short_number(*value) : "";
}

}  // namespace

Markup worst_tensors(const PageAnswer& answer) {
  Markup out;
  if (answer.tensors.empty()) return out;
  std::vector<const PageTensor*> worst;
  worst.reserve(answer.tensors.size());
  for (const PageTensor& tensor : answer.tensors) worst.push_back(&tensor);
  std::stable_sort(worst.begin(), worst.end(), [](const PageTensor* a, const PageTensor* b) {
    return badness(*a) > badness(*b);
  });
  if (worst.size() > base::kShown.page_worst) worst.resize(base::kShown.page_worst);
  out.open("section", {{"id", "worst"}, {"class", "worst"}});
  out.element("h2", worst.size() == answer.tensors.size()
                        ? base::concat("All ", base::plural(worst.size(), "tensor"))
                        : base::concat("The worst ", worst.size(), " of ", answer.tensors.size(),
                                       " tensors"));
  out.open("table").open("thead").open("tr");
  for (const char* head : {"tensor", "outcome", "used", "error", "allowed", "shape"}) {
    out.element("th", head, {{"scope", "col"}});
  }
  out.close("tr").close("thead").open("tbody");
  for (const PageTensor* tensor : worst) {
    out.open("tr", {{"id", "t=" + base::printable(tensor->id)}});
    out.element("td", tensor->id);
    out.element("td", tensor->outcome, {{"class", tensor->alarming ? "alarm" : "calm"}});
    out.element("td", cell_text(tensor->used)).element("td", cell_text(tensor->error));
    out.element("td", cell_text(tensor->allowed));
    out.element("td", tensor->shape + " " + tensor->dtype).close("tr");
  }
  return out.close("tbody").close("table").close("section");
}

}  // namespace ttrace::report
