#include "report/look_at.h"

#include <algorithm>

#include "base/text.h"
#include "comparison/shown_precision.h"

namespace ttrace::report {

using localize::Phase;

const std::vector<LookAt>& look_at_lines() {
  static const std::vector<LookAt> kLines{
      {"missing_reduction", Phase::kSynchronisation, "tp", "*router*",
       "a router that is not marked sequence-parallel", "Megatron-LM 599", "P6"},
      {"missing_reduction", Phase::kSynchronisation, "tp", "*",
       "parameters marked sequence-parallel: the sum of their gradients over tp after the backward",
       "Megatron-LM 1446", "P12"},
      {"missing_reduction", Phase::kSynchronisation, "dp", "*",
       "the reduction over dp: does it run at all (no_sync on the last micro-batch, a forward "
       "around "
       "the wrapper), does a bucket hold each of these parameters",
       "DeepSpeed 11aa880e", "G16"},
      {"missing_reduction", Phase::kBackward, "tp", "*kv*",
       "a key and value head that all ranks share: the sum of its gradients over their heads",
       "bigcode Megatron 35", "G3"},
      {"missing_reduction", Phase::kBackward, "tp", "*",
       "the all-reduce of the input's gradient behind a column-parallel layer: is it skipped for a "
       "frozen weight",
       "Megatron-LM 5fffdfc7", "G2"},
      {"scaled", Phase::kSynchronisation, "", "*expert*",
       "by what the gradients of experts are divided: the size of dp, not of their own group",
       "pytorch 160285", "G7"},
      {"scaled", Phase::kSynchronisation, "", "*",
       "by what the summed gradients are divided: the size of the group that they were summed over",
       "Megatron-LM 673", "P4"},
      {"scaled", Phase::kBackward, "", "*loss*",
       "what the loss is multiplied by before its backward, and what gradients are divided by "
       "later; a loss that every rank holds whole under DDP is recorded with tt.Partial(\"mean\")",
       "Megatron-LM 906", "P3", Needs::kNothing},
      {"scaled", Phase::kBackward, "pp", "*",
       "a division by the number of micro-batches on every pipeline stage", "DeepSpeed d99a6429",
       "G6"},
      {"scaled", Phase::kOptimizer, "", "*",
       "the norm that clipping uses: of all parameters, experts too", "Megatron-LM abf10f85", "G10",
       Needs::kClipping},
      {"double_reduction", Phase::kBackward, "", "*",
       "gradients that are summed over this axis already where another step sums them",
       "Megatron-LM 1528", "P14"},
      {"replica_conflict", Phase::kForward, "", "*",
       "the reduction of the largest element for an FP8 scale: over all ranks that share the "
       "tensor",
       "Megatron-LM PR 442", "P8", Needs::kNarrowProducts},
      {"replica_conflict", Phase::kBackward, "", "*",
       "the all-reduce of the gradient of what is cut over these ranks, such as experts",
       "torchtitan 1805", "G1"},
      {"replica_conflict", Phase::kSynchronisation, "dp", "*",
       "what is added to gradients after their reduction, such as the last micro-batch",
       "DeepSpeed 5999fb06", "G9"},
      {"replica_conflict", Phase::kSynchronisation, "pp", "*",
       "tied weights: the order of their reductions over stages and over dp",
       "Megatron-LM 656, 844", "P5"},
      {"changed_between_steps", Phase::kParameter, "", "*",
       "what writes the model between the steps: a load, averaged weights that an evaluation "
       "copies in and does not take out, a new initialisation",
       "", "", Needs::kNothing},
      {"follows_old", Phase::kState, "", "*",
       "where the average is updated: behind the optimizer's step, and once for each", "", "",
       Needs::kNothing},
      {"not_frozen", Phase::kOptimizer, "", "*",
       "what freezes it: requires_grad, the optimizer's groups, and gradients of zeros "
       "(zero_grad(set_to_none=False)), by which momentum and weight decay go on",
       "", "", Needs::kNothing},
      {"not_frozen", Phase::kState, "", "*",
       "what writes it in this step: a module that is in eval() there, an average that has its "
       "turn later",
       "", "", Needs::kNothing},
      {"untied", std::nullopt, "", "*",
       "what ties the weights, such as tie_weights(): it has to run behind a load that gives every "
       "name a tensor of its own (assign=True), and behind sharding",
       "", "", Needs::kNothing},
      {"loss_scales", Phase::kSynchronisation, "", "*",
       "whether every rank loads the state of its GradScaler", "", "", Needs::kNothing},
      {"stale_master", Phase::kOptimizer, "", "*",
       "what copies loaded weights into the optimizer's masters: it has to run behind the loading",
       "", "", Needs::kNothing},
      {"orthogonal_by_shard", Phase::kOptimizer, "", "*",
       "whether the optimizer gathers the momentum before it orthogonalises it: full_tensor(), not "
       "to_local()",
       "", "", Needs::kNothing},
      {"stale", Phase::kOptimizer, "", "*",
       "the gathering of updated parameters: a bucket that is never gathered", "Megatron-LM 663",
       "P9"},
      {"stale", Phase::kState, "", "*",
       "who writes it in this job, and whether that still has the tensors of the model", "", "",
       Needs::kNothing},
      {"scaled", Phase::kState, "", "*",
       "how often a step writes it: once more where the forward is recomputed, or once for every "
       "micro-batch or rank",
       "", "", Needs::kNothing},
      {"stale", Phase::kBackward, "", "*",
       "what recomputation takes from an earlier step, such as the scale of an FP8 tensor",
       "TransformerEngine 1190", "G14", Needs::kNothing},
      {"missing_layer", std::nullopt, "", "*",
       "how layers are divided over the stages where they do not divide evenly", "Megatron-LM 1304",
       "P10"},
      {"wrong_order", Phase::kBackward, "", "*",
       "the order of gathered chunks in the product that makes the gradient of the weight",
       "TransformerEngine 1616", "P11"},
      {"offset", Phase::kForward, "", "*", "a bias that every rank adds before the sum over ranks",
       "torchtitan ec30db9d", "G4"},
      {"other_layer", Phase::kForward, "pp", "*", "which layers a virtual stage begins with",
       "Megatron-LM a77a883e", "G11"},
      {"shifted", Phase::kInput, "cp", "*",
       "labels that are rolled after the sequence was cut over ranks, not before", "verl PR 4250",
       "G12"},
      {"mask_or_rows", Phase::kForward, "", "*",
       "which ids a rank takes for its own in a vocabulary-parallel embedding", "slapo PR 80", "P1",
       Needs::kEmbedding},
      {"mask_or_rows", Phase::kBackward, "", "*",
       "the random state that recomputation restores: another dropout mask", "torchtitan e347b1e5",
       "G13", Needs::kOtherZeros},
      {"lower_precision", Phase::kSynchronisation, "", "*",
       "the type in which gradients are reduced", "DeepSpeed dd3690c5", "G15"},
      {"non_finite", Phase::kForward, "", "*",
       "a tensor that is multiplied as FP8 and was never cast", "TransformerEngine PR 738", "P7",
       Needs::kNarrowProducts},
      {"narrow_accumulator", Phase::kBackward, "", "*",
       "LayerNorm on the CPU with bf16 inputs: torch adds up its gradients in bf16", "torch 2.13.0",
       "", Needs::kNothing},
      {"narrow_coefficients", Phase::kForward, "", "*",
       "BatchNorm on the CPU with parameters in bf16: in float32 it is right", "torch 2.13.0", "",
       Needs::kNothing},
  };
  return kLines;
}

namespace {

bool is_embedding(const answer::Finding& finding, const trace::TensorKey& shown) {
  return base::glob_match("*mbed*", finding.class_name.empty() ? shown.name : finding.class_name);
}

bool is_met(Needs needs, const answer::Finding& finding, const trace::TensorKey& shown,
            const answer::TraceFacts& run) {
  const bool ranks = run.ranks > 1;
  switch (needs) {
    case Needs::kNothing:
      return true;
    case Needs::kRanks:
      return ranks;
    case Needs::kClipping:
      return std::ranges::any_of(finding.causes.front().values,
                                 [](const auto& value) { return value.first == "clipped_by"; });
    case Needs::kOtherZeros:
      return std::ranges::any_of(finding.causes.front().values,
                                 [](const auto& value) { return value.first == "vanished"; });
    case Needs::kEmbedding:
      return ranks && is_embedding(finding, shown);
    case Needs::kNarrowProducts:
      return comparison::names_fp8(run.precision);
  }
  return false;
}

}  // namespace

std::string advice_of(const LookAt& line) {
  return line.bug.empty() ? std::string(line.text) : base::concat(line.text, " (", line.bug, ")");
}

std::string look_at(const answer::Finding& finding, const trace::TensorKey& shown,
                    const answer::TraceFacts& run) {
  if (finding.causes.empty()) return "";
  const answer::Cause& cause = finding.causes.front();
  const auto is_about = [&](const LookAt& line) {
    if (line.axis.empty() || line.axis == cause.axis) return true;
    if (!cause.axis.empty()) return false;
    return std::any_of(run.mesh.begin(), run.mesh.end(), [&](const trace::MeshAxis& axis) {
      return axis.name == line.axis && axis.size > 1;
    });
  };
  for (const LookAt& line : look_at_lines()) {
    if (line.cause != cause.name || (line.phase && *line.phase != localize::phase_of(shown))) {
      continue;
    }
    if (!is_about(line) || !base::glob_match(line.names, shown.name)) continue;
    if (!is_met(line.needs, finding, shown, run)) continue;
    return advice_of(line);
  }
  return "";
}

}  // namespace ttrace::report
