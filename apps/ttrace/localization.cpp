#include "localization.h"

#include "base/deflate.h"
#include "base/error.h"
#include "base/text.h"
#include "inputs.h"
#include "layout/layout_rules.h"
#include "machine.h"
#include "report/localize_report.h"
#include "report/reported_comparison.h"

namespace ttrace::app {
namespace {

constexpr const char* kOwnComparison = "the comparison";

localize::ReportedComparison read_report(const LocalizeFlags& flags) {
  localize::ReportedComparison reported =
      report::parse_reported(base::read_report(flags.report), flags.report);
  if (reported.layout_rules.empty() != flags.comparison.pair.layout.empty()) {
    throw base::input_error(flags.report, ": was made ",
                            reported.layout_rules.empty()
                                ? "without --layout; leave it out here too"
                                : "with --layout; give the same file here");
  }
  if (reported.part) {
    throw base::input_error(
        flags.report, ": is of part ", reported.part->index, " of ", reported.part->of,
        " alone; join all parts with `ttrace report merge` and give that report");
  }
  return reported;
}

localize::ReportedComparison reported_of(const comparison::CompareReport& report) {
  return report::reported_of(report::to_answer(report), kOwnComparison);
}

// The candidate under the layouts that the comparison followed; null where it followed none.
std::unique_ptr<trace::Source> under_followed_layouts(
    const trace::Source& candidate, const localize::ReportedComparison& compared) {
  if (compared.followed_layouts.empty()) return nullptr;
  std::string rules;
  for (const std::string& rule : compared.followed_layouts) {
    rules += base::concat(rules.empty() ? "" : ", ", rule);
  }
  return std::make_unique<trace::WithManifest>(
      candidate, layout::with_layout_rules(
                     candidate.manifest(),
                     base::concat(R"({"schema": "ttrace.layout/1", "rules": [)", rules, "]}"),
                     base::concat(compared.file, ": followed_layouts")));
}

}  // namespace

LocalizeFlags localize_flags_of(const comparison::ComparisonId& id) {
  LocalizeFlags flags;
  flags.comparison = flags_of(id);
  flags.specification = id.specification;
  flags.candidate_specification = id.candidate_specification;
  flags.layers = id.layers;
  flags.all_layers = id.all_layers;
  flags.report = id.report;
  return flags;
}

SharedLocalization::SharedLocalization(const LocalizeFlags& flags,
                                       const comparison::CompareReport* compared)
    : flags_(flags), compared_(compared), comparison_(flags.comparison) {
  options_.execution = execution_context(flags.comparison.pair.threads);
  options_.layers = flags.layers;
  options_.all_layers = flags.all_layers;
  options_.run_argument = flags.comparison.pair.candidate;
  options_.plan_file = flags.plan;
  if (!flags.specification.empty()) {
    specification_ = read_specification(flags.specification);
    options_.specification = &*specification_;
    options_.specification_file = flags.specification;
  }
  if (!flags.candidate_specification.empty()) {
    candidate_specification_ =
        read_specification(flags.candidate_specification, specification_->bytes);
    options_.candidate_specification = &*candidate_specification_;
    options_.candidate_specification_file = flags.candidate_specification;
  }
  map_ = comparison_.pair().options().map;
  if (map_) options_.map = &*map_;
}

comparison::ComparisonId SharedLocalization::id() const {
  comparison::ComparisonId id = comparison_.id();
  id.localized = true;
  id.specification = flags_.specification;
  id.candidate_specification = flags_.candidate_specification;
  id.layers = flags_.layers;
  id.all_layers = flags_.all_layers;
  id.report = flags_.report;
  for (const std::string& file :
       {flags_.specification, flags_.candidate_specification, flags_.report}) {
    add_text(file, id);
  }
  return id;
}

localize::ReportedComparison SharedLocalization::reported(comparison::Checkpoint* work,
                                                          const comparison::WorkDivision& division,
                                                          const std::atomic<bool>* stop) {
  options_.division = {};
  options_.unfinished.clear();
  if (compared_ != nullptr) return reported_of(*compared_);
  if (!flags_.report.empty()) {
    options_.division = division;
    return read_report(flags_);
  }
  comparison::CompareReport report = comparison_.run(work, division, stop);
  if (division.part) report.part = comparison::PartOfWork{*division.part, false, {}, {}};
  if (report.interrupted) options_.unfinished = report.interrupted->describe();
  return reported_of(report);
}

void SharedLocalization::run(comparison::Checkpoint* work, comparison::WorkDivision division,
                             const std::atomic<bool>* stop) {
  options_.work = work;
  options_.stop = stop;
  localize::ReportedComparison found = reported(work, division, stop);
  const trace::Source& candidate = comparison_.pair().candidate();
  const std::unique_ptr<trace::Source> relaid = under_followed_layouts(candidate, found);
  report_ = engine::localize_trace(comparison_.pair().reference(), relaid ? *relaid : candidate,
                                   std::move(found), options_);
  report_.environment.version = version();
}

GivenAnswer SharedLocalization::answer() const {
  return {[this](report::Detail) { return report::to_answer(report_); }, nullptr,
          [this](const report::TextStyle& style, std::ostream& out) {
            report::write_localize(report_, style, out);
          },
          report_.warnings, answer::exit_code(report_.verdict())};
}

}  // namespace ttrace::app
