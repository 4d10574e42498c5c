#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/nights/trend.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::JsonCursor;

std::vector<std::optional<double>> used_at(const JsonCursor& item) {
  std::vector<std::optional<double>> used;
  for (const JsonCursor& one : item.require("used").items()) {
    if (one.is_null()) {
      used.emplace_back();
    } else {
      used.emplace_back(one.is_string() ? std::numeric_limits<double>::infinity()
                                        : one.as_number());
    }
  }
  return used;
}

// Step, kind and name of an id such as "3/-/main_grad/fc.weight/0/0"; any other id is a name alone.
PageTensor tensor_of_id(const std::string& id) {
  PageTensor tensor;
  tensor.id = id;
  tensor.name = id;
  tensor.kind = "setting";
  const std::size_t step = id.find('/');
  const std::size_t microbatch = step == std::string::npos ? step : id.find('/', step + 1);
  const std::size_t kind = microbatch == std::string::npos ? step : id.find('/', microbatch + 1);
  if (kind == std::string::npos || id.find(':') < step) return tensor;
  std::from_chars(id.data(), id.data() + step, tensor.step);
  tensor.kind = id.substr(microbatch + 1, kind - microbatch - 1);
  tensor.name = id.substr(kind + 1);
  return tensor;
}

}  // namespace

void read_trend(const JsonCursor& root, PageAnswer& answer) {
  answer.command = "trend";
  answer.findings_are = "tensor, night by night";
  answer.repeat = "ttrace report trend";
  for (const JsonCursor& night : root.require("nights").items()) {
    const std::string file = night.require("file").as_string();
    answer.repeat += " " + shell_word(file);
    std::string line = concat(file, ": ", words(night.require("verdict").as_string()));
    for (const JsonCursor& change : night.require("changed").items()) {
      line += concat("; ", change.require("what").as_string(), ": ",
                     change.require("was").as_string(), " → ", change.require("is").as_string());
    }
    answer.remarks.push_back(std::move(line));
  }
  // The last nights are those that one reads for.
  std::reverse(answer.remarks.begin(), answer.remarks.end());
  for (const JsonCursor& item : root.require("tensors").items()) {
    const std::vector<std::optional<double>> used = used_at(item);
    PageTensor tensor = tensor_of_id(item.require("id").as_string());
    if (!used.empty()) tensor.used = used.back();
    tensor.alarming = tensor.used && *tensor.used > 1;
    tensor.outcome = !tensor.used ? "not_judged" : tensor.alarming ? "diverged" : "match";
    if (answer.findings.size() < kTrendRows) {
      PageFinding row;
      row.id = tensor.id;
      row.title = concat(picture_of(used), " ", tensor.name);
      row.outcome = tensor.outcome;
      row.place = tensor.kind == "setting" ? "" : concat(tensor.kind, ", step ", tensor.step);
      row.known = !tensor.alarming;
      answer.findings.push_back(std::move(row));
    }
    answer.tensors.push_back(std::move(tensor));
  }
}

}  // namespace ttrace::report
