#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "report/sample_report.h"
#include "report/told_json.h"
#include "support/catch.h"

namespace ttrace::report::json_report_test {
namespace {

using judge::Outcome;
using nlohmann::json;
using Keys = std::set<std::string>;

// What is written is read as what it was.
json parsed(const comparison::CompareReport& report, const AnswerStyle& style = {}) {
  const std::string text = test::json_text(report, style);
  CHECK(answer::json_of(answer::read_answer(text, "it")) == text);
  return json::parse(text);
}

Keys keys(const json& object) {
  Keys found;
  for (const auto& [key, value] : object.items()) found.insert(key);
  return found;
}

const Keys kMeasuredMembers{"id",
                            "key",
                            "outcome",
                            "shape",
                            "dtype",
                            "elements",
                            "phase",
                            "module",
                            "error",
                            "error_in_eps",
                            "allowed",
                            "used",
                            "rule",
                            "formula",
                            "passing_multiplier",
                            "difference_norm",
                            "reference_norm",
                            "candidate_norm",
                            "allowed_norm",
                            "max_abs",
                            "mean_difference",
                            "cosine",
                            "scale",
                            "residual",
                            "unequal",
                            "worst_slice"};

TEST_CASE("the top level has the members of the contract") {
  const json report = parsed(test::diverged_report());
  CHECK(keys(report) == Keys{"schema", "headline", "verdict", "exit_code", "reference", "candidate",
                             "identity", "selection", "tolerance", "frontier_from", "counts",
                             "coverage", "findings", "groups", "command", "suspects", "results",
                             "warnings", "environment"});
  CHECK(report["schema"] == "ttrace.answer/1");
  CHECK(report["verdict"] == "diverged");
  CHECK(report["exit_code"] == 1);
  CHECK(report["frontier_from"] == "data_flow");
  CHECK(report["candidate"]["path"] == "run/");
  CHECK(report["candidate"]["mesh"][1] == json{{"name", "tp"}, {"size", 2}});
  CHECK(report["tolerance"] ==
        json{{"rule", "fallback"}, {"noise_runs", json::array()}, {"sharpness", json::array()}});
  CHECK(keys(report["environment"]) == Keys{"backend", "instruction_set", "threads", "seconds",
                                            "bytes_read", "version", "traces"});
}

TEST_CASE("a report identifies its traces and says what was selected") {
  comparison::CompareReport report = test::diverged_report();
  report.reference.run_id = "3f2a";
  report.reference.fingerprint = {12, "00000000000000ab", "00000000000000cd", 7};
  report.selection = {{"a*"}, {"b"}, {trace::Kind::kParam}, {3}};
  const json out = parsed(report);
  CHECK(out["identity"]["reference"] == json{{"run_id", "3f2a"},
                                             {"bytes", 12},
                                             {"manifest", "00000000000000ab"},
                                             {"content", "00000000000000cd"}});
  CHECK_FALSE(out["identity"].contains("candidate"));  // of tensors in memory
  CHECK(out["selection"] == json{{"only", {"a*"}},
                                 {"skip", {"b"}},
                                 {"kind", {"param"}},
                                 {"step", {3}},
                                 {"common", false}});
  CHECK(out["environment"]["traces"]["reference"]["modified"] == 7);
}

TEST_CASE("an inconclusive report says why") {
  comparison::CompareReport report = test::report_of(answer::Verdict::kInconclusive, {});
  report.why = "nothing was compared";
  report.from_modules = false;
  report.noise_runs = {"noise1.h5"};
  report.warnings = {"a", "b"};
  const json out = parsed(report);
  CHECK(out["why"] == "nothing was compared");
  CHECK(out["exit_code"] == 3);
  CHECK(out["frontier_from"] == "execution_order");
  CHECK(out["tolerance"]["rule"] == "noise");
  CHECK(out["tolerance"]["noise_runs"] == json{"noise1.h5"});
  CHECK(out["warnings"] == json{"a", "b"});
  CHECK(out["results"].empty());
  CHECK(out["findings"].empty());
}

TEST_CASE("every outcome is counted, zeros too, and the sum is the total") {
  const json counts = parsed(test::diverged_report())["counts"];
  Keys expected{"total"};
  for (const Outcome outcome : judge::kAllOutcomes) expected.emplace(outcome_name(outcome));
  CHECK(keys(counts) == expected);
  std::uint64_t sum = 0;
  for (const auto& [key, value] : counts.items()) sum += key == "total" ? 0 : value.get<int>();
  CHECK(counts["total"] == 2);
  CHECK(sum == 2);
  CHECK(counts["diverged"] == 2);
  CHECK(counts["missing"] == 0);
}

TEST_CASE("a measured result has all its numbers") {
  const json result = parsed(test::diverged_report())["results"][0];
  CHECK(keys(result) == kMeasuredMembers);
  CHECK(
      result["key"] ==
      json{{"step", 0}, {"microbatch", nullptr}, {"kind", "output"}, {"name", "fc"}, {"call", 0}});
  CHECK(result["outcome"] == "diverged");
  CHECK(result["shape"] == json{2});
  CHECK(result["dtype"] == "float32");
  CHECK(result["elements"] == 2);
  CHECK(result["error"].get<double>() == Catch::Approx(0.1));
  CHECK(result["error_in_eps"].get<double>() == Catch::Approx(0.1 * 0x1p23));
  CHECK(result["difference_norm"] == 0.5);
  CHECK(result["reference_norm"] == 5.0);
  CHECK(result["mean_difference"] == 0.25);
  CHECK(result["scale"].get<double>() == Catch::Approx(27.0 / 25));
  CHECK(result["max_abs"] == json{{"value", 0.5},
                                  {"index", {1}},
                                  {"reference", 4.0},
                                  {"candidate", 4.5},
                                  {"rank", 1},
                                  {"local_index", {1}}});
  CHECK(result["worst_slice"]["ranks"] == json{0});
  CHECK(result["worst_slice"]["extent"] == json{2});
}

TEST_CASE("the worst slice is the shard with the largest relative error") {
  comparison::CompareReport report = test::diverged_report();
  std::vector<measure::BlockStats>& blocks = report.results[0].comparison->measurement.blocks;
  const auto block = [](std::uint64_t rank, double reference, double candidate) {
    const tensor::Box box{{rank}, {1}};
    return measure::BlockStats{measure::RankBoxes{{box}, {rank}, ""},
                               measure::box_stats(box, {{reference}}, {{candidate}})};
  };
  blocks = {block(0, 100, 101), block(1, 1, 1.5), block(2, 10, 11), block(3, 1, 1)};
  const json worst = parsed(report)["results"][0]["worst_slice"];
  CHECK(worst == json{{"origin", json::array({1})},
                      {"extent", json::array({1})},
                      {"ranks", {1}},
                      {"error", 0.5}});
}

TEST_CASE("micro-batch and copy are in the key where they are in the trace") {
  comparison::CompareReport report = test::diverged_report();
  report.results[0].key.microbatch = 3;
  report.results[0].key.copy = 2;
  const json key = parsed(report)["results"][0]["key"];
  CHECK(key["microbatch"] == 3);
  CHECK(key["copy"] == 2);
}

TEST_CASE("a result that was not measured has a reason and no numbers") {
  const json result = parsed(test::report_of(
      answer::Verdict::kWrong,
      {test::unmeasured("a", Outcome::kMissing, "in the reference only")}))["results"][0];
  CHECK(keys(result) ==
        Keys{"id", "key", "outcome", "shape", "dtype", "elements", "phase", "module", "reason"});
  CHECK(result["reason"] == "in the reference only");
}

TEST_CASE("a finding refers to results by their ids") {
  comparison::CompareReport report = test::diverged_report();
  report.findings[0].depends_on = {1};
  report.findings[0].ranks = {0, 1};
  const json out = parsed(report);
  const json finding = out["findings"][0];
  CHECK(keys(finding) == Keys{"id", "group", "outcome", "members", "phase", "place", "source",
                              "ranks", "where", "merged", "replica_classes", "depends_on",
                              "downstream", "downstream_total", "causes", "shards"});
  CHECK(finding["id"] == "0/-/output/fc/0/0");
  CHECK(out["results"][0]["id"] == finding["id"]);
  CHECK(finding["members"] == json{"0/-/output/fc/0/0"});
  CHECK(finding["phase"] == "forward");
  CHECK(finding["source"] == json{{"class", "Linear"}, {"called_at", "model.py:7"}});
  CHECK(finding["downstream"] == json{"0/-/output/head/0/0"});
  CHECK(finding["downstream_total"] == 1);
  CHECK(finding["depends_on"] == json{"0/-/output/head/0/0"});
  CHECK(finding["causes"][0] == json{{"name", "scaled"},
                                     {"axis", "tp"},
                                     {"evidence", "1.1 times the reference"},
                                     {"unexplained", 0.01},
                                     {"values", {{"factor", 1.1}, {"times", "11/10"}}}});
  CHECK(out["headline"] ==
        "the output of fc is 11/10 times what it should be; the "
        "reference ran in fp32, the candidate in bf16");
  CHECK(out["groups"][0]["headline"] == "the output of fc is 11/10 times what it should be");
  CHECK(finding["replica_classes"].empty());
}

TEST_CASE("replicas in conflict are told in classes, missing ones by their group") {
  comparison::CompareReport report = test::diverged_report();
  report.results[0].outcome = Outcome::kReplicaConflict;
  report.results[0].comparison->measurement.replicas_differ = true;
  report.results[0].comparison->measurement.replicas =
      measure::ReplicaDifference{2.5, {{0, 2}, {1}}, {}};
  report.findings[0].one_sided_group = "layers.3";
  report.findings[0].causes[0].axis = "";
  const json out = parsed(report);
  const json finding = out["findings"][0];
  CHECK(finding["replica_classes"] == json{{0, 2}, {1}});
  CHECK(out["results"][0]["replica_drift"] == 0.5);
  CHECK(finding["one_sided"] == "layers.3");
  CHECK(finding["causes"][0]["axis"].is_null());
}

TEST_CASE("numbers that are not finite are strings") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<comparison::TensorComparison> results{
      test::compared("zero", {0, 0}, {0, 1}, Outcome::kDiverged),
      test::compared("nan", {1, std::nan("")}, {1, 2}, Outcome::kDiverged),
      test::compared("equal", {0, 0}, {0, 0})};
  results[2].comparison->tolerance.floor_norm = kInfinity;
  results[1].comparison->measurement.total.largest =
      measure::Extreme{std::nan(""), -kInfinity, kInfinity, {0}};
  const json out = parsed(test::report_of(answer::Verdict::kWrong, results))["results"];
  CHECK(out[0]["error"] == "inf");
  CHECK(out[0]["allowed"] == 0.0);
  CHECK(out[0]["passing_multiplier"] == "inf");
  CHECK(out[0]["scale"].is_null());
  CHECK(out[0]["cosine"].is_null());
  CHECK(out[0]["worst_slice"]["error"] == "inf");
  CHECK(out[1]["max_abs"]["value"] == "nan");
  CHECK(out[1]["max_abs"]["reference"] == "-inf");
  CHECK(out[1]["nonfinite"]["different"] == 1);
  CHECK(out[1]["nonfinite"]["first"] == json{1});
  CHECK(out[2]["allowed"] == "inf");
  CHECK(out[2]["max_abs"].is_null());
  CHECK(out[2]["worst_slice"].is_null());
}

TEST_CASE("integers have no precision to count in") {
  comparison::CompareReport report = test::diverged_report();
  report.results[0].exact = true;
  report.results[0].comparison->tolerance = judge::exact_tolerance();
  const json result = parsed(report)["results"][0];
  CHECK(result["error_in_eps"].is_null());
  CHECK(result["passing_multiplier"].is_null());
  CHECK(result["rule"] == "exact");
}

TEST_CASE("a path that is no UTF-8 does not stop the report") {
  comparison::CompareReport report = test::diverged_report();
  report.reference.path = "run\xff\x1b";
  CHECK(parsed(report)["reference"]["path"] == "run\xef\xbf\xbd\x1b");
}

TEST_CASE("every result stands on a line of its own, the environment too") {
  const std::string text = test::json_text(test::many_findings(5));
  CHECK(std::count(text.begin(), text.end(), '\n') == 21 + 2 + 5 + 6 + 5);
  CHECK(text.find("\n  \"environment\": {") != std::string::npos);
}

TEST_CASE("groups, settings and second suspects have ids") {
  comparison::CompareReport report = test::many_findings(3);
  for (std::size_t i = 0; i < 3; ++i) {
    report.results[i].key.name = base::concat("layers.", i, ".fc");
    report.results[i].key.microbatch = i;
  }
  report.settings = {{0, "lr", "0.1", "0.2", {"fc.weight"}, {2}}};
  report.suspects = {{report.results[1].key, 80, 2, report.results[0].key},
                     {report.results[2].key, 40, 1, std::nullopt}};
  const json out = parsed(report);
  const std::string group = "group:0/forward/output/-";
  REQUIRE(out["groups"].size() == 1);
  CHECK(out["groups"][0]["id"] == group);
  CHECK(out["groups"][0]["findings"] == json{"0/0/output/layers.0.fc/0/0",
                                             "0/1/output/layers.1.fc/0/0",
                                             "0/2/output/layers.2.fc/0/0"});
  REQUIRE(out["findings"].size() == 4);
  CHECK(out["findings"][0]["group"] == group);
  CHECK(out["findings"][3] ==
        json{{"id", "setting:0/lr/fc.weight"},
             {"headline",
              "the optimizers differ: lr is 0.2 instead of 0.1 for "
              "parameter fc.weight"},
             {"outcome", "setting"},
             {"phase", "optimizer"},
             {"setting", {{"step", 0}, {"name", "lr"}, {"reference", "0.1"}, {"candidate", "0.2"}}},
             {"parameters", {"fc.weight"}},
             {"parameters_total", 1},
             {"members", {"0/2/output/layers.2.fc/0/0"}}});
  CHECK(out["suspects"] == json{{{"id", "0/1/output/layers.1.fc/0/0"},
                                 {"used", 80.0},
                                 {"used_before", 2.0},
                                 {"largest_before", "0/0/output/layers.0.fc/0/0"}},
                                {{"id", "0/2/output/layers.2.fc/0/0"},
                                 {"used", 40.0},
                                 {"used_before", 1.0},
                                 {"largest_before", nullptr}}});
}

TEST_CASE("the id of a group depends neither on its members nor on their cause") {
  const auto ids_of = [](std::size_t findings, const char* cause) {
    comparison::CompareReport report = test::many_findings(findings + 1);
    for (std::size_t i = 0; i < findings; ++i) {
      report.results[i].key.name = base::concat("layers.", i, ".fc");
      report.findings[i].causes = {{cause, "", "so it is", 0}};
      report.findings[i].class_name = "Linear";
    }
    // Another group of the same kind and class.
    report.findings[findings].class_name = "Linear";
    report.findings[findings].causes = {{"stale", "", "so it is", 0}};
    std::vector<std::string> ids;
    const json out = parsed(report);
    for (const json& group : out["groups"]) ids.push_back(group["id"]);
    return ids;
  };
  const std::vector<std::string> ids{"group:0/forward/output/Linear",
                                     "group:0/forward/output/Linear~2"};
  CHECK(ids_of(3, "scaled") == ids);
  CHECK(ids_of(2, "scaled") == ids);
  CHECK(ids_of(1, "zeroed") == ids);
}

TEST_CASE("what is missing as a whole has a group's id") {
  comparison::CompareReport report = test::report_of(
      answer::Verdict::kWrong, {test::unmeasured("layers.3.a", Outcome::kMissing, "gone"),
                                test::unmeasured("layers.3.b", Outcome::kMissing, "gone")});
  report.findings = {test::finding_of(0)};
  report.findings[0].members = {0, 1};
  report.findings[0].one_sided_group = "layers.3";
  CHECK(parsed(report)["findings"][0]["id"] == "group:0/-/missing/layers.3/0/0");
}

// A divergence with everything that a result can have.
comparison::TensorComparison with_slices(const std::string& name) {
  comparison::TensorComparison result = test::compared(name, {3, 4}, {3, 4.5}, Outcome::kDiverged);
  result.comparison->measurement.largest_place = measure::ElementPlace{1, {1}};
  judge::Slice slice;
  slice.what = judge::Slice::What::kBlock;
  slice.boxes = {tensor::Box{{1024, 0}, {2048, 4096}}};
  slice.difference_norm = 1.0 / 3;
  slice.reference_norm = 2.0 / 7;
  slice.tolerance = result.comparison->tolerance;
  slice.tolerance.formula = "4·1.23·noise + 2·ε";
  result.comparison->slices = judge::SliceJudgement{slice, 40, {}};
  result.comparison->slices.change().found.assign(16, slice);
  return result;
}

TEST_CASE("the worst four parts are written, and all that are kept when asked for") {
  comparison::CompareReport report = test::report_of(answer::Verdict::kWrong, {with_slices("fc")});
  report.findings = {test::finding_of(0)};
  const auto slices = [&](const AnswerStyle& style) {
    const json result = parsed(report, style)["results"][0];
    CHECK(result["slices_beyond"] == 40);
    return result["slices"].size();
  };
  CHECK(slices({}) == 4);
  CHECK(slices({true}) == 16);
}

TEST_CASE("the slices of a tensor that no finding shows are counted only") {
  const comparison::CompareReport report =
      test::report_of(answer::Verdict::kWrong, {with_slices("fc")});
  const json result = parsed(report)["results"][0];
  CHECK(result["slices_beyond"] == 40);
  CHECK(!result.contains("slices"));
  CHECK(parsed(report, {true})["results"][0]["slices"].size() == 16);
}

TEST_CASE("values that are not finite are counted where there are any") {
  comparison::CompareReport report = test::diverged_report();
  CHECK(!parsed(report)["results"][0].contains("nonfinite"));
  report.results[0].comparison->measurement.total.nonfinite_reference = 3;
  CHECK(parsed(report)["results"][0]["nonfinite"] ==
        json{{"reference", 3}, {"candidate", 0}, {"equal", 0}, {"different", 0}});
}

TEST_CASE("ten thousand diverged tensors take at most twelve megabytes") {
  std::vector<comparison::TensorComparison> results;
  for (std::size_t i = 0; i < 10'000; ++i) {
    results.push_back(with_slices(base::concat("model.layers.", i, ".self_attn.q_proj")));
  }
  comparison::CompareReport report = test::report_of(answer::Verdict::kWrong, std::move(results));
  for (std::size_t i = 0; i < 10; ++i) {
    comparison::ComparedFinding finding = test::finding_of(i);
    for (std::size_t j = 10; j < 10'000; ++j) finding.downstream.push_back(j);
    report.findings.push_back(finding);
  }
  CHECK(test::json_text(report).size() <= 12'000'000);
}

TEST_CASE("a result says where in the step and in the model it is, and how much it used") {
  comparison::CompareReport report = test::report_of(
      answer::Verdict::kRight, {test::compared("decoder.layers.3.mlp.fc1.weight", {3, 4}, {3, 4},
                                               Outcome::kMatch, trace::Kind::kMainGrad),
                                test::compared("head", {3, 4}, {3, 4.0000001})});
  const json out = parsed(report);
  const json& gradient = out["results"][0];
  CHECK(gradient["phase"] == "synchronisation");
  CHECK(gradient["module"] == "decoder.layers.3.mlp.fc1");
  CHECK(gradient["layer"] == 3);
  CHECK(gradient["used"] == 0.0);
  const json& head = out["results"][1];
  CHECK(head["phase"] == "forward");
  CHECK_FALSE(head.contains("layer"));
  const double used = head["error"].get<double>() / head["allowed"].get<double>();
  CHECK(head["used"].get<double>() == Catch::Approx(used));
  CHECK(out["closest"]["id"] == "0/-/output/head/0/0");
  CHECK(out["closest"]["used"] == head["used"]);
}

TEST_CASE("a finding says which shards hold how much of its squared error") {
  comparison::CompareReport report = test::diverged_report();
  measure::Measurement& measurement = report.results[0].comparison->measurement;
  const auto shard = [](std::uint64_t from, std::vector<std::uint64_t> ranks, double candidate) {
    const tensor::Box box{{from}, {1}};
    measure::BlockStats block;
    block.owner = measure::RankBoxes{{box}, std::move(ranks), ""};
    block.stats = measure::box_stats(box, std::vector<double>{4}, std::vector<double>{candidate});
    return block;
  };
  measurement.blocks.clear();
  measurement.blocks.push_back(shard(0, {0, 2}, 5));
  measurement.blocks.push_back(shard(1, {1, 3}, 6));
  const json shards = parsed(report)["findings"][0]["shards"];
  REQUIRE(shards.size() == 2);
  CHECK(shards[0] == json{{"origin", json::array({1})},
                          {"extent", json::array({1})},
                          {"ranks", {1, 3}},
                          {"error", 0.5},
                          {"share", 0.8}});
  CHECK(shards[1]["share"] == 0.2);
}

TEST_CASE("with the detail of findings the results of all others are left out") {
  comparison::CompareReport report = test::diverged_report();
  report.results.push_back(test::compared("far", {1, 2}, {1, 2}));
  report.results.push_back(test::compared("near", {1, 2}, {1, 2.0000001}));
  AnswerStyle style;
  style.detail = Detail::kFindings;
  const json out = parsed(report, style);
  CHECK(out["detail"] == "findings");
  std::set<std::string> names;
  for (const json& result : out["results"]) names.insert(result["key"]["name"]);
  CHECK(names == std::set<std::string>{"fc", "near"});  // the finding, and the closest
  CHECK(out["counts"]["total"] == 2 + 2);
  CHECK_FALSE(parsed(report).contains("detail"));
}

TEST_CASE("the identity has what the manifest says of the recording") {
  comparison::CompareReport report = test::diverged_report();
  report.reference.fingerprint = {12, "00000000000000ab", "00000000000000cd", 7};
  report.reference.recorded = {{"recorded_at", "2026-01-02T03:04:05Z"}, {"host", "n1"}};
  report.candidate.mesh_ranks = {1, 0};
  const json out = parsed(report);
  CHECK(out["identity"]["reference"]["recorded_at"] == "2026-01-02T03:04:05Z");
  CHECK(out["identity"]["reference"]["host"] == "n1");
  CHECK(out["candidate"]["mesh_ranks"] == json{1, 0});
  CHECK_FALSE(out["reference"].contains("mesh_ranks"));
}

}  // namespace
}  // namespace ttrace::report::json_report_test
