#include "judge/calibration.h"

#include <cmath>
#include <limits>

#include "base/refusal.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::judge::calibration_test {
namespace {

using measure::Grid;
using test::check_refused;
using test::make_entry;
using test::make_key;
using trace::Kind;

Calibration sample() {
  Calibration calibration;
  calibration.reference = "ref.h5";
  calibration.runs = {"noise1.h5", "noise2.h5"};
  PolicyRule loose;
  loose.names = {"layers.*.mlp", "head"};
  loose.kinds = {Kind::kOutput};
  loose.multiplier = 8;
  loose.absolute = 1e-6;
  PolicyRule skip;
  skip.names = {"*.router"};
  skip.skip = "ties in the routing";
  skip.until = "2027-01-31";
  PolicyRule exact;
  exact.names = {"ids"};
  exact.exact = true;
  calibration.rules = {loose, skip, exact};
  trace::TensorKey key = make_key("layers.0.mlp", Kind::kOutput, 3);
  key.microbatch = 1;
  key.call = 2;
  calibration.tensors.emplace(
      key,
      CalibratedTensor{tensor::DType::kBFloat16,
                       {4, 2},
                       estimate_of({1.5, {0.25, 0.5}, {0.1, 0.2}, {0.3, 0.4}, 0, {0.1234, 0.5, 0}},
                                   Grid({4, 2}, {2, 1}))});
  const double infinity = std::numeric_limits<double>::infinity();
  calibration.tensors.emplace(
      make_key("loss", Kind::kLoss),
      CalibratedTensor{tensor::DType::kFloat32, {}, {2, {infinity}, {0}, Grid({}, {}), {}}});
  return calibration;
}

TEST_CASE("a calibration is read as it was written") {
  const std::string text = calibration_text(sample());
  const Calibration read = parse_calibration(text, "tol.json");
  CHECK(calibration_text(read) == text);
  CHECK(read.rules.size() == 3);
  CHECK(read.rules[1].until == "2027-01-31");
  REQUIRE(read.tensors.size() == 2);
  const CalibratedTensor& mlp = read.tensors.rbegin()->second;
  CHECK(mlp.noise.norms == std::vector<double>{0.25, 0.5});
  CHECK(mlp.noise.grid.parts() == tensor::Shape{2, 1});
  CHECK(mlp.noise.cells == sample().tensors.rbegin()->second.noise.cells);
  CHECK(mlp.noise.coherence == std::vector<double>{0.124, 0.5, 0});
  CHECK(read.tensors.begin()->second.noise.coherence.empty());
  CHECK(std::isinf(read.tensors.begin()->second.noise.norm()));
}

TEST_CASE("rules alone are a tolerance file") {
  const Calibration read = parse_calibration(
      R"({"schema": "ttrace.tolerance/1", "rules": [{"name": "*", "multiplier": 6}]})", "tol.json");
  CHECK(read.rules.at(0).multiplier == 6);
}

std::string with_rule(const std::string& members) {
  return R"({"schema": "ttrace.tolerance/1", "rules": [{)" + members + "}]}";
}

TEST_CASE("rules that say nothing, or too much, are refused") {
  const auto refused = [](const std::string& members,
                          std::initializer_list<std::string_view> words) {
    check_refused([&] { parse_calibration(with_rule(members), "tol.json"); }, words);
  };
  refused(R"("name": "*")", {"tol.json: /rules/0", "expected one of"});
  refused(R"("name": "*", "exact": true, "floor": 2)", {"expected one of"});
  refused(R"("name": "*", "skip": "")", {"/rules/0/skip", "say why"});
  refused(R"("name": "*", "skip": "why", "until": "2027-02-30")", {"/rules/0/until", "2027-01-31"});
  refused(R"("name": "*", "floor": 2, "until": "2027-02-03")", {"/rules/0/until", "skip"});
  refused(R"("name": "*", "multiplier": -1)", {"/rules/0/multiplier", "from 0 on"});
  refused(R"("name": "*", "multiplier": "inf")", {"/rules/0/multiplier", "finite"});
  refused(R"("name": [], "multiplier": 1)", {"/rules/0/name", "at least one"});
  refused(R"("name": "*", "kind": "outputs", "multiplier": 1)", {"unknown kind", "output"});
  refused(R"("names": "*", "multiplier": 1)", {"/rules/0", "names"});
}

std::string with_tensor(const std::string& members) {
  return R"({"schema": "ttrace.tolerance/1", "noise_runs": ["a"], "tensors": [{"name": "w",
             "kind": "output", "step": 0, "dtype": "float32", "shape": [4], )" +
         members + "}]}";
}

TEST_CASE("tensors whose numbers do not fit together are refused") {
  const auto refused = [](const std::string& members,
                          std::initializer_list<std::string_view> words) {
    check_refused([&] { parse_calibration(with_tensor(members), "tol.json"); }, words);
  };
  const std::string sound = R"("norm": 1, "noise": [1], "largest": [1])";
  CHECK(parse_calibration(with_tensor(sound), "tol.json").tensors.size() == 1);
  refused(R"("norm": 1, "noise": [], "largest": [])", {"/tensors/0", "1 to 1 runs"});
  refused(R"("norm": 1, "noise": [1, 2], "largest": [1, 2])", {"1 to 1 runs"});
  refused(R"("norm": 1, "noise": [1], "largest": [])", {"have 1 and 0"});
  refused(R"("norm": "-inf", "noise": [1], "largest": [1])", {"/tensors/0/norm"});
  refused(sound + R"(, "parts": [8], "cells": [1, 1, 1, 1, 1, 1, 1, 1])",
          {"/tensors/0/parts", "[4]"});
  refused(sound + R"(, "parts": [0], "cells": [])", {"/tensors/0/parts"});
  refused(sound + R"(, "coherence": [1.02, 0])", {"/tensors/0/coherence", "from 0 to 1"});
  refused(sound + R"(, "coherence": [0.5])", {"/tensors/0/coherence", "expected 2 numbers"});
  refused(sound + R"(, "coherence": [-0.1, 0])", {"/tensors/0/coherence"});
  refused(sound + R"(, "parts": [2], "cells": [1])", {"/tensors/0/cells", "1 numbers for 2 cells"});
  refused(sound + R"(, "noisy": 1)", {"noisy"});
}

TEST_CASE("other documents are refused") {
  check_refused([] { parse_calibration(R"({"schema": "ttrace.report/1"})", "a.json"); },
                {"a.json", "ttrace.tolerance/1", "ttrace calibrate"});
  check_refused([] { parse_calibration(R"({"schema": "ttrace.tolerance/1"})", "a.json"); },
                {"judges nothing"});
  const std::string twice = R"({"name": "w", "kind": "output", "step": 0, "dtype": "float32",
      "shape": [4], "norm": 1, "noise": [1], "largest": [1]})";
  check_refused(
      [&] {
        parse_calibration(R"({"schema": "ttrace.tolerance/1", "noise_runs": ["a"], "tensors": [)" +
                              twice + "," + twice + "]}",
                          "a.json");
      },
      {"/tensors/1", "is listed twice"});
}

TEST_CASE("large traces are cut into fewer cells, so that a calibration stays small") {
  std::vector<trace::TensorEntry> few(900, make_entry("w", {1024, 1024}));
  CHECK(GridPlan(few).most_cells() == 256);
  std::vector<trace::TensorEntry> many(20000, make_entry("w", {64, 64}));
  CHECK(GridPlan(many).most_cells() == 1);
  // 7,000 of 4 MB: 28 MB are 0.1 % of them.
  std::vector<trace::TensorEntry> large(7000, make_entry("w", {1024, 1024}));
  CHECK(GridPlan(large).most_cells() == 256);
}

TEST_CASE("a calibration keeps to its budget") {
  std::vector<trace::TensorEntry> entries;
  Calibration calibration;
  calibration.runs = {"a", "b", "c"};
  for (int i = 0; i < 1200; ++i) {
    entries.push_back(
        make_entry("decoder.layers." + std::to_string(i) + ".mlp.linear_fc1.weight", {256, 256}));
  }
  const GridPlan plan(entries);
  for (const trace::TensorEntry& entry : entries) {
    const Grid grid = plan.grid_for(entry.shape);
    std::vector<double> cells(grid.cells(), 1.2345678901234e-5);
    calibration.tensors.emplace(
        entry.key,
        CalibratedTensor{
            entry.dtype, entry.shape,
            estimate_of({123.45678901234567,
                         {1.2345678901234567e-5, 1.2345678901234567e-5, 1.2345678901234567e-4},
                         {1.2345678901234567e-5, 1.2345678901234567e-5, 1.2345678901234567e-5},
                         cells,
                         0},
                        grid)});
  }
  CHECK(calibration_text(calibration).size() < 2000000);
}

using test::make_key;
using trace::Kind;

PolicyRule rule(std::vector<std::string> names, std::vector<Kind> kinds = {}) {
  PolicyRule made;
  made.names = std::move(names);
  made.kinds = std::move(kinds);
  return made;
}

TEST_CASE("the first rule that matches name and kind counts") {
  const Policy policy{rule({"layers.*"}, {Kind::kMainGrad}), rule({"layers.*"}),
                      rule({"x", "head"})};
  CHECK(rule_for(policy, make_key("layers.0.mlp", Kind::kMainGrad)) == 0);
  CHECK(rule_for(policy, make_key("layers.0.mlp")) == 1);
  CHECK(rule_for(policy, make_key("head")) == 2);
  CHECK(rule_for(policy, make_key("embedding")) == std::nullopt);
}

TEST_CASE("a rule that skips ends after its last day") {
  PolicyRule skip = rule({"*"});
  CHECK_FALSE(skips(skip, "2026-11-21"));
  skip.skip = "known issue";
  CHECK(skips(skip, "2026-11-21"));
  skip.until = "2026-11-21";
  CHECK(skips(skip, "2026-11-21"));
  CHECK_FALSE(skips(skip, "2026-11-22"));
  CHECK(skips(skip, "2025-12-31"));
}

TEST_CASE("a date is a day of the calendar") {
  for (const char* text : {"2026-11-21", "2028-02-29"}) CHECK(is_date(text));
  for (const char* text :
       {"2026-11-31", "2027-02-29", "2026-1-01", "21.11.2026", "", "tomorrow", "2026-11-21 "}) {
    CHECK_FALSE(is_date(text));
  }
}

}  // namespace

}  // namespace ttrace::judge::calibration_test
