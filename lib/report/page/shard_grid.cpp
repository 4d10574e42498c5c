#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/display_limits.h"
#include "base/functions.h"
#include "base/text.h"
#include "report/page/read_parts.h"
#include "report/page/sections.h"

namespace ttrace::report {
namespace {

constexpr double kWidth = 360;
constexpr double kHeight = 120;
constexpr int kShades = 6;

// From 0 for no error to 6 for all of it, by its logarithm.
int shade_of(double share) {
  if (!(share > 0)) return 0;
  constexpr double kDecades = 4;
  const double height = 1 + base::decimal_logarithm(share) / kDecades;
  return std::clamp(static_cast<int>(std::ceil(height * kShades)), 1, kShades);
}

// A side of the drawing: the first dimension goes down, all others together to the right.
struct Side {
  double from = 0;
  double size = 0;
};

Side across(const PageShard& shard, const std::vector<double>& shape, double width) {
  // Several dimensions are drawn as one: from the position of the shard's first element, as long as
  // the number of its elements.
  double from = 0;
  double extent = 1;
  double all = 1;
  for (std::size_t d = shape.size(); d-- > 1;) {
    from += static_cast<double>(shard.origin[d]) * all;
    extent *= static_cast<double>(shard.extent[d]);
    all *= shape[d];
  }
  return {from / all * width, extent / all * width};
}

Side down(const PageShard& shard, const std::vector<double>& shape, double height) {
  return {static_cast<double>(shard.origin[0]) / shape[0] * height,
          static_cast<double>(shard.extent[0]) / shape[0] * height};
}

// With two decimals: a thousand shards of 360 pixels need them.
std::string coordinate(double value) { return base::concat(std::round(100 * value) / 100); }

// The extent of all shards together; empty if they do not have one number of dimensions.
std::vector<double> whole_of(const std::vector<PageShard>& shards) {
  std::vector<double> shape(shards.front().origin.size(), 1);
  for (const PageShard& shard : shards) {
    if (shard.origin.size() != shape.size() || shard.extent.size() != shape.size()) return {};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      shape[d] = std::max(
          shape[d], static_cast<double>(shard.origin[d]) + static_cast<double>(shard.extent[d]));
    }
  }
  return shape;
}

std::string shard_title(const PageShard& shard) {
  std::string title = shard.ranks.empty()
                          ? "padding: "
                          : base::concat(shard.ranks.size() == 1 ? "rank " : "ranks ",
                                         ranks_text(shard.ranks), ": ");
  for (std::size_t d = 0; d < shard.origin.size(); ++d) {
    title +=
        base::concat(d > 0 ? ", " : "[", shard.origin[d], ":", shard.origin[d] + shard.extent[d]);
  }
  title += base::concat("], ", base::short_number(100 * shard.share), " % of the squared error");
  if (shard.error) title += base::concat(", error ", base::short_number(*shard.error));
  return title;
}

}  // namespace

Markup shard_grid(const PageFinding& finding) {
  Markup out;
  if (finding.shards.size() < 2 || finding.shards.size() > base::kShown.page_shards) return out;
  std::vector<double> shape = whole_of(finding.shards);
  if (shape.empty()) return out;
  const double height = shape.size() == 1 ? kHeight / 4 : kHeight;
  out.open("figure", {{"class", "shards"}});
  out.open("svg", {{"viewBox", base::concat("0 0 ", kWidth, " ", height)},
                   {"width", base::concat(kWidth)},
                   {"height", base::concat(height)},
                   {"role", "img"},
                   {"aria-label", base::concat("the candidate's ", finding.shards.size(),
                                               " shards by their share of the squared error")}});
  for (const PageShard& shard : finding.shards) {
    Side x = {0, kWidth};
    Side y = {0, height};
    if (shape.size() == 1) {
      x = down(shard, shape, kWidth);
    } else {
      x = across(shard, shape, kWidth);
      y = down(shard, shape, height);
    }
    out.open("rect", {{"x", coordinate(x.from)},
                      {"y", coordinate(y.from)},
                      {"width", coordinate(x.size)},
                      {"height", coordinate(y.size)},
                      {"class", base::concat("shade", shade_of(shard.share))}});
    out.element("title", shard_title(shard)).close("rect");
  }
  out.close("svg");
  const auto worst =
      std::max_element(finding.shards.begin(), finding.shards.end(),
                       [](const PageShard& a, const PageShard& b) { return a.share < b.share; });
  out.element("figcaption", base::concat(finding.shards.size(),
                                         " shards; most of the error: ", shard_title(*worst)));
  return out.close("figure");
}

}  // namespace ttrace::report
