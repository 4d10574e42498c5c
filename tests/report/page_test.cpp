#include "report/page/page.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "report/page/markup.h"
#include "report/page/read_answer.h"
#include "report/sample_report.h"
#include "report/told_json.h"
#include "support/catch.h"

namespace ttrace::report::page_test {
namespace {

using judge::Outcome;

std::string page_of(const comparison::CompareReport& report) {
  return html_page(page_answer_of(to_answer(report)));
}

bool has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

std::size_t count_of(const std::string& page, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) {
    ++count;
  }
  return count;
}

TEST_CASE("a page begins with the verdict and shows findings and tensors without a script") {
  const std::string page = page_of(test::diverged_report());
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(has(page, "<strong>DIVERGED</strong>"));
  CHECK(has(page, "<b>2</b> diverged"));
  CHECK(has(page, "id=\"finding-1\""));
  CHECK(has(page, "output of fc"));
  CHECK(has(page, "model.py:7"));
  CHECK(has(page, "1.1 times the reference"));
  CHECK(has(page, "<tr id=\"t=0/-/output/head/0/0\">"));
  CHECK(has(page, "ttrace compare ref.h5 run/"));
  CHECK(count_of(page, "{{") == 0);
}

TEST_CASE("texts of a report are data in its page") {
  const std::string hostile =
      "</script><script>alert(1)</script>\"'&<b \xE2\x80\xAE\x1b[2J\x01{{data}}";
  comparison::CompareReport report = test::diverged_report();
  report.results[0].key.name = hostile;
  report.results[1].reason = hostile;
  report.reference.path = hostile;
  report.findings[0].where = hostile;
  report.findings[0].called_at = hostile;
  report.findings[0].causes[0].evidence = hostile;
  report.warnings = {hostile};
  const std::string page = page_of(report);
  const std::string plain = page_of(test::diverged_report());
  CHECK(count_of(page, "<script") == count_of(plain, "<script"));
  CHECK(count_of(page, "</script") == count_of(plain, "</script"));
  CHECK_FALSE(has(page, "<b \xE2"));
  CHECK_FALSE(has(page, "\xE2\x80\xAE"));
  CHECK_FALSE(has(page, "\x1b"));
  CHECK_FALSE(has(page, "\x01"));
  CHECK(has(page,
            "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;&lt;b \\u202e"));
  // What is put into the template is not searched for places to fill.
  CHECK(has(page, "{{data}}"));
}

TEST_CASE("a page loads nothing and runs nothing but its own script") {
  const std::string page = page_of(test::diverged_report());
  const std::size_t begin = page.find("http-equiv=\"Content-Security-Policy\"");
  REQUIRE(begin != std::string::npos);
  const std::string policy = page.substr(begin, page.find('>', begin) - begin);
  CHECK(has(policy, "default-src 'none'"));
  CHECK(has(policy, "script-src 'sha256-"));
  CHECK_FALSE(has(policy, "unsafe"));
  CHECK_FALSE(has(page, "src=\""));
  CHECK_FALSE(has(page, " style=\""));
  CHECK_FALSE(has(page, "@import"));
  CHECK_FALSE(has(page, "url("));
  // Addresses of the network: none but the name space of the icon.
  CHECK(count_of(page, "://") == count_of(page, "xmlns='http://www.w3.org/2000/svg'"));
  CHECK(count_of(page, "href=\"") ==
        count_of(page, "href=\"#") + count_of(page, "href=\"data:image/svg+xml,"));
}

TEST_CASE("the page of ten thousand diverged tensors is small") {
  const std::string page = page_of(test::many_findings(10000));
  CHECK(page.size() < 3'000'000);
  CHECK(has(page, "<b>10000</b> diverged"));
  CHECK(has(page, "The worst 100 of 10000 tensors"));
}

TEST_CASE("numbers that are not finite reach the page") {
  comparison::CompareReport report =
      test::report_of(answer::Verdict::kWrong,
                      {test::compared("fc", {0, 0}, {0, 1}, Outcome::kDiverged),
                       test::compared("nan", {1, 2}, {1, std::numeric_limits<double>::quiet_NaN()},
                                      Outcome::kDiverged)});
  report.findings = {test::finding_of(0)};
  CHECK(has(page_of(report), "<td>inf</td>"));
}

TEST_CASE("other JSON is refused with the file and the place") {
  const auto message = [](const std::string& json) {
    try {
      html_page(read_page_answer(json, "old.json"));
    } catch (const base::Error& error) {
      CHECK(error.kind() == base::ErrorKind::kInput);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(message("{\"schema\": \"ttrace.report/1\"}")
            .starts_with("old.json: /schema: this is \"ttrace.report/1\""));
  CHECK(message("[]").starts_with("old.json"));
  CHECK(message("{\"schema\": \"ttrace.answer/1\", \"command\": \"compare\", \"verdict\": 1}")
            .starts_with("old.json: /verdict"));
  std::string damaged = test::json_text(test::diverged_report());
  damaged.replace(damaged.find("\"findings\": ["), 13, "\"findings\": [7,");
  CHECK(message(damaged).starts_with("old.json: /findings/0"));
}

TEST_CASE("base64 and hexadecimal digits are those of the standard") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64(bytes_of_hex("fbff")) == "+/8=");
}

TEST_CASE("links percent-encode what an address cannot hold") {
  CHECK(fragment_text("0/-/output/a[1] b%/0/0") == "0/-/output/a%5B1%5D%20b%25/0/0");
}

}  // namespace
}  // namespace ttrace::report::page_test
