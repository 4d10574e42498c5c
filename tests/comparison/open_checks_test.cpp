#include "base/error.h"
#include "comparison/run_facts.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison {
namespace {

using test::MemoryTrace;

trace::TensorEntry badly_cut(const std::string& name) {
  trace::TensorEntry entry = test::make_entry(name, {5});
  entry.placements["tp"] = trace::Shard{0, std::vector<std::uint64_t>{2, 2}};
  return entry;
}

std::string refusal(const MemoryTrace& trace) {
  try {
    require_sound_layouts(trace);
  } catch (const base::Error& error) {
    return error.kind() == base::ErrorKind::kInput ? error.what() : "not an input error";
  }
  return "";
}

TEST_CASE("a sound manifest passes") {
  MemoryTrace trace(test::make_mesh({{"tp", 2}}));
  trace.put(test::make_entry("a", {4}), {1, 2, 3, 4});
  CHECK(refusal(trace).empty());
}

TEST_CASE("the first contradiction is told, and how many more there are") {
  MemoryTrace trace(test::make_mesh({{"tp", 2}}), "run/");
  trace.edit().tensors = {badly_cut("a")};
  const std::string one = refusal(trace);
  CHECK(one.find("run/: the manifest contradicts itself: /tensors/0/placements/tp: ") == 0);
  CHECK(one.find("more, listed by") == std::string::npos);
  trace.edit().tensors = {test::make_entry("fine", {1}), badly_cut("a"), badly_cut("b"),
                          badly_cut("c")};
  const std::string three = refusal(trace);
  CHECK(three.find("/tensors/1/") != std::string::npos);
  CHECK(three.find("and 2 more, listed by `ttrace lint`") != std::string::npos);
}

TEST_CASE("ranks that cannot be read are told one by one") {
  MemoryTrace trace(test::make_mesh({{"tp", 3}}));
  CHECK(lost_ranks_of(trace).problems.empty());
  CHECK(lost_ranks_of(trace).words.empty());
  trace.lose_rank(1);
  CHECK(lost_ranks_of(trace).words == "rank 1 cannot be read");
  trace.lose_rank(2);
  trace.lose_rank(7);  // no rank of the run
  CHECK(lost_ranks_of(trace).problems.size() == 2);
  CHECK(lost_ranks_of(trace).words == "ranks {1, 2} cannot be read");
}

TEST_CASE("ranks that did not close their files may have lost something, and can be read") {
  MemoryTrace trace(test::make_mesh({{"tp", 3}}));
  trace.edit().run.unfinished = {2};
  CHECK(lost_ranks_of(trace).problems.empty());
  CHECK(lost_ranks_of(trace).words == "rank 2 did not close its file");
  trace.edit().run.unfinished = {0, 2};
  CHECK(lost_ranks_of(trace).words == "ranks {0, 2} did not close their files");
}

}  // namespace
}  // namespace ttrace::comparison
