#include "comparison/local_files.h"

#include <memory>

#include "base/refusal.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/pairing.h"
#include "support/catch.h"
#include "support/memory_trace.h"
#include "trace/elsewhere.h"

namespace ttrace::comparison::local_files_test {
namespace {

using test::make_entry;
using test::make_key;
using test::make_mesh;
using test::MemoryTrace;
using test::refusal_of;

TEST_CASE("a tensor needs the files of the ranks that hold elements of it") {
  MemoryTrace reference({}, "ref");
  MemoryTrace candidate(make_mesh({{"pp", 2}, {"tp", 2}}), "run");
  trace::TensorEntry whole = make_entry("fc", {3});
  reference.edit().tensors = {whole};
  const auto files_with = [&](const std::map<std::string, trace::Placement>& placements) {
    trace::TensorEntry entry = whole;
    for (const auto& [axis, placement] : placements) entry.placements[axis] = placement;
    candidate.edit().tensors = {entry};
    const auto side = [](const MemoryTrace& source) {
      return Side{&source, tensors_of(source.manifest())};
    };
    const std::vector<Pair> pairs = pair_traces(side(reference), side(candidate), {});
    REQUIRE(pairs.size() == 1);
    std::set<std::string> files = files_needed(reference, candidate, pairs[0]);
    CHECK(files.erase(reference.rank_file(0)) <= 1);
    return files;
  };
  const auto of_ranks = [&](std::initializer_list<std::uint64_t> ranks) {
    std::set<std::string> files;
    for (const std::uint64_t rank : ranks) files.insert(candidate.rank_file(rank));
    files.erase(reference.rank_file(0));
    return files;
  };
  CHECK(files_with({}) == of_ranks({0, 1, 2, 3}));
  CHECK(files_with({{"pp", trace::Only{1}}}) == of_ranks({2, 3}));
  CHECK(files_with({{"pp", trace::Only{1}}, {"tp", trace::Only{1}}}) == of_ranks({3}));
  CHECK(files_with({{"tp", trace::Only{0}}}) == of_ranks({0, 2}));
}

TEST_CASE("a rank whose file is elsewhere is not lost, and nothing of it is read") {
  auto stored = std::make_unique<MemoryTrace>(make_mesh({{"tp", 2}}), "run");
  stored->put(make_entry("fc", {2}), {1, 2});
  stored->lose_rank(1);
  CHECK(stored->rank_problem(1));
  const std::string file = stored->rank_file(1);
  const std::string path = dataset_path(make_key("fc"));
  const trace::PartlyElsewhere source(std::move(stored), {{1, file}});
  CHECK_FALSE(source.rank_problem(1));
  CHECK(source.open(0, path)->facts().shape == tensor::Shape{2});
  const std::string why = refusal_of([&] { source.open(1, path); });
  CHECK(why == file + ": lies on another machine");
  CHECK(needs_another_machine(why));
  CHECK_FALSE(needs_another_machine("memory: rank lost"));
}

TEST_CASE("of what two parts finished alike the one without a problem counts") {
  const auto measured = [](double sum, const std::string& unreadable = "") {
    FinishedMeasurement finished{unreadable, {}, std::nullopt};
    finished.measurement.total.sum_d2 = sum;
    return Finished{make_key("fc"), finished};
  };
  Checkpoint work;
  work.restore_one_of(measured(0, "damaged"));
  work.restore_one_of(measured(2));
  work.restore_one_of(measured(2));
  work.restore_one_of(measured(0, "damaged"));
  const std::string why = refusal_of([&] { work.restore_one_of(measured(3)); });
  CHECK(why.find("is not what another part measured of ") != why.npos);
  CHECK(work.take<FinishedMeasurement>(make_key("fc"))->measurement.total.sum_d2 == 2);
}

}  // namespace
}  // namespace ttrace::comparison::local_files_test
