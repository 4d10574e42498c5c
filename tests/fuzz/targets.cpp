#include "fuzz/targets.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include "answer/answer_json.h"
#include "base/error.h"
#include "judge/calibration.h"
#include "layout/map_rules.h"
#include "report/explain_text.h"
#include "report/file_formats.h"
#include "report/json/part_of_work_json.h"
#include "report/nights/known_file.h"
#include "report/nights/night.h"
#include "report/page/read_answer.h"
#include "report/page/shown_text.h"
#include "report/reported_comparison.h"
#include "specification/specification.h"
#include "trace/manifest.h"
#include "trace/range/range_table.h"
#include "trace/safetensors/header.h"

namespace ttrace::fuzz {
namespace {

const std::string kFile = "f";

// Calls all, because what one refuses another may read.
template <typename... Readers>
void each(const Readers&... readers) {
  const auto one = [](const auto& reader) {
    try {
      reader();
    } catch (const base::InputError&) {
    }
  };
  (one(readers), ...);
}

void read_manifest(std::string_view bytes) {
  const trace::Manifest manifest = trace::parse_manifest(bytes, kFile);
  trace::parse_manifest(trace::manifest_text(manifest), kFile);  // is read again
}

void read_ranges(std::string_view bytes) {
  constexpr std::uint64_t kAt = 4096;
  const trace::range::RangeTable table(bytes, kAt, kAt + bytes.size() + 4096);
  std::size_t found = 0;
  trace::range::for_each_range(
      bytes, [&](std::string_view name, const auto&) { found += table.find(name) ? 1 : 0; });
  if (found != table.size()) throw base::internal_error("a range is not found by its name");
}

void read_header(std::string_view bytes) {
  bool is_read = false;
  const auto whole = [&] { return std::exchange(is_read, true) ? std::string_view() : bytes; };
  trace::safetensors::parse_header(whole, bytes.size(), bytes.size() + 64, kFile);
}

void read_report(std::string_view bytes) {
  std::ostringstream out;
  each([&] { report::read_night(bytes, kFile); }, [&] { report::parse_reported(bytes, kFile); },
       [&] { report::parse_share(bytes, kFile); },
       [&] { report::explain_finding(1, answer::read_answer(bytes, kFile), kFile, {}, out); });
  const report::PageAnswer page = report::read_page_answer(bytes, kFile);
  report::shown_text(page);
  for (const report::FileFormat& format : report::file_formats()) {
    if (format.render != nullptr) format.render(page);
  }
  // What was read is written, and read again as the same.
  const std::string text = answer::json_of(answer::read_answer(bytes, kFile));
  if (answer::json_of(answer::read_answer(text, kFile)) != text) {
    throw base::internal_error("an answer is not what it was written as");
  }
}

void read_specification(std::string_view bytes) {
  specification::parse_specification(bytes, kFile);
}

void read_rules(std::string_view bytes) {
  each([&] { layout::parse_map_rules(bytes, kFile); },
       [&] { judge::parse_calibration(bytes, kFile); }, [&] { report::parse_known(bytes, kFile); });
}

constexpr std::array kTargets{
    Target{"manifest", read_manifest},           Target{"ranges", read_ranges},
    Target{"safetensors", read_header},          Target{"report", read_report},
    Target{"specification", read_specification}, Target{"rules", read_rules},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto found = std::find_if(kTargets.begin(), kTargets.end(),
                                  [name](const Target& one) { return one.name == name; });
  return found == kTargets.end() ? nullptr : &*found;
}

void read(const Target& target, std::string_view bytes) {
  each([&] { target.read(bytes); });
}

}  // namespace ttrace::fuzz
