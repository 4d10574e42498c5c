#include "report/page/read_answer.h"

#include "base/text.h"
#include "report/audit_report.h"
#include "report/compare_report_json.h"
#include "report/localize_report.h"
#include "report/page/page_answer.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

// What reads an answer, by its schema.
struct Reader {
  std::string_view schema;
  void (*read)(const base::JsonCursor& root, PageAnswer& answer);
};

constexpr Reader kReaders[] = {
    {kReportSchema, read_compare},
    {kAuditSchema, read_audit},
    {kLocalizeSchema, read_localize},
};

}  // namespace

PageAnswer read_page_answer(const base::JsonCursor& root) {
  const base::JsonCursor schema = root.require("schema");
  for (const Reader& reader : kReaders) {
    if (schema.as_text() != reader.schema) continue;
    PageAnswer answer;
    answer.verdict = root.require("verdict").as_string();
    answer.headline = text_at(root, "headline");
    answer.has_all_tensors = text_at(root, "detail") != "findings";
    add_made_by(root, answer);
    reader.read(root, answer);
    return answer;
  }
  throw schema.error(
      "\"", base::printable(schema.as_text()), "\" is not \"", kReportSchema, "\", \"",
      kAuditSchema, "\" or \"", kLocalizeSchema,
      "\"; make it with --json of `ttrace compare`, audit or localize of this version");
}

}  // namespace ttrace::report
