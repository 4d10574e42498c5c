#include "report/file_formats.h"

#include "report/junit.h"
#include "report/markdown.h"
#include "report/page/page.h"

namespace ttrace::report {
namespace {

// In the order of the constants above.
constexpr FileFormat kFormats[] = {
    {"json", "also write JSON; - is standard output, FILE.gz is compressed", nullptr},
    {"html", "also write the answer as one self-contained page for a browser", html_page},
    {"markdown", "also write Markdown of a screen; github: add it to the summary", markdown},
    {"junit", "also write JUnit XML, a test case for each step and module", junit},
};

}  // namespace

std::span<const FileFormat> file_formats() { return kFormats; }

}  // namespace ttrace::report
