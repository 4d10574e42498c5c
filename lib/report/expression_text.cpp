#include "report/expression_text.h"

#include <algorithm>
#include <map>
#include <set>

#include "audit/recorded_tensors.h"
#include "audit/recording_line.h"
#include "audit/run_variants.h"
#include "base/text.h"
#include "comparison/run_facts.h"
#include "localize/describe_layout.h"
#include "localize/explain.h"
#include "specification/describe.h"
#include "specification/expression.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::printable;
using specification::Expression;
using trace::Kind;
using trace::TensorEntry;

// Columns that are aligned: a text and what is said of it.
using Rows = std::vector<std::pair<std::string, std::string>>;

class Inspection {
 public:
  Inspection(const trace::Source& source, const specification::Specification& specification,
             std::ostream& out)
      : source_(source), specification_(specification), out_(out), recorded_(source.manifest()) {}

  void write(const TensorEntry& entry) {
    out_ << printable(to_string(entry.key)) << "  " << dtype_short_name(entry.dtype) << "  "
         << printable(localize::describe_merging(source_, entry)) << "\n";
    lacking_.clear();
    switch (entry.key.kind) {
      case Kind::kMainGrad:
        write_main_gradient(entry.key);
        break;
      case Kind::kGradNorm:
        write_gradient_norm(entry.key);
        break;
      case Kind::kParamAfterStep:
        if (has_formula(entry.key)) {
          write_specified(entry);
        } else {
          write_step(entry.key);
        }
        break;
      default:
        write_specified(entry);
    }
    out_ << "\n";
  }

 private:
  // Whether the specification follows this update: its optimizer is none whose rule is known.
  bool has_formula(const trace::TensorKey& key) const {
    const auto number = specification_.find(key);
    return number && specification_.tensors[*number].pattern;
  }

  void write_specified(const TensorEntry& entry) {
    const auto number = specification_.find(entry.key);
    if (!number || entry.microbatches) {
      say("not judged", number ? "it stands for several micro-batches, the specification for one"
                               : "the specification does not have it");
      return;
    }
    const specification::SpecifiedTensor& specified = specification_.tensors[*number];
    if (!specified.module_class.empty()) {
      say("module", concat(specified.module_class,
                           specified.called_at.empty() ? "" : ", called in ", specified.called_at));
    }
    const auto is_held = [&](std::size_t tensor) { return find(tensor, entry.key) != nullptr; };
    // The shown expression also reads given tensors that the trace lacks, so that a reader sees
    // them.
    const auto is_held_or_given = [&](std::size_t tensor) {
      const specification::SpecifiedTensor& one = specification_.tensors[tensor];
      return is_held(tensor) || (!one.pattern && !one.same && one.values.empty());
    };
    const auto judged = specification::expression_of(specification_, *number, is_held);
    const auto shown = specification::expression_of(specification_, *number, is_held_or_given);
    if (const auto* expression = std::get_if<Expression>(&shown)) {
      write_expression(*expression, entry.key);
    } else if (!specified.opaque.empty()) {
      write_operands(specified, entry.key);
    }
    if (const auto* none = std::get_if<specification::NoExpression>(&judged)) {
      if (none->why == specification::NoExpression::Why::kGiven) {
        say("given", "it follows from nothing in the step");
        return;
      }
      say("not judged", none->reason);
      say_how_to_record();
      return;
    }
    say("judged", "the trace holds everything that it reads");
  }

  void write_expression(const Expression& expression, const trace::TensorKey& key) {
    Rows reads;
    std::vector<std::string> values;
    for (const specification::Leaf& leaf : expression.leaves) {
      values.push_back(std::to_string(values.size() + 1));
      reads.emplace_back(concat(values.back(), "  ", describe(leaf.tensor)),
                         leaf.constant ? std::string("its elements stand in the specification")
                                       : describe_recording(leaf.tensor, key));
    }
    write_rows("reads", reads);
    write_computed_on_the_way(expression);
    Rows steps;
    for (const specification::Step& step : expression.steps) {
      std::vector<std::string> arguments;
      for (const std::uint32_t value : step.arguments) arguments.push_back(values[value]);
      values.push_back(std::to_string(values.size() + 1));
      steps.emplace_back(
          concat(values.back(), "  ", specification::describe_call(*step.node, arguments)),
          concat(specification::describe_shape(step.node->shape), " ",
                 dtype_short_name(step.node->dtype)));
    }
    write_rows("computes", steps);
    if (expression.result + 1 < values.size() || steps.empty()) {
      say("equals", values[expression.result]);
    }
  }

  // Tensors that the trace lacks and the expression therefore computes, too.
  void write_computed_on_the_way(const Expression& expression) {
    std::set<std::size_t> met;
    for (const specification::Leaf& leaf : expression.leaves) {
      met.insert(specification_.original(leaf.tensor));
    }
    Rows computed;
    std::vector<std::size_t> open{specification_.original(expression.tensor)};
    met.insert(open.front());
    while (!open.empty() && !expression.steps.empty()) {
      const std::size_t next = open.back();
      open.pop_back();
      for (const std::uint32_t input : specification_.tensors[next].from) {
        const std::size_t original = specification_.original(input);
        if (!met.insert(original).second) continue;
        computed.emplace_back(describe(original), "not recorded: computed below");
        open.push_back(original);
      }
    }
    write_rows("lacks", computed);
  }

  void write_operands(const specification::SpecifiedTensor& specified,
                      const trace::TensorKey& key) {
    Rows reads;
    for (const std::uint32_t input : specified.from) {
      reads.emplace_back(describe(input), describe_recording(input, key));
    }
    write_rows("reads", reads);
  }

  // A main gradient: of which raw gradients it is the sum.
  void write_main_gradient(const trace::TensorKey& key) {
    const specification::AfterBackward& after = specification_.after_backward;
    std::set<std::string> names{key.name};
    for (const std::vector<std::string>& tied : after.tied) {
      if (std::find(tied.begin(), tied.end(), key.name) != tied.end()) {
        names.insert(tied.begin(), tied.end());
      }
    }
    Rows reads;
    for (const TensorEntry& entry : source_.manifest().tensors) {
      if (entry.key.kind != Kind::kParamGrad || entry.key.step != key.step) continue;
      const bool whole = entry.microbatches || !entry.key.microbatch;
      if (!whole && !after.takes(key.name, {*entry.key.microbatch})) continue;
      if (names.contains(entry.key.name)) reads.push_back(row_of(entry));
    }
    write_rows("reads", reads);
    if (!after.has_main_grad) {
      say("not judged", "the specification does not say how main gradients follow from raw ones");
      return;
    }
    say("computes", concat(base::nine_digits(after.factor), " × the ", after.mean ? "mean" : "sum",
                           " of them over micro-batches",
                           names.size() > 1 ? " and over the names of one tied parameter" : "",
                           after.clip_norm ? ", clipped" : ""));
    say_whether_held(reads.empty(), Kind::kParamGrad, key.name);
  }

  void write_gradient_norm(const trace::TensorKey& key) {
    std::set<std::string> lacking;
    for (const specification::SpecifiedTensor& tensor : specification_.tensors) {
      if (tensor.kind == Kind::kParamGrad) lacking.insert(tensor.name);
    }
    std::size_t held = 0;
    for (const TensorEntry& entry : source_.manifest().tensors) {
      if (entry.key.kind != Kind::kMainGrad || entry.key.step != key.step) continue;
      ++held;
      lacking.erase(entry.key.name);
    }
    const std::string also =
        lacking.empty()
            ? std::string()
            : concat("; those of ",
                     specification::list_some({lacking.begin(), lacking.end()}, 4, ", "),
                     " are not recorded under that name");
    say("computes", concat("the norm of the step's ", base::plural(held, "main gradient"), also));
    say_whether_held(held == 0, Kind::kMainGrad, key.name);
  }

  void write_step(const trace::TensorKey& key) {
    Rows reads;
    bool has_gradient = false;
    bool has_param = false;
    for (const TensorEntry& entry : source_.manifest().tensors) {
      if (entry.key.step != key.step) continue;
      const bool gradient = entry.key.kind == Kind::kMainGrad && entry.key.name == key.name;
      const bool param = entry.key.kind == Kind::kParam && entry.key.name == key.name;
      const bool state =
          entry.key.kind == Kind::kOptimizerState && entry.key.name.starts_with(key.name + ".");
      has_gradient |= gradient;
      has_param |= param;
      if (gradient || param || state) reads.push_back(row_of(entry));
    }
    write_rows("reads", reads);
    std::string type;
    for (const trace::OptimizerGroup& group : source_.manifest().optimizer) {
      if (group.step != key.step) continue;
      const auto& params = group.params;
      if (std::find(params.begin(), params.end(), key.name) != params.end()) type = group.type;
    }
    say("computes", type.empty() ? "one step of an optimizer that the manifest does not describe"
                                 : concat("one step of ", type));
    say_whether_held(!has_gradient, Kind::kMainGrad, key.name, !has_param);
  }

  void say_whether_held(bool lacks, Kind kind, const std::string& name, bool lacks_param = false) {
    if (!lacks && !lacks_param) {
      say("judged", "the trace holds everything that it reads");
      return;
    }
    for (const auto& [lacking, of] : {std::pair{lacks, kind}, {lacks_param, Kind::kParam}}) {
      if (!lacking) continue;
      trace::TensorKey key;
      key.kind = of;
      key.name = name;
      lacking_.push_back(key);
    }
    say("not judged",
        concat("needs ", kind_name(lacking_.front().kind), ", which is not recorded"));
    say_how_to_record();
  }

  void say_how_to_record() {
    const std::string line = audit::recording_line(source_.manifest(), lacking_);
    if (!line.empty()) say("record with", line);
  }

  const TensorEntry* find(std::size_t tensor, const trace::TensorKey& like) const {
    return recorded_.find(specification_, tensor, like);
  }

  std::string describe(std::size_t tensor) const {
    const specification::SpecifiedTensor& one = specification_.tensors[tensor];
    return concat(specification::describe_tensor(specification_, tensor), "  ",
                  specification::describe_shape(one.shape), " ", dtype_short_name(one.dtype));
  }

  std::string describe_recording(std::size_t tensor, const trace::TensorKey& like) {
    if (const TensorEntry* entry = find(tensor, like)) return describe_recording(*entry);
    lacking_.push_back(specification_.key_of(tensor));
    return "NOT RECORDED";
  }

  std::string describe_recording(const TensorEntry& entry) const {
    return concat("recorded: ", localize::describe_merging(source_, entry));
  }

  std::pair<std::string, std::string> row_of(const TensorEntry& entry) const {
    return {to_string(entry.key), describe_recording(entry)};
  }

  void say(const std::string& label, const std::string& text) {
    out_ << "  " << label << std::string(label.size() < kLabel ? kLabel - label.size() : 1, ' ')
         << printable(text) << "\n";
  }

  void write_rows(std::string label, const Rows& rows) {
    constexpr std::size_t kWidest = 72;
    std::size_t width = 0;
    for (const auto& [text, about] : rows) {
      if (text.size() <= kWidest) width = std::max(width, text.size());
    }
    for (const auto& [text, about] : rows) {
      const std::size_t gap = text.size() < width ? width - text.size() : 0;
      say(label, concat(text, std::string(gap + 2, ' '), about));
      label.clear();
    }
  }

  static constexpr std::size_t kLabel = 13;

  const trace::Source& source_;
  const specification::Specification& specification_;
  std::ostream& out_;
  audit::RecordedTensors recorded_;
  std::vector<trace::TensorKey> lacking_;  // of the tensor that is shown
};

}  // namespace

void inspect_expressions(const trace::Source& source,
                         const specification::Specification& specification,
                         const comparison::Selection& selection, std::ostream& out) {
  comparison::require_sound_layouts(source);
  std::vector<trace::TensorKey> keys;
  for (const TensorEntry& entry : source.manifest().tensors) keys.push_back(entry.key);
  comparison::require_matches(selection, keys);
  const audit::RunVariants variants(specification, source.manifest());
  std::map<const specification::Specification*, Inspection> inspections;
  for (const TensorEntry& entry : source.manifest().tensors) {
    if (!selection.selects(entry.key)) continue;
    const specification::Specification& variant = variants.of(entry.key);
    inspections.try_emplace(&variant, source, variant, out).first->second.write(entry);
  }
}

}  // namespace ttrace::report
