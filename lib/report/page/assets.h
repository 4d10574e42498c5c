// The files of assets/, compiled in (cmake/TtraceEmbed.cmake), and their SHA-256 checksums, by
// which the page's policy allows them and nothing else to run.
#pragma once

#include <string_view>

namespace ttrace::report {

extern const std::string_view kPageTemplate;
extern const std::string_view kPageTemplateSha256;
extern const std::string_view kPageStyle;
extern const std::string_view kPageStyleSha256;
extern const std::string_view kPageScript;
extern const std::string_view kPageScriptSha256;

}  // namespace ttrace::report
