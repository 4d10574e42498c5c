#include "comparison/noise_runs.h"

#include <algorithm>

#include "base/error.h"
#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::noise_runs_test {
namespace {

using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

using Sources = std::vector<const trace::Source*>;

// A parameter, its module's output and a main gradient; `scale` multiplies what noise can reach.
MemoryTrace run(const std::string& path, double scale = 1,
                std::optional<std::uint64_t> seed = std::nullopt, double parameter = 1) {
  MemoryTrace made({}, path);
  made.put(make_entry("fc.weight", {3}, Kind::kParam), {parameter, 2, 3});
  made.put(make_entry("fc", {3}), {4 * scale, 5 * scale, 6 * scale});
  made.put(make_entry("fc.weight", {3}, Kind::kMainGrad), {7 * scale, 8 * scale, 9 * scale});
  made.edit().run.id = path;
  if (seed) made.edit().run.noise = trace::NoiseFacts{*seed, 1e-7, "first"};
  return made;
}

std::string refusal(const MemoryTrace& reference, const Sources& noise,
                    const MemoryTrace& candidate) {
  try {
    engine::compare_traces(reference, candidate, noise, {{}, 1});
  } catch (const base::Error& error) {
    CHECK(error.kind() == base::ErrorKind::kInput);
    return error.what();
  }
  return "";
}

std::string refusal(const MemoryTrace& noise) { return refusal(run("ref"), {&noise}, run("run")); }

std::vector<std::string> warnings(const Sources& noise) {
  return check_noise_runs(run("ref"), run("run"), noise).warnings;
}

void erase(MemoryTrace& from, Kind kind) {
  std::erase_if(from.edit().tensors, [kind](const auto& entry) { return entry.key.kind == kind; });
}

TEST_CASE("perturbed runs of different seeds are taken without a word") {
  const MemoryTrace first = run("noise1", 1.0001, 1);
  const MemoryTrace second = run("noise2", 1.0002, 2);
  const NoiseRuns found = check_noise_runs(run("ref"), run("run"), {&first, &second});
  CHECK(found.warnings.empty());
  CHECK(found.runs == Sources{&first, &second});
  CHECK(refusal(run("ref"), {&first, &second}, run("run")).empty());
}

TEST_CASE("a perturbed run in the place of a clean one is told") {
  const auto told = [](const MemoryTrace& reference, const MemoryTrace& candidate) {
    return check_noise_runs(reference, candidate, {}).warnings;
  };
  REQUIRE(told(run("ref", 1, 3), run("run")).size() == 1);
  CHECK(told(run("ref", 1, 3), run("run"))[0].find("ref is a perturbed run (seed 3)") == 0);
  CHECK(told(run("ref"), run("run", 1, 4))[0].find("run is a perturbed run (seed 4)") == 0);
  CHECK(told(run("ref", 1, 3), run("run", 1, 4)).size() == 2);
}

TEST_CASE("runs of one seed count as one") {
  const MemoryTrace first = run("noise1", 1.0001, 1);
  const MemoryTrace again = run("noise2", 1.0001, 1);
  const MemoryTrace third = run("noise3", 1.0001, 1);
  const NoiseRuns found = check_noise_runs(run("ref"), run("run"), {&first, &again, &third});
  CHECK(found.runs == Sources{&first});
  REQUIRE(found.warnings.size() == 2);
  CHECK(found.warnings[0].find("noise2 and noise1 were perturbed with the same seed 1") == 0);
  const auto report =
      engine::compare_traces(run("ref"), run("run"), {&first, &again, &third}, {{}, 1});
  CHECK(report.noise_runs == std::vector<std::string>{"noise1"});
}

TEST_CASE("a run that says no seed, or has no parameters, is taken with a warning") {
  const MemoryTrace unseeded = run("noise1", 1.0001);
  REQUIRE(warnings({&unseeded}).size() == 1);
  CHECK(warnings({&unseeded})[0].find("noise1 does not say that it was perturbed") == 0);

  MemoryTrace reference = run("ref");
  MemoryTrace bare = run("noise1", 1.0001, 1);
  erase(reference, Kind::kParam);
  erase(bare, Kind::kParam);
  const auto told = check_noise_runs(reference, run("run"), {&bare}).warnings;
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("noise1: has no parameters, so whether") == 0);
}

TEST_CASE("the reference, the candidate or another noise run is no noise run") {
  const MemoryTrace reference = run("ref");
  const MemoryTrace candidate = run("run");
  const MemoryTrace noise = run("noise1", 1.0001, 1);
  CHECK(refusal(reference, {&reference}, candidate).find("and is the reference ref") !=
        std::string::npos);
  CHECK(refusal(reference, {&candidate}, candidate).find("and is the candidate run") !=
        std::string::npos);
  CHECK(refusal(reference, {&noise, &noise}, candidate).find("and is the noise run noise1 again") !=
        std::string::npos);
  MemoryTrace copy = run("copy", 1.0001, 2);
  copy.edit().run.id = "ref";  // of the same run, wherever its files are
  CHECK(refusal(reference, {&copy}, candidate).find("and is the reference ref") !=
        std::string::npos);
}

TEST_CASE("a run that lacks tensors of the reference is refused") {
  MemoryTrace other = run("noise1", 1.0001, 1);
  other.edit().tensors.pop_back();
  MemoryTrace reference = run("ref");
  reference.put(make_entry("head.weight", {1}, Kind::kMainGrad), {1});
  const std::string why = refusal(reference, {&other}, run("run"));
  // One kind is not there at all, and the manifest does not say whether it was asked for.
  CHECK(why.empty());
  other.put(make_entry("fc.weight", {3}, Kind::kMainGrad), {7, 8, 9.5});
  CHECK(refusal(reference, {&other}, run("run"))
            .find("noise1: lacks 1 tensor of the reference (first head.weight · main_grad · step "
                  "0), so it is a run of another model") == 0);
}

TEST_CASE("what a run was told to leave out, it does not lack") {
  MemoryTrace noise = run("noise1", 1.0001, 1);
  erase(noise, Kind::kOutput);
  noise.edit().run.recorded = trace::Recorded{{Kind::kParam, Kind::kMainGrad}, {}, {0}};
  REQUIRE(warnings({&noise}).size() == 1);
  CHECK(warnings({&noise})[0].find("noise1: 1 tensor of the reference is not in this noise run, "
                                   "which did not record them") == 0);
  noise.edit().run.recorded->kinds.push_back(Kind::kOutput);
  CHECK(refusal(noise).find("noise1: lacks 1 tensor of the reference (first fc · output") == 0);
}

TEST_CASE("an expert that no token went to in a noise run is not lacking") {
  MemoryTrace reference = run("ref");
  MemoryTrace noise = run("noise1", 1.0001, 1);
  for (const char* expert : {"experts.0", "experts.1"}) {
    trace::TensorEntry entry = make_entry(expert, {1});
    entry.key.microbatch = 0;
    reference.put(entry, {1});
    if (expert == std::string("experts.0")) noise.put(entry, {1.001});
  }
  const auto told = check_noise_runs(reference, run("run"), {&noise}).warnings;
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("since their modules did not run in it") != std::string::npos);
  // But a whole layer of another model is.
  reference.put(make_entry("head", {1}), {1});
  CHECK(refusal(reference, {&noise}, run("run")).find("lacks 1 tensor") != std::string::npos);
}

TEST_CASE("a run that starts from other parameters is refused") {
  CHECK(refusal(run("noise1", 1.0001, 1, std::nextafter(1.0F, 2.0F)))
            .find("noise1: fc.weight · param · step 0 differs by") == 0);
}

TEST_CASE("a run that differs nowhere was not perturbed") {
  CHECK(refusal(run("noise1", 1, 1)).find("noise1: equals the reference bit by bit") == 0);
  // Of a selection that noise cannot reach, nothing can be said.
  const MemoryTrace noise = run("noise1", 1, 1);
  engine::CompareOptions options{{}, 1};
  options.selection.kinds = {Kind::kParam};
  CHECK(engine::compare_traces(run("ref"), run("run"), {&noise}, options).verdict ==
        answer::Verdict::kRight);
}

}  // namespace
}  // namespace ttrace::comparison::noise_runs_test
