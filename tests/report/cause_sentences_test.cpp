#include "report/cause_sentences.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "report/cause_words.h"
#include "report/finding_groups.h"
#include "report/headline.h"
#include "report/junit.h"
#include "report/localize_screen.h"
#include "report/look_at.h"
#include "report/markdown.h"
#include "report/page/read_answer.h"
#include "report/reported_comparison.h"
#include "report/sample_report.h"
#include "report/told_json.h"
#include "support/catch.h"

namespace ttrace::report::cause_sentences_test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string file_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(std::string(TTRACE_SOURCE_DIR) + "/" + path).rdbuf();
  return out.str();
}

// The causes in the table of the page of the method.
std::set<std::string> documented_causes() {
  const std::string page = file_text("lib/localize/README.md");
  const std::string table = page.substr(page.find("| cause | evidence | code |"));
  std::set<std::string> causes;
  std::istringstream lines(table.substr(0, table.find("\n\n")));
  for (std::string line; std::getline(lines, line);) {
    const std::string cell = line.substr(0, line.find('|', 1));
    const std::regex name("`([a-z_]+)`");
    for (std::sregex_iterator at(cell.begin(), cell.end(), name), end; at != end; ++at) {
      causes.insert((*at)[1]);
    }
  }
  return causes;
}

// One value of every name that a template has, as a cause would fill it.
answer::CauseValues sample_values() {
  const std::uint64_t two = 2;
  return {{"reduced", "summed"},
          {"lacks", "on dp 1 it lacks mb 3"},
          {"holds", "head.weight"},
          {"terms", two},
          {"factor", 2.0},
          {"times", "2"},
          {"clipped_by", "the experts"},
          {"moved", "2"},
          {"factors", "2 on rank 0, 3 on rank 1"},
          {"parts", "half of it on rank 1 (3 of 8 elements)"},
          {"decay", 0.01},
          {"order", "blocks 0 and 1 of 2 are swapped"},
          {"chunks", two},
          {"chunk_order", "1 0"},
          {"dim", std::uint64_t{0}},
          {"which", "0 to 14"},
          {"how", "all slices are moved up by 1 place"},
          {"kept_on", "dp 1"},
          {"undone_by", "the step"},
          {"copied_in", "the step"},
          {"shards", two},
          {"left_by", std::uint64_t{0}},
          {"taken_from", "the new value of average.fc.weight"},
          {"scales", "64 times as large on rank 1 as on rank 0"},
          {"unmoved", std::uint64_t{8}},
          {"wrong", std::uint64_t{8}},
          {"earlier", "of step 0"},
          {"source", "layers.0"},
          {"other", "layers.1"},
          {"exchanged", "layers.2"},
          {"type", "bf16"},
          {"rounded", "the reference"},
          {"rows", two},
          {"added", "fc.bias"},
          {"of_axis", "the size of dp"},
          {"of", std::uint64_t{16}},
          {"part", "the experts"},
          {"rule", "fc=S(0)@tp"},
          {"told", "rows 8 to 15 of head carry a gradient"},
          {"layer", "layers.3"},
          {"others", "layers.2 on pp 1"},
          {"in_candidate", two},
          {"in_reference", std::uint64_t{0}},
          {"reference", "the expected value"},
          {"first_at", "[1]"},
          {"what", "rows of the last dimension"},
          {"vanished", two},
          {"appeared", two}};
}

// Names of a kind in one step, the first `count` of `of`.
struct Names {
  AllOfKind all;
  AlikeTensors tensors;

  Names(trace::Kind kind, std::size_t count, std::size_t of) {
    tensors.kind = kind;
    tensors.all = &all;
    for (std::size_t i = 0; i < of; ++i) {
      trace::TensorKey key;
      key.kind = kind;
      // Every second has another name, so that no pattern is of all.
      key.name = base::concat(i % 2 == 0 ? "layers." : "blocks.", i * i + i % 3, ".fc.weight");
      all.add(key);
      if (i < count) tensors.add(key);
    }
  }
};

void check_sentence(const std::string& sentence) {
  INFO(sentence);
  CHECK_FALSE(sentence.empty());
  for (const char* wrong : {"1 parameters", "1 ranks", "1 modules", "()", "( )", "{", "}", "[,",
                            "  ", " ,", ", ,", ": ,", " ;"}) {
    CHECK_FALSE(contains(sentence, wrong));
  }
  const std::size_t open = sentence.find('(');
  if (open != std::string::npos) {
    const std::string list = sentence.substr(open, sentence.find(')') - open);
    CHECK(std::count(list.begin(), list.end(), ',') <= 4);
  }
}

TEST_CASE("every cause has a template, and every template is of a cause") {
  std::set<std::string> known;
  for (const SentenceTemplate& one : sentence_templates()) known.insert(std::string(one.cause));
  CHECK(known == documented_causes());
}

TEST_CASE("every cause has a meaning, and no word is explained twice") {
  std::set<std::string> known;
  for (const CauseWords& one : cause_words()) {
    CHECK(known.insert(std::string(one.cause)).second);
    CHECK(one.meaning.ends_with('.'));
  }
  CHECK(known == documented_causes());
  for (const Word& one : glossary()) {
    CHECK(known.insert(std::string(one.word)).second);
    CHECK(one.meaning.ends_with('.'));
  }
}

TEST_CASE("every cause reads well with one, some and all members, on one and several ranks") {
  for (const SentenceTemplate& one : sentence_templates()) {
    for (const trace::Kind kind : trace::kAllKinds) {
      for (const auto& [count, of] : {std::pair{1, 1}, {1, 9}, {2, 9}, {8, 9}, {9, 9}}) {
        for (const std::uint64_t ranks : {0, 1, 2}) {
          const Names names(kind, static_cast<std::size_t>(count), static_cast<std::size_t>(of));
          answer::Cause cause{std::string(one.cause),
                              ranks > 0 ? "dp" : "",
                              "so it is",
                              0,
                              sample_values(),
                              nullptr};
          ToldFinding told;
          told.tensors = names.tensors;
          told.phase = localize::Phase::kForward;
          told.cause = &cause;
          told.called_at = "model.py:3";
          if (ranks > 0) told.mesh = {{"dp", ranks}};
          for (const localize::PlaceKind place :
               {localize::PlaceKind::kModule, localize::PlaceKind::kBetween,
                localize::PlaceKind::kSynchronisation, localize::PlaceKind::kOptimizer}) {
            told.place = {place, "layers.0"};
            check_sentence(sentence_of(told));
          }
          cause.values.clear();
          check_sentence(sentence_of(told));
        }
      }
    }
  }
}

// The names in a template.
std::set<std::string> names_in(std::string_view text) {
  std::set<std::string> names;
  const std::regex name("\\{([a-z_]+)");
  const std::string all(text);
  for (std::sregex_iterator at(all.begin(), all.end(), name), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

// A cause with the values that the template names, and no words of its own.
answer::Cause sample_cause(const SentenceTemplate& one) {
  answer::Cause cause{std::string(one.cause), "tp", "EVIDENCE", 0, sample_values(), nullptr};
  const std::set<std::string> names = names_in(one.text);
  std::erase_if(cause.values, [&](const auto& value) { return !names.contains(value.first); });
  return cause;
}

TEST_CASE("every cause is said from its values alone, from JSON too, in Markdown and JUnit") {
  const answer::CauseValues common{
      {"whose", "the output of fc"}, {"members", std::uint64_t{1}}, {"axis", "tp"}};
  for (const SentenceTemplate& one : sentence_templates()) {
    const answer::Cause cause = sample_cause(one);
    CAPTURE(one.text);
    comparison::CompareReport report = test::diverged_report();
    report.findings[0].causes = {cause};
    const std::string sentence = Headlines(report).of(group_findings(report).front());
    check_sentence(sentence);
    CHECK_FALSE(contains(sentence, "EVIDENCE"));
    answer::CauseValues values = common;
    values.insert(values.end(), cause.values.begin(), cause.values.end());
    const std::string expected = filled(one.text, values).value_or("");
    CHECK(sentence_of(cause, common) == expected);

    const std::string json = test::json_text(report);
    const localize::ReportedComparison read = parse_reported(json, "report.json");
    REQUIRE(read.findings.size() == 1);
    CHECK(read.findings[0].headline == sentence);
    CHECK(sentence_of(read.findings[0].causes.at(0), common) == expected);
    const PageAnswer page = read_page_answer(json, "report.json");
    CHECK(contains(markdown(page), markdown_text(sentence)));
    CHECK(contains(junit(page), sentence));
  }
}

TEST_CASE("a template without its values gives way to the next one of its cause") {
  const auto sentence = [](answer::CauseValues values) {
    return sentence_of({"stale", "", "so it is", 0, std::move(values), nullptr},
                       {{"whose", "the update of fc"}, {"members", std::uint64_t{1}}});
  };
  CHECK(sentence({{"kept_on", "dp 1"}}) ==
        "the update of fc was not made on dp 1, which still has the old value");
  CHECK(sentence({{"earlier", "of step 0"}}) == "the update of fc is stale: the value of step 0");
  CHECK(sentence({}) == "the update of fc: stale, so it is");
}

TEST_CASE("what is not known is said with its outcome") {
  const Names names(trace::Kind::kOutput, 1, 3);
  ToldFinding told;
  told.tensors = names.tensors;
  CHECK(sentence_of(told) ==
        "first wrong is the output of layers.0.fc.weight, forward, step 0; no known cause fits");
  told.place = {localize::PlaceKind::kBetween, "layers.0"};
  told.made_from = {"the output of layers.0.norm"};
  told.called_at = "gpt.py:41 Block.forward";
  CHECK(sentence_of(told) ==
        "first wrong is the output of layers.0.fc.weight, forward, step 0, between the output of "
        "layers.0.norm and there (gpt.py:41 Block.forward); no known cause fits");
  for (const char* outcome :
       {"diverged", "replica_conflict", "missing", "extra", "incomparable", "broken"}) {
    told.outcome = outcome;
    told.reason = "the shapes differ";
    check_sentence(sentence_of(told));
  }
}

TEST_CASE("a pattern stands for no more than its members") {
  AllOfKind all;
  AlikeTensors some;
  some.kind = trace::Kind::kMainGrad;
  some.all = &all;
  for (const int layer : {0, 1, 2, 3, 4}) {
    for (const char* name : {"fc.weight", "fc.bias"}) {
      trace::TensorKey key;
      key.kind = trace::Kind::kMainGrad;
      key.name = base::concat("layers.", layer, ".", name);
      all.add(key);
      if (layer % 2 == 1 && name == std::string("fc.weight")) some.add(key);
    }
  }
  CHECK(describe_subject(some) ==
        "the gradients of 2 of 10 parameters (layers.1.fc.weight, layers.3.fc.weight)");
  for (const int layer : {0, 2, 4}) some.names.insert(base::concat("layers.", layer, ".fc.weight"));
  CHECK(describe_subject(some) == "the gradients of 5 of 10 parameters (layers.*.fc.weight)");
}

TEST_CASE("every line of what to look at is of a known cause, and names its bug") {
  std::set<std::string> known;
  for (const SentenceTemplate& one : sentence_templates()) known.insert(std::string(one.cause));
  const std::string bugs = file_text("tests/gallery/bugs.py") + file_text("README.md");
  for (const LookAt& line : look_at_lines()) {
    INFO(line.text);
    CHECK(known.contains(std::string(line.cause)));
    const std::string bug(line.bug.substr(0, line.bug.find(',')));
    CHECK(contains(bugs, bug));
    if (!line.shows.empty()) CHECK(contains(bugs, base::concat('"', line.shows, "\": Bug(")));
  }
  const auto found = [](const char* cause, const char* axis, trace::Kind kind, const char* name,
                        const std::vector<trace::MeshAxis>& mesh) {
    answer::Finding finding;
    finding.causes = {{cause, axis, "", 0}};
    trace::TensorKey shown;
    shown.kind = kind;
    shown.name = name;
    return look_at(finding, shown, {"run", 2, mesh, {}, "bf16"});
  };
  using trace::Kind;
  CHECK(look_at({}, {}, {}).empty());
  CHECK(found("no_such_cause", "", Kind::kOutput, "", {}).empty());
  CHECK(found("missing_reduction", "ep", Kind::kMainGrad, "", {}).empty());
  CHECK(
      contains(found("missing_reduction", "tp", Kind::kMainGrad, "a.router.weight", {}), "router"));
  CHECK(contains(found("scaled", "", Kind::kGradOutput, "layers.1", {{"pp", 2}}), "pipeline"));
  CHECK(found("scaled", "", Kind::kGradOutput, "layers.1", {}).empty());
  CHECK(found("scaled", "tp", Kind::kGradOutput, "layers.1", {{"pp", 2}}).empty());
}

TEST_CASE("no line speaks of what the module or the run has not") {
  const auto of = [](const char* cause, const char* name, const char* class_name,
                     const char* precision, std::uint64_t ranks) {
    answer::Finding finding;
    finding.causes = {{cause, "", "", 0}};
    finding.class_name = class_name;
    trace::TensorKey shown;
    shown.kind = trace::Kind::kOutput;
    shown.name = name;
    return look_at(finding, shown, {"run", ranks, {}, {}, precision});
  };
  CHECK(contains(of("mask_or_rows", "wte", "VocabParallelEmbedding", "bf16", 2), "embedding"));
  CHECK(contains(of("mask_or_rows", "embedding.word", "", "bf16", 2), "embedding"));
  CHECK(of("mask_or_rows", "embed.attn", "Attention", "bf16", 2).empty());
  CHECK(of("mask_or_rows", "h.0.mlp.up.lora_b", "Linear", "bf16", 2).empty());
  CHECK(of("mask_or_rows", "wte", "Embedding", "bf16", 1).empty());  // nothing is cut
  CHECK(contains(of("replica_conflict", "fc", "Linear", "fp8", 2), "FP8"));
  CHECK(of("replica_conflict", "fc", "Linear", "bf16", 2).empty());
  CHECK(contains(of("non_finite", "fc", "Linear", "fp8", 1), "FP8"));
  CHECK(of("non_finite", "fc", "Linear", "fp16", 1).empty());
  CHECK(contains(of("offset", "fc", "Linear", "bf16", 2), "every rank adds"));
  CHECK(of("offset", "fc", "Linear", "bf16", 1).empty());
}

}  // namespace
}  // namespace ttrace::report::cause_sentences_test
