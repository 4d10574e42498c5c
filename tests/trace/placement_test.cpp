#include "trace/placement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/refusal.h"
#include "trace/layout_json.h"

namespace ttrace::trace::placement_test {
namespace {

TEST_CASE("placements as people say them") {
  CHECK(to_string(Placement{Replicate{}}) == "replicate");
  CHECK(to_string(Placement{Shard{2, std::nullopt}}) == "shard 2");
  CHECK(to_string(Placement{Shard{0, {{3, 1}}}}) == "shard 0 (given sizes)");
  CHECK(to_string(Placement{Partial{Reduction::kSum}}) == "partial sum");
  CHECK(to_string(Placement{Partial{Reduction::kMean}}) == "partial mean");
  CHECK(to_string(Placement{Partial{Reduction::kMax}}) == "partial max");
  CHECK(to_string(Placement{Only{1}}) == "only 1");
}

// One of every kind, those with lists and without.
const std::vector<Placement> kEveryKind{Replicate{},
                                        Zigzag{1},
                                        Segments{0, {2, 4}, 3, std::nullopt},
                                        Segments{0, {2, 4}, 1, {{{1, 1}, {3, 1}}}},
                                        Strided{2, 4},
                                        Shard{0, std::nullopt},
                                        Shard{0, {{3, 1}}},
                                        Partial{Reduction::kMean},
                                        Only{3},
                                        Flat{{{0, 4}, {4, 6}}},
                                        Boxes{{{{0, 0}, {1, 2}}, {{1, 0}, {1, 2}}}},
                                        Rows{1, "experts \"0\" é"}};

TEST_CASE("every placement that is written is read back") {
  std::vector<bool> met(std::variant_size_v<Placement>, false);
  for (const Placement& placement : kEveryKind) {
    const std::string text = json_text(placement);
    CAPTURE(text);
    const base::JsonDocument document(text, "test.json");
    CHECK(placement_from(document.root()) == placement);
    CHECK(document.root().text() == nlohmann::json::parse(text).dump());
    met[placement.index()] = true;
  }
  CHECK(std::find(met.begin(), met.end(), false) == met.end());
}

TEST_CASE("placements that differ read differently with all their numbers") {
  std::set<std::string> texts;
  for (const Placement& placement : kEveryKind) texts.insert(describe_exactly(placement));
  CHECK(texts.size() == kEveryKind.size());
  CHECK(describe_exactly(Segments{0, {2, 4}, 1, {{{1, 1}, {3, 1}}}}) ==
        "shard 0 (2 segments) [2, 4] repeated 1 times sizes [[1, 1], [3, 1]]");
  CHECK(describe_exactly(Flat{std::vector<Flat::Interval>(17)}).ends_with(", ... 17 in all]"));
}

TEST_CASE("placements over an axis, as parts of a sentence") {
  CHECK(describe_over(Replicate{}, "tp") == "replicas over tp");
  CHECK(describe_over(Shard{0, {{3, 1}}}, "tp") == "dimension 0 cut over tp");
  CHECK(describe_over(Zigzag{1}, "cp") == "dimension 1 cut over cp in zigzag order");
  CHECK(describe_over(Segments{0, {2, 4}, 3, {}}, "tp") == "dimension 0 cut over tp in 6 segments");
  CHECK(describe_over(Strided{2, 4}, "dp") == "dimension 2 cut over dp with stride 4");
  CHECK(describe_over(Partial{Reduction::kMean}, "dp") == "partial mean over dp");
  CHECK(describe_over(Only{3}, "pp") == "only on pp 3");
  CHECK(describe_over(Flat{}, "dp") == "flat ranges over dp");
  CHECK(describe_over(Boxes{}, "dp") == "boxes over dp");
  CHECK(describe_over(Rows{1, "i"}, "ep") == "rows of dimension 1 dealt out over ep");
}

TEST_CASE("an unknown placement is refused with the names of all kinds") {
  const auto parsed = [](const char* text) {
    return [text] { placement_from(base::JsonDocument(text, "a.json").root()); };
  };
  const char* known =
      "expected \"replicate\" or an object with shard, partial, only, flat, boxes or rows";
  test::check_refused(parsed("\"whole\""), {"unknown placement \"whole\", ", known});
  test::check_refused(parsed("{\"cyclic\": 1}"), {"unknown placement, ", known});
  test::check_refused(parsed("1"), {"expected an object, found number"});
}

TEST_CASE("placements are equal if all they say is") {
  CHECK(Placement{Shard{1, std::nullopt}} == Placement{Shard{1, std::nullopt}});
  CHECK_FALSE(Placement{Shard{1, std::nullopt}} == Placement{Shard{1, {{2, 2}}}});
  CHECK_FALSE(Placement{Partial{Reduction::kSum}} == Placement{Partial{Reduction::kMean}});
  CHECK_FALSE(Placement{Replicate{}} == Placement{Only{0}});
}

}  // namespace
}  // namespace ttrace::trace::placement_test
