#include "report/nights/known.h"

#include <algorithm>
#include <array>
#include <limits>

#include "answer/counted_findings.h"
#include "answer/outcomes.h"
#include "base/text.h"
#include "report/nights/evidence.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using answer::AnsweredFinding;
using answer::AnsweredTensor;
using base::concat;

// A bound may be copied from the file of an answer, whose numbers have nine digits.
constexpr double kOfNineDigits = 1 + 1e-8;

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

void add_card_cause(const AnsweredFinding& finding, Card& card) {
  const std::string& outcome = finding.outcome;
  const bool tells = outcome == "setting" || outcome == "missing" || outcome == "extra" ||
                     outcome == "incomparable";
  card.cause = tells ? outcome : "";
  if (!finding.causes || finding.causes->empty()) return;
  card.cause = finding.causes->front().name;
  card.axis = finding.causes->front().axis;
}

// Adds ranks and downstream ids of a finding to its card. Where the answer does not list them in
// full, the card says that they are not known.
void add_evidence_of(const AnsweredFinding& finding, Card& card) {
  if (!finding.ranks) {
    card.ranks.reset();
    card.downstream_is_whole = false;
    return;
  }
  if (card.ranks)
    card.ranks->insert(card.ranks->end(), finding.ranks->begin(), finding.ranks->end());
  if (!finding.downstream) {
    card.downstream_is_whole = false;
    return;
  }
  card.downstream.insert(finding.downstream->begin(), finding.downstream->end());
  if (finding.downstream->size() < finding.downstream_total.value_or(0)) {
    card.downstream_is_whole = false;
  }
}

Card card_of(const AnsweredFinding& finding, bool of_comparison) {
  Card card;
  card.id = finding.id;
  card.headline = answer::CountedFinding{&finding, nullptr}.heading();
  card.members = answer::members_of(finding);
  add_card_cause(finding, card);
  // Where a finding of audit or localize has several tensors, its ranks are those of the first one
  // only, so they are not known for all.
  if (of_comparison || card.members.size() == 1) card.ranks.emplace();
  card.downstream_is_whole = true;
  add_evidence_of(finding, card);
  return card;
}

std::vector<Card> cards_of(const Answer& answer) {
  std::vector<Card> cards;
  std::map<std::string, const Answer::Group*> groups;
  if (answer.groups) {
    for (const Answer::Group& group : *answer.groups) {
      if (!group.id.empty()) groups.emplace(group.id, &group);
    }
  }
  std::map<std::string, std::size_t> card_of_group;
  for (const AnsweredFinding& finding : answer.findings) {
    const auto group = groups.find(finding.group);
    if (group == groups.end()) {
      cards.push_back(card_of(finding, answer.groups.has_value()));
      continue;
    }
    const auto [at, fresh] = card_of_group.emplace(finding.group, cards.size());
    if (fresh) {
      Card card;
      card.id = group->second->shown;
      card.headline = answer::CountedFinding{&finding, group->second}.heading();
      card.names = {finding.group};
      card.members = group->second->findings;
      card.ranks.emplace();
      card.downstream_is_whole = true;
      cards.push_back(std::move(card));
    }
    Card& card = cards[at->second];
    if (finding.id == card.id) add_card_cause(finding, card);
    add_evidence_of(finding, card);
  }
  return cards;
}

// The error of a wrong tensor as a multiple of the allowed error. Nothing if no number says how
// wrong it is, for example where values are not finite on one side.
std::optional<double> measured_use(const AnsweredTensor& tensor) {
  if (is_finite_on_one_side(tensor)) return std::nullopt;
  if (tensor.numbers && tensor.numbers->slices_beyond > 0 && tensor.numbers->slices.empty()) {
    return std::nullopt;
  }
  const std::optional<double> used = furthest_use(tensor);
  // A wrong tensor within its tolerance is wrong for another reason. This also holds for NaN.
  if (!used || !(*used > 1)) return std::nullopt;
  return used;
}

class Judge {
 public:
  Judge(const Answer& answer, const std::vector<KnownDifference>& known, const std::string& today)
      : known_(known), today_(today), cards_(cards_of(answer)) {
    out_.uses.resize(known.size());
    if (answer.results) {
      for (const AnsweredTensor& tensor : *answer.results) {
        if (!answer::is_wrong(tensor.outcome)) continue;
        wrong_.push_back(tensor.id);
        used_.emplace(tensor.id, measured_use(tensor));
        if (is_finite_on_one_side(tensor)) one_sided_.insert(tensor.id);
      }
    }
    suspects_ = suspects_of(answer);
  }

  KnownAnswer answer() && {
    for (const Card& card : cards_) judge_card(card);
    for (const std::string& id : wrong_) judge_consequence(id);
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
    if (*used->second <= *known.used * kOfNineDigits) return "";
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
    } else if (bounded && !(used && *used <= limit * kOfNineDigits)) {
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
  std::vector<bool> excused_;       // of each card
  std::vector<double> limits_;      // of each card: how far what follows from it may be off
  std::vector<std::string> wrong_;  // tensors
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

KnownAnswer judge_known(const Answer& answer, const std::vector<KnownDifference>& known,
                        const std::string& today) {
  return Judge(answer, known, today).answer();
}

}  // namespace ttrace::report
