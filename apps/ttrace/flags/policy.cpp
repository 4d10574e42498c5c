#include "flags/policy.h"

#include <array>
#include <ctime>
#include <sstream>
#include <utility>

#include "answer/answer_json.h"
#include "base/deflate.h"
#include "base/error.h"
#include "base/files.h"
#include "flags/flag_group.h"
#include "report/nights/known_file.h"
#include "report/nights/policy.h"
#include "report/page/shown_text.h"
#include "trace/key.h"

namespace ttrace::app {
namespace {

constexpr const char* kNew = "new";

std::string utc_today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  ::gmtime_r(&now, &day);
  std::array<char, 16> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d", &day);
  return {text.data(), length};
}

void require_kinds(const std::vector<std::string>& kinds) {
  for (const std::string& kind : kinds) {
    if (trace::parse_kind(kind)) continue;
    std::vector<std::string> known;
    for (const trace::Kind one : trace::kAllKinds) known.emplace_back(kind_name(one));
    throw base::usage_error("--require ", kind, ": is no kind of tensor",
                            base::nearest_hint(kind, known));
  }
}

// Returns the text that the command itself printed, with another first line.
std::string with_first_line(const std::string& text, const std::string& first) {
  const std::size_t end = text.find('\n');
  return first + (end == std::string::npos ? "" : text.substr(end + 1));
}

}  // namespace

void PolicyFlags::add_to(CLI::App& command, bool with_since) {
  const FlagGroup nights(command, kNights);
  nights
      .value("--known FILE", known,
             "differences that are known, with owner, reason and expiry (schemas/known-v1.md), "
             "repeatable")
      ->allow_extra_args(false);
  nights.value("--require KIND...", require, "3 if one of these kinds was not checked")
      ->delimiter(',');
  if (!with_since) return;
  nights.value("--since FILE", since, "an earlier report in JSON, for --fail-on new");
  nights.choice("--fail-on", fail_on, {"any", kNew},
                "1 for any finding, or for what is new since that report alone");
}

std::shared_ptr<const report::AnswerPolicy> PolicyFlags::read() const {
  if (!since.empty() && fail_on != kNew) {
    throw base::usage_error("--since has no effect without --fail-on new; add it, or compare the ",
                            "reports with `ttrace report diff`");
  }
  if (since.empty() && fail_on == kNew) {
    throw base::usage_error("--fail-on new needs --since OLD.json, the report of an earlier night");
  }
  if (!is_given()) return nullptr;
  require_kinds(require);
  auto policy = std::make_shared<report::AnswerPolicy>();
  policy->today = utc_today();
  policy->required = require;
  for (const std::string& file : known) {
    for (report::KnownDifference& one : report::parse_known(base::read_text(file), file)) {
      policy->known.push_back(std::move(one));
    }
  }
  if (!since.empty()) {
    // Refuses a wrong file before the long work.
    policy->since = answer::read_answer(base::read_report(since), since);
    policy->since_file = since;
  }
  return policy;
}

GivenAnswer policed(GivenAnswer given, const std::shared_ptr<const report::AnswerPolicy>& policy) {
  if (!policy) return given;
  const auto after = std::make_shared<const report::PolicedAnswer>(
      report::apply_policy(given.answer(report::Detail::kAll), "this answer", *policy));
  GivenAnswer out;
  out.warnings = given.warnings;
  out.exit_code = after->exit_code;
  out.answer = [after, answer = given.answer](report::Detail detail) {
    return report::after_policy(answer(detail), *after);
  };
  out.text = [after, original = std::move(given)](const report::TextStyle& style,
                                                  std::ostream& text) {
    const auto page = [&] {
      return report::page_answer_of(
          report::after_policy(original.answer(report::Detail::kAll), *after));
    };
    if (!after->by_known.headlines.empty()) {
      text << report::folded(report::shown_text(page()), style.width);
    } else {
      std::ostringstream own;
      original.text(style, own);
      text << (after->changes_the_first_line
                   ? with_first_line(own.str(), report::shown_line(page()))
                   : own.str());
    }
    report::write_known(*after, style, text);
  };
  return out;
}

}  // namespace ttrace::app
