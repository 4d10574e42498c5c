#include "report/unmatched_text.h"

#include <map>

#include "base/number_text.h"

namespace ttrace::report {
namespace {

using base::printable;
using verdict::Outcome;

constexpr std::size_t kMostLines = 5;

}  // namespace

void write_unmatched(const CompareReport& report, bool all, std::ostream& out) {
  std::map<std::string, const Result*> unmatched;  // by name: its kinds have the same answer
  for (const Result& result : report.results) {
    if (result.outcome != Outcome::kMissing || result.nearest.empty()) continue;
    unmatched.emplace(result.key.name, &result);
  }
  if (unmatched.empty()) return;
  out << "\n  names that only one side has, with the nearest of the same shape on the other (--map "
         "RULES.json makes them meet):\n";
  std::size_t lines = 0;
  for (const auto& [name, result] : unmatched) {
    if (!all && lines++ == kMostLines) break;
    out << "    reference " << printable(name) << " " << tensor::to_string(result->shape)
        << "  candidate ";
    for (std::size_t i = 0; i < result->nearest.size(); ++i) {
      out << (i > 0 ? ", " : "") << printable(result->nearest[i]);
    }
    out << "\n";
  }
  if (!all && unmatched.size() > kMostLines) {
    out << "    and " << unmatched.size() - kMostLines << " more (--all)\n";
  }
}

}  // namespace ttrace::report
