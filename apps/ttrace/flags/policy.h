// The flags by which a person says what counts: --known, --require, --fail-on, --since. Commands
// that answer hand their answer through here before it is written.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "answer_output.h"

namespace ttrace::report {
struct AnswerPolicy;
}

namespace ttrace::app {

struct PolicyFlags {
  std::vector<std::string> known;
  std::vector<std::string> require;
  std::string fail_on = "any";
  std::string since;

  // `with_since`: whether the answer can be held against an earlier report.
  void add_to(CLI::App& command, bool with_since = true);
  bool is_given() const { return !known.empty() || !require.empty() || !since.empty(); }
  // Reads the files, so that a mistake in them costs no long run. Null without any of these flags.
  // Throws a usage error or an input error.
  std::shared_ptr<const report::AnswerPolicy> read() const;
};

// The answer as the policy changes it; unchanged without a policy.
GivenAnswer policed(GivenAnswer answer, const std::shared_ptr<const report::AnswerPolicy>& policy);

}  // namespace ttrace::app
