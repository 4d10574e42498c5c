#include "report/nights/known.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "report/nights/evidence.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::JsonCursor;

// A finding as people count findings: alike ones are one.
struct Card {
  std::string id;
  std::string headline;
  std::vector<std::string> names;    // its other ids
  std::vector<std::string> members;  // ids of its tensors
  std::string cause;
  std::string axis;
  std::optional<std::vector<std::uint64_t>> ranks;  // nothing where the report lacks those of one
  std::set<std::string> downstream;
  bool downstream_is_whole = false;
};

void add_card_cause(const JsonCursor& item, Card& card) {
  const std::string outcome = text_at(item, "outcome");
  card.cause = item.find("setting") ? "setting" : outcome;
  const bool measured = outcome != "missing" && outcome != "extra" && outcome != "incomparable" &&
                        outcome != "setting";
  if (measured && !item.find("setting")) card.cause.clear();
  const auto causes = item.find("causes");
  if (!causes || causes->items().empty()) return;
  card.cause = causes->items().front().require("name").as_string();
  card.axis = text_at(causes->items().front(), "axis");
}

// Adds ranks and downstream ids of an item to its card. Where the report does not list them in
// full, the card says that they are not known.
void add_evidence_of(const JsonCursor& item, Card& card) {
  if (!item.find("ranks")) {
    card.ranks.reset();
    card.downstream_is_whole = false;
    return;
  }
  if (card.ranks) {
    const std::vector<std::uint64_t> ranks = counts_at(item, "ranks");
    card.ranks->insert(card.ranks->end(), ranks.begin(), ranks.end());
  }
  const auto downstream = item.find("downstream");
  if (!downstream || !downstream->is_array()) {
    card.downstream_is_whole = false;
    return;
  }
  const std::vector<std::string> ids = downstream->as_strings();
  card.downstream.insert(ids.begin(), ids.end());
  if (ids.size() < item.require("downstream_total").as_count()) card.downstream_is_whole = false;
}

Card card_of(const JsonCursor& item) {
  Card card;
  card.id = item.require("id").as_string();
  card.headline = item.require("headline").as_string();
  card.members = strings_at(item, item.find("keys") ? "keys" : "members");
  if (card.members.empty() || item.find("setting")) card.members = {card.id};
  add_card_cause(item, card);
  // An item with several keys has the ranks of the first key only, so they are not known for all.
  if (!item.find("keys") || card.members.size() == 1) card.ranks.emplace();
  card.downstream_is_whole = true;
  add_evidence_of(item, card);
  return card;
}

std::vector<Card> cards_of(const JsonCursor& root) {
  std::vector<Card> cards;
  const auto frontier = root.find("frontier");
  if (!frontier) {
    for (const JsonCursor& item : root.require("findings").items()) cards.push_back(card_of(item));
    return cards;
  }
  std::map<std::string, JsonCursor> groups;
  for (const JsonCursor& group : root.require("groups").items()) {
    groups.emplace(group.require("id").as_string(), group);
  }
  std::map<std::string, std::size_t> card_of_group;
  for (const JsonCursor& item : frontier->items()) {
    const std::string in = text_at(item, "group");
    const auto group = groups.find(in);
    if (group == groups.end()) {
      cards.push_back(card_of(item));
      continue;
    }
    const auto [at, fresh] = card_of_group.emplace(in, cards.size());
    if (fresh) {
      Card card;
      card.id = group->second.require("shown").as_string();
      card.headline = group->second.require("headline").as_string();
      card.names = {in};
      card.members = group->second.require("findings").as_strings();
      card.ranks.emplace();
      card.downstream_is_whole = true;
      cards.push_back(std::move(card));
    }
    Card& card = cards[at->second];
    if (item.require("id").as_text() == card.id) add_card_cause(item, card);
    add_evidence_of(item, card);
  }
  return cards;
}

// The error of a wrong tensor as a multiple of the allowed error. Nothing if no number says how
// wrong it is, for example where values are not finite on one side.
std::optional<double> measured_use(const JsonCursor& result) {
  if (is_finite_on_one_side(result)) return std::nullopt;
  if (number_at(result, "slices_beyond").value_or(0) > 0) {
    const auto slices = result.find("slices");
    if (!slices || slices->items().empty()) return std::nullopt;
  }
  const std::optional<double> used = furthest_use(result);
  // A wrong tensor within its tolerance is wrong for another reason. This also holds for NaN.
  if (!used || !(*used > 1)) return std::nullopt;
  return used;
}

bool is_wrong(std::string_view outcome) {
  constexpr std::array<std::string_view, 6> kWrong{"diverged", "replica_conflict", "missing",
                                                   "extra",    "incomparable",     "broken"};
  return std::find(kWrong.begin(), kWrong.end(), outcome) != kWrong.end();
}

class Judge {
 public:
  Judge(const JsonCursor& root, const std::vector<KnownDifference>& known, const std::string& today)
      : known_(known), today_(today), cards_(cards_of(root)) {
    out_.uses.resize(known.size());
    if (const auto results = root.find("results")) {
      for (const JsonCursor& result : results->items()) {
        if (is_wrong(result.require("outcome").as_text())) wrong_.push_back(result);
      }
    }
    for (const JsonCursor& result : wrong_) {
      const std::string id = result.require("id").as_string();
      used_.emplace(id, measured_use(result));
      if (is_finite_on_one_side(result)) one_sided_.insert(id);
    }
    suspects_ = suspects_of(root);
  }

  KnownAnswer answer() && {
    for (const Card& card : cards_) judge_card(card);
    for (const JsonCursor& result : wrong_) judge_consequence(result.require("id").as_string());
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].expires >= today_) continue;
      out_.expired = true;
      out_.uses[i].state = KnownState::kExpired;
    }
    return std::move(out_);
  }

 private:
  bool names(const KnownDifference& known, const Card& card, const std::string& member) const {
    if (!known.pattern.empty()) return base::glob_match(known.pattern, member);
    // The tensor that a finding is shown by stands for itself alone.
    const bool whole = card.id.starts_with("group:") && known.id == card.id;
    return known.id == member || whole ||
           std::find(card.names.begin(), card.names.end(), known.id) != card.names.end();
  }

  // Why the member is beyond the bound; nothing where it is within.
  std::string excess(const KnownDifference& known, const Card& card,
                     const std::string& member) const {
    if (!known.cause.empty() && card.cause != known.cause) {
      return concat("the cause is ", card.cause.empty() ? "unknown" : card.cause, ", not ",
                    known.cause);
    }
    if (!known.axis.empty() && card.axis != known.axis) {
      return card.axis.empty() ? "nothing says over which axis"
                               : concat("it is over ", card.axis, ", not ", known.axis);
    }
    if (known.ranks) {
      if (!card.ranks) return "the report does not say which ranks";
      for (const std::uint64_t rank : *card.ranks) {
        if (std::find(known.ranks->begin(), known.ranks->end(), rank) == known.ranks->end()) {
          return concat("rank ", rank, " is among its ranks");
        }
      }
      if (card.ranks->empty()) return "the report does not say which ranks";
    }
    if (!known.used) return "";
    const auto used = used_.find(member);
    if (used == used_.end() || !used->second) return "nothing says how far it is off";
    if (*used->second <= *known.used) return "";
    return concat("it uses ", base::short_number(*used->second), " of what is allowed, more than ",
                  base::short_number(*known.used));
  }

  // The difference that excuses the member, or nothing.
  std::optional<std::size_t> excused_by(const Card& card, const std::string& member) {
    std::optional<std::size_t> by;
    for (std::size_t i = 0; i < known_.size(); ++i) {
      KnownAnswer::Use& use = out_.uses[i];
      if (!names(known_[i], card, member)) continue;
      const std::string why = excess(known_[i], card, member);
      if (!why.empty()) {
        if (use.state == KnownState::kUnmatched) use.state = KnownState::kBeyond;
        if (use.why.empty()) use.why = concat(member, ": ", why);
        continue;
      }
      if (known_[i].expires < today_) continue;
      use.state = KnownState::kMatched;
      if (!by) by = i;
    }
    return by;
  }

  void judge_card(const Card& card) {
    std::set<std::size_t> by;
    bool all = true;
    for (const std::string& member : card.members) {
      members_.insert(member);
      const auto known = excused_by(card, member);
      all = all && known;
      if (!known) continue;
      by.insert(*known);
      out_.members.emplace(member, *known);
    }
    for (const std::size_t i : by) ++out_.uses[i].findings;
    excused_.push_back(all);
    limits_.push_back(0);
    for (const std::size_t i : by) {
      limits_.back() = std::max(limits_.back(),
                                known_[i].used.value_or(std::numeric_limits<double>::infinity()));
    }
    if (!all) return out_.left.push_back(card.headline);
    out_.headlines.push_back(card.headline);
    out_.findings.insert(card.id);
    out_.findings.insert(card.names.begin(), card.names.end());
  }

  // A tensor that is wrong but not a finding. It is excused if all findings that it may follow from
  // are
  // excused.
  void judge_consequence(const std::string& id) {
    if (members_.contains(id)) return;
    double limit = 0;
    bool follows = false;
    for (std::size_t i = 0; i < cards_.size(); ++i) {
      if (cards_[i].downstream_is_whole && !cards_[i].downstream.contains(id)) continue;
      if (!excused_[i]) return;
      follows = true;
      limit = std::max(limit, limits_[i]);
    }
    const std::optional<double> used = used_.at(id);
    const bool bounded = limit < std::numeric_limits<double>::infinity();
    if (!follows) {
      out_.beyond.push_back(concat(id, " is wrong, and follows from no known difference"));
    } else if (suspects_.contains(id)) {
      out_.beyond.push_back(
          concat(id, " follows from a known difference, and is further off than what comes in"));
    } else if (one_sided_.contains(id)) {
      out_.beyond.push_back(
          concat(id, " follows from a known difference, and is finite on one side alone"));
    } else if (bounded && !(used && *used <= limit)) {
      out_.beyond.push_back(
          concat(id, " follows from a known difference, and is further off than its bound allows (",
                 used ? base::short_number(*used) : "nothing says how far", ", ",
                 base::short_number(limit), ")"));
    } else {
      out_.consequences.insert(id);
      out_.unbounded += bounded ? 0 : 1;
    }
  }

  const std::vector<KnownDifference>& known_;
  const std::string& today_;
  std::vector<Card> cards_;
  std::vector<bool> excused_;   // of each card
  std::vector<double> limits_;  // of each card: how far what follows from it may be off
  std::vector<JsonCursor> wrong_;
  std::map<std::string, std::optional<double>> used_;
  std::set<std::string> suspects_;
  std::set<std::string> one_sided_;  // wrong tensors that are finite on one side alone
  std::set<std::string> members_;
  KnownAnswer out_;
};

}  // namespace

std::string_view state_name(KnownState state) {
  constexpr std::array<std::string_view, 4> kNames{"matched", "beyond", "expired", "unmatched"};
  return kNames.at(static_cast<std::size_t>(state));
}

KnownAnswer judge_known(const JsonCursor& root, const std::vector<KnownDifference>& known,
                        const std::string& today) {
  return Judge(root, known, today).answer();
}

}  // namespace ttrace::report
