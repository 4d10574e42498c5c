#include "report/cause_sentences.h"

#include <optional>

#include "base/message.h"

namespace ttrace::report {

const std::vector<SentenceTemplate>& sentence_templates() {
  static const std::vector<SentenceTemplate> kTemplates{
      {"missing_reduction",
       "{whose} {members?was|were} never {reduced} over {axis}[ ({over_ranks:rank})]"},
      {"missing_reduction",
       "{whose} {members?was|were} never reduced[ over {axis}][ ({over_ranks:rank})][: {lacks}]"},
      {"replica_conflict",
       "the copies of {whose} differ[ over {axis}][ ({over_ranks:rank})][: {lacks}][, {place}]"},
      {"wrong_sum",
       "{whose} {members?is|are} another sum of the raw gradients[: {lacks}][, {place}]"},
      {"double_reduction",
       "{whose} {members?was|were} summed over {axis}[ ({over_ranks:rank})] although each of the "
       "{terms} terms is the sum already"},
      {"scaled", "{whose} {members?was|were} clipped by the norm of {clipped_by} alone[, {place}]"},
      {"scaled",
       "{whose} {members?was|were} moved {moved} times as far as {members?it|they} should[, "
       "{place}]"},
      {"scaled",
       "{whose} {members?is|are} {times} times what {members?it|they} should be[, {of_axis}][, "
       "{place}]"},
      {"scaled_update", "{whose} {members?is|are} {parts}, and right elsewhere[, {place}]"},
      {"scaled_update",
       "{whose} {members?differs|differ} by {decay} times the parameter, as another weight decay "
       "makes it[, {place}]"},
      {"scaled_by_rank",
       "{whose} {members?is|are} off by a factor that differs from rank to rank ({factors})[, "
       "{place}]"},
      {"wrong_order", "{whose} {members?has|have} its parts in another order: {order}[, {place}]"},
      {"wrong_order",
       "{whose} {members?has|have} all {rows} rows along dimension {dim} in another order[ "
       "within each of {parts} ranks][, {place}]"},
      {"wrong_order",
       "{whose} {members?was|were} made with the {chunks} chunks of an operand in the order "
       "{chunk_order}[, {place}]"},
      {"duplicated_shard",
       "{whose} {members?has|have} one part twice along dimension {dim}: {which}[, {place}]"},
      {"wrong_slice",
       "{whose} {members?has|have} the wrong slice along dimension {dim}: {which}[, {place}]"},
      {"shifted", "{whose} {members?is|are} shifted along dimension {dim}: {how}[, {place}]"},
      {"zeroed", "{whose} {members?is|are} zero: {which}[, {place}]"},
      {"zeroed", "{whose} {members?is|are} all zero, and should not be[, {place}]"},
      {"truncated", "{whose} {members?ends|end} early: {which}[, {place}]"},
      {"orthogonal_by_shard",
       "{whose} {members?was|were} orthogonalised on each of the {shards} shards[ of {axis}] by "
       "itself[, {place}]"},
      {"changed_between_steps",
       "{whose} {members?is|are} not what step {left_by} left[, but {taken_from}, bit for bit]"},
      {"follows_old",
       "{whose} {members?follows the parameter|follow the parameters} from before the update[, "
       "{place}]"},
      {"not_frozen",
       "{whose} {members?was|were} moved by a step in which the reference leaves "
       "{members?it|them} as {members?it was|they were}[, {place}]"},
      {"untied",
       "{whose} {members?lacks that|lack those} of {lacks}, which {members?is a parameter|are "
       "parameters} of {members?its|their} own in the candidate, and tied in the reference[, "
       "{place}]"},
      {"untied",
       "{whose} {members?contains that|contain those} of {holds}, which the candidate ties to "
       "{members?it|them}, and the reference does not[, {place}]"},
      {"loss_scales",
       "{whose} {members?was|were} made at different loss scales: {scales}[, {place}]"},
      {"stale_master",
       "{whose} {members?is|are} not what the model holds before {copied_in}, which undoes what "
       "was loaded[, {place}]"},
      {"stale_master",
       "{whose} {members?starts|start} from {members?a master|masters} that the model does not "
       "hold: {undone_by} undoes what was loaded[, {place}]"},
      {"stale",
       "{whose} {members?was|were} not made on {kept_on}, which still {members?has|have} the old "
       "value"},
      {"stale",
       "{whose} {members?is|are} stale: {unmoved} of the {wrong} wrong elements still have their "
       "old value[, {place}]"},
      {"stale", "{whose} {members?is|are} stale: the value {earlier}[, {place}]"},
      {"other_layer", "{whose} {members?is|are} the output of {source}, and should not be"},
      {"other_layer",
       "{whose} {members?is what|are each what another one should be, such as} {exchanged}"
       "{members? should be|}, and the other way round"},
      {"other_layer",
       "{whose} {members?is what|are each what another one should be, such as} {other}{members? "
       "should be|}"},
      {"lower_precision",
       "{whose} {members?was|were} rounded to {type} in {rounded} alone[, {place}]"},
      {"lower_precision", "{whose} {members?was|were} rounded to {type}[, {place}]"},
      {"narrow_accumulator", "{whose} {members?was|were} added up in {type}, row by row"},
      {"narrow_coefficients",
       "{whose} {members?was|were} made with a factor and a mean of every channel in {type}"},
      {"offset",
       "{whose} {members?has|have} the same row added to every row: {added}[, "
       "{place}]"},
      {"offset", "{whose} {members?has|have} the same row added to every row[, {place}]"},
      {"local_norm", "{whose} {members?is|are} the norm of {part} alone, not of all"},
      {"wrong_layout_declared", "the layout of {whose} is declared wrongly: it matches as {rule}"},
      {"padding_with_gradient", "{told}"},
      {"padding_with_values", "{told}"},
      {"missing_layer", "no rank has {layer}; there are {others}"},
      {"non_finite",
       "{whose} {members?has|have} {in_candidate} NaN or infinities, and {reference} "
       "{in_reference}[, {place}]"},
      {"non_finite",
       "{whose} {members?has|have} {in_candidate} NaN or infinities, and the reference "
       "{in_reference}[, {place}]"},
      {"mask_or_rows",
       "{wrong} of {of} {what} of {whose} {wrong?is|are} wrong ({which}), and the others right[, "
       "{place}]"},
      {"mask_or_rows",
       "{whose} {members?has|have} another mask: {vanished} elements are zero that should not be, "
       "{appeared} are not that should[, {place}]"},
  };
  return kTemplates;
}

std::optional<std::string> filled(std::string_view text, const answer::CauseValues& values) {
  return base::rendered_if_complete({text, {values.begin(), values.end()}});
}

std::string sentence_of(const answer::Cause& cause, const answer::CauseValues& common) {
  answer::CauseValues values = common;
  values.insert(values.end(), cause.values.begin(), cause.values.end());
  for (const SentenceTemplate& one : sentence_templates()) {
    if (one.cause != cause.name) continue;
    if (auto sentence = filled(one.text, values)) return *std::move(sentence);
  }
  // A report of another version may know other causes.
  values.emplace_back("cause", cause.name);
  values.emplace_back("evidence", cause.evidence);
  return filled("{whose}: {cause}[ over {axis}], {evidence}", values).value_or(cause.evidence);
}

}  // namespace ttrace::report
