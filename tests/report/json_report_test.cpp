#include "report/json_report.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "report/sample_report.h"
#include "support/catch.h"

namespace ttrace::report {
namespace {

using nlohmann::json;
using verdict::Outcome;
using Keys = std::set<std::string>;

json parsed(const CompareReport& report) { return json::parse(json_text(report)); }

Keys keys(const json& object) {
  Keys found;
  for (const auto& [key, value] : object.items()) found.insert(key);
  return found;
}

const Keys kMeasuredMembers{"key",
                            "outcome",
                            "shape",
                            "dtype",
                            "elements",
                            "error",
                            "error_in_eps",
                            "allowed",
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
                            "nonfinite",
                            "worst_slice"};

TEST_CASE("the top level has the members of the contract") {
  const json report = parsed(test::diverged_report());
  CHECK(keys(report) == Keys{"schema", "verdict", "exit_code", "reference", "candidate",
                             "tolerance", "frontier_from", "counts", "frontier", "results",
                             "warnings", "environment"});
  CHECK(report["schema"] == "ttrace.report/1");
  CHECK(report["verdict"] == "diverged");
  CHECK(report["exit_code"] == 1);
  CHECK(report["frontier_from"] == "data_flow");
  CHECK(report["candidate"]["path"] == "run/");
  CHECK(report["candidate"]["mesh"][1] == json{{"name", "tp"}, {"size", 2}});
  CHECK(report["tolerance"] == json{{"rule", "fallback"}, {"noise_runs", json::array()}});
  CHECK(keys(report["environment"]) ==
        Keys{"backend", "instruction_set", "threads", "seconds", "bytes_read", "version"});
}

TEST_CASE("an inconclusive report says why") {
  CompareReport report = test::report_of(Verdict::kInconclusive, {});
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
  CHECK(out["frontier"].empty());
}

TEST_CASE("every outcome is counted, zeros too, and the sum is the total") {
  const json counts = parsed(test::diverged_report())["counts"];
  Keys expected{"total"};
  for (const Outcome outcome : verdict::kAllOutcomes) expected.emplace(outcome_name(outcome));
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
  CHECK(result["nonfinite"] ==
        json{{"reference", 0}, {"candidate", 0}, {"equal", 0}, {"different", 0}});
  CHECK(result["worst_slice"]["ranks"] == json{0});
  CHECK(result["worst_slice"]["extent"] == json{2});
}

TEST_CASE("the worst slice is the shard with the largest relative error") {
  CompareReport report = test::diverged_report();
  std::vector<compare::BlockStats>& blocks = report.results[0].comparison->measurement.blocks;
  const auto block = [](std::uint64_t rank, double reference, double candidate) {
    const tensor::Box box{{rank}, {1}};
    return compare::BlockStats{
        {box}, {rank}, compare::slab_stats(box, {{reference}}, {{candidate}})};
  };
  blocks = {block(0, 100, 101), block(1, 1, 1.5), block(2, 10, 11), block(3, 1, 1)};
  const json worst = parsed(report)["results"][0]["worst_slice"];
  CHECK(worst == json{{"origin", {1}}, {"extent", {1}}, {"ranks", {1}}, {"error", 0.5}});
}

TEST_CASE("micro-batch and copy are in the key where they are in the trace") {
  CompareReport report = test::diverged_report();
  report.results[0].key.microbatch = 3;
  report.results[0].key.copy = 2;
  const json key = parsed(report)["results"][0]["key"];
  CHECK(key["microbatch"] == 3);
  CHECK(key["copy"] == 2);
}

TEST_CASE("a result that was not measured has a reason and no numbers") {
  const json result = parsed(test::report_of(
      Verdict::kDiverged,
      {test::unmeasured("a", Outcome::kMissing, "in the reference only")}))["results"][0];
  CHECK(keys(result) == Keys{"key", "outcome", "shape", "dtype", "elements", "reason"});
  CHECK(result["reason"] == "in the reference only");
}

TEST_CASE("a finding adds what is known of its cause and consequences") {
  CompareReport report = test::diverged_report();
  report.findings[0].depends_on = {1};
  report.findings[0].ranks = {0, 1};
  const json finding = parsed(report)["frontier"][0];
  Keys expected = kMeasuredMembers;
  expected.merge(Keys{"members", "phase", "source", "ranks", "where", "merged", "replica_classes",
                      "depends_on", "downstream", "causes"});
  CHECK(keys(finding) == expected);
  CHECK(finding["phase"] == "forward");
  CHECK(finding["source"] == json{{"class", "Linear"}, {"called_at", "model.py:7"}});
  CHECK(finding["downstream"][0]["name"] == "head");
  CHECK(finding["depends_on"][0]["name"] == "head");
  CHECK(finding["causes"][0] == json{{"name", "scaled"},
                                     {"axis", "tp"},
                                     {"evidence", "1.1 times the reference"},
                                     {"unexplained", 0.01}});
  CHECK(finding["replica_classes"].empty());
}

TEST_CASE("replicas in conflict are told in classes, missing ones by their group") {
  CompareReport report = test::diverged_report();
  report.results[0].outcome = Outcome::kReplicaConflict;
  report.results[0].comparison->measurement.replicas_differ = true;
  report.results[0].comparison->measurement.replicas = {2.5, {{0, 2}, {1}}};
  report.findings[0].one_sided_group = "layers.3";
  report.findings[0].causes[0].axis = "";
  const json finding = parsed(report)["frontier"][0];
  CHECK(finding["replica_classes"] == json{{0, 2}, {1}});
  CHECK(finding["replica_drift"] == 0.5);
  CHECK(finding["missing_group"] == "layers.3");
  CHECK(finding["causes"][0]["axis"].is_null());
}

TEST_CASE("numbers that are not finite are strings") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Result> results{test::compared("zero", {0, 0}, {0, 1}, Outcome::kDiverged),
                              test::compared("nan", {1, std::nan("")}, {1, 2}, Outcome::kDiverged),
                              test::compared("equal", {0, 0}, {0, 0})};
  results[2].comparison->tolerance.floor_norm = kInfinity;
  results[1].comparison->measurement.total.largest =
      compare::Extreme{std::nan(""), -kInfinity, kInfinity, {0}};
  const json out = parsed(test::report_of(Verdict::kDiverged, results))["results"];
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
  CompareReport report = test::diverged_report();
  report.results[0].exact = true;
  report.results[0].comparison->tolerance = tolerance::exact_tolerance();
  const json result = parsed(report)["results"][0];
  CHECK(result["error_in_eps"].is_null());
  CHECK(result["passing_multiplier"].is_null());
  CHECK(result["rule"] == "exact");
}

TEST_CASE("a path that is no UTF-8 does not stop the report") {
  CompareReport report = test::diverged_report();
  report.reference.path = "run\xff\x1b";
  CHECK(parsed(report)["reference"]["path"] == "run\xef\xbf\xbd\x1b");
}

TEST_CASE("every result stands on a line of its own, the environment too") {
  const std::string text = json_text(test::many_findings(5));
  CHECK(std::count(text.begin(), text.end(), '\n') == 14 + 2 + 5 + 5);
  CHECK(text.find("\n  \"environment\": {") != std::string::npos);
}

}  // namespace
}  // namespace ttrace::report
