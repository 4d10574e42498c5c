#include "report/page/page.h"

#include <utility>

#include "base/deflate.h"
#include "base/error.h"
#include "base/text.h"
#include "report/page/assets.h"
#include "report/page/page_answer.h"
#include "report/page/sections.h"

namespace ttrace::report {
namespace {

// The template with every "{{name}}" in it replaced, in one pass: what is put in is not searched.
std::string filled_template(
    std::string_view page,
    const std::vector<std::pair<std::string_view, std::string_view>>& values) {
  std::string out;
  while (true) {
    const std::size_t begin = page.find("{{");
    out += page.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const std::size_t end = page.find("}}", begin);
    const std::string_view name = page.substr(begin + 2, end - begin - 2);
    bool known = false;
    for (const auto& [placeholder, value] : values) {
      if (placeholder != name) continue;
      out += value;
      known = true;
    }
    if (!known) throw base::internal_error("the page has no ", name);
    page.remove_prefix(end + 2);
  }
}

// Nothing is loaded, sent or run but the style and the script of this page, to the byte.
std::string policy() {
  const auto source = [](std::string_view checksum) {
    return base::concat("'sha256-", base64(bytes_of_hex(checksum)), "'");
  };
  return base::concat("default-src 'none'; style-src ", source(kPageStyleSha256), "; script-src ",
                      source(kPageScriptSha256),
                      "; img-src data:; base-uri 'none'; form-action 'none'; "
                      "require-trusted-types-for 'script'; trusted-types 'none'");
}

}  // namespace

std::string html_page(const PageAnswer& answer) {
  const std::string title = base::concat("ttrace ", answer.command, ": ", answer.verdict);
  const std::string data = base64(base::zlib_compressed(page_columns(answer)));
  const std::string head = page_head(answer).html();
  const std::string runs = page_runs(answer).html();
  const std::string findings = page_findings(answer).html();
  const std::string worst = worst_tensors(answer).html();
  const std::string pictures =
      answer.tensors.empty()
          ? "This answer lists findings alone; ttrace compare --html draws all tensors."
          : "";
  return filled_template(kPageTemplate, {{"policy", policy()},
                                         {"title", markup_text(title)},
                                         {"style", kPageStyle},
                                         {"head", head},
                                         {"pictures", pictures},
                                         {"runs", runs},
                                         {"findings", findings},
                                         {"worst", worst},
                                         {"data", data},
                                         {"script", kPageScript}});
}

}  // namespace ttrace::report
