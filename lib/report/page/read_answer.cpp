#include "report/page/read_answer.h"

#include "answer/answer_json.h"
#include "base/strict_json.h"
#include "report/nights/diff_text.h"
#include "report/nights/trend.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

// What reads a comparison of answers, by its schema.
struct Reader {
  std::string_view schema;
  void (*read)(const base::JsonCursor& root, PageAnswer& answer);
};

constexpr Reader kReaders[] = {{kDiffSchema, read_diff}, {kTrendSchema, read_trend}};

}  // namespace

PageAnswer read_page_answer(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const base::JsonCursor root = document.root();
  const std::string_view schema = root.require("schema").as_text();
  for (const Reader& reader : kReaders) {
    if (schema != reader.schema) continue;
    PageAnswer answer;
    answer.verdict = root.require("verdict").as_string();
    answer.headline = root.require("headline").as_string();
    answer.exit_code = root.require("exit_code").as_count();
    reader.read(root, answer);
    return answer;
  }
  return page_answer_of(answer::read_answer(root));
}

}  // namespace ttrace::report
