// What an answer says is wrong: where, in whose code, and why, with the numbers that show it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/message.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::answer {

// What a cause found, in numbers and names, from which sentences are made: {"factor", 2.0},
// {"type", "bf16"}. The table of report/cause_sentences.cpp says what each cause has.
using CauseValues = std::vector<std::pair<std::string, base::Message::Value>>;

// Why a tensor is wrong, with the numbers that show it. Every cause has evidence.
struct Cause {
  std::string name;        // as in the table of lib/localize/README.md, e.g. "missing_reduction"
  std::string axis;        // the mesh axis, or empty
  std::string evidence;    // one line, without the name
  double unexplained = 0;  // ‖error that the cause does not explain‖ / ‖R‖
  CauseValues values = {};
  // For the cause wrong_layout_declared: the tensor under the only layout that fits. Else null.
  std::shared_ptr<const trace::TensorEntry> fits = nullptr;
};

// A cause whose evidence is this message: the text is the rendered one, and the values are `more`
// and those of the message, each name once.
Cause cause_of(std::string name, std::string axis, const base::Message& evidence,
               double unexplained, CauseValues more = {});

// A cause that was tried and does not fit.
struct RejectedCause {
  std::string name;
  double unexplained = 0;  // as of a cause: the least that it leaves
};

// What the findings of all commands have in common. Each command adds which tensors it is about.
struct Finding {
  std::string class_name;  // of the module, or empty
  std::string called_at;
  std::vector<std::uint64_t> ranks;     // that stand out; empty where none do
  std::string where;                    // for people
  std::vector<Cause> causes;            // the best first
  std::vector<RejectedCause> rejected;  // by what they leave unexplained

  // The mesh axis of the first cause, or empty.
  std::string axis() const { return causes.empty() ? "" : causes.front().axis; }
};

// A bad tensor that follows from a finding and may hide another bug: its share of the allowed error
// is many times that of everything it was directly computed from.
struct Suspect {
  trace::TensorKey key;
  double used = 0;                          // error / allowed; may be infinite
  double used_before = 0;                   // the largest share of what it depends on; at least 1
  std::optional<trace::TensorKey> largest;  // the tensor with that share
};

}  // namespace ttrace::answer
