#include "report/cause_words.h"

namespace ttrace::report {

const std::vector<CauseWords>& cause_words() {
  static const std::vector<CauseWords> kWords{
      {"missing_reduction",
       "Every rank has its own term, and their sum (or mean) is the reference: the value was never "
       "summed over that axis.",
       "raw gradients (param_grad) beside main gradients show which of a rank's own terms a copy "
       "has"},
      {"replica_conflict",
       "Ranks that should hold the same value hold different ones, and no sum of them is the "
       "reference.",
       "raw gradients (param_grad), which show the terms that a copy lacks or has twice"},
      {"wrong_sum",
       "A main gradient is a sum of the raw gradients, but one of them is lacking or counts "
       "another "
       "number of times.",
       ""},
      {"scaled",
       "All of it is the reference times one factor: something was multiplied or divided once too "
       "often, or by the size of another group.",
       "the factors that the script applies: loss scale, token counts (tracer.scalar)"},
      {"scaled_update",
       "A part of the step is a multiple of the reference's, or a multiple of the parameter was "
       "added: a learning rate or a decay that is not the reference's on some ranks.",
       "the settings of the optimizer, or its step by hand on the ranks that are named"},
      {"scaled_by_rank",
       "Every shard is the reference times a factor of its own: ranks divide by different counts.",
       "the number of tokens that each rank divides by, as a scalar"},
      {"double_reduction",
       "Each term is the whole sum already, and the terms were summed once more.", ""},
      {"wrong_order",
       "It holds the right blocks in another order: chunks were gathered or cut in the order of "
       "other ranks.",
       "input and output of the module, which show on which side of it the order changes; if a "
       "router sends the rows, tt.Rows says which they are"},
      {"duplicated_shard", "A block stands twice, in its own place and in that of another.", ""},
      {"wrong_slice",
       "A rank has a part of the tensor that is no rank's own: it was cut at another offset.", ""},
      {"shifted", "All of it is moved by a few places along one dimension.", ""},
      {"zeroed", "It is zero where the reference is not.",
       "input and output of the modules around it"},
      {"truncated", "Its end is zero: something stopped too early, or was never filled.", ""},
      {"orthogonal_by_shard",
       "The optimizer made each rank's shard of the update orthogonal, instead of the whole "
       "matrix.",
       "the gathering of the momentum before the optimizer orthogonalises it"},
      {"changed_between_steps",
       "Something wrote it between two steps: it is not what the run's own step before left.", ""},
      {"follows_old",
       "An average moved towards the parameter that the step began with, not to the updated one.",
       ""},
      {"not_frozen", "The step moved it, and the reference's step leaves it as it was.",
       "the freezing"},
      {"untied",
       "Two names share one parameter in one run, and have a parameter each in the other.",
       "the tying of weights"},
      {"loss_scales",
       "The ranks multiplied their losses by different scales, so that their gradients do not add "
       "up.",
       ""},
      {"stale_master",
       "The optimizer's wider copy of the parameter is not what the model holds before the step, "
       "so that the update undoes what was loaded.",
       "the loading of weights: into the model behind the optimizer's copies, or without them"},
      {"stale",
       "It is the value of an earlier time: of a step, a micro-batch or a call, or of before the "
       "update.",
       "two steps (TTRACE_STEPS=0-1), since a stale value shows against the one before"},
      {"other_layer", "It is what another layer should have.", ""},
      {"lower_precision",
       "All of its values are numbers of a narrower type: something was rounded on its way.", ""},
      {"narrow_accumulator",
       "A gradient was added up row by row in 16 bits, and every addition was rounded.", ""},
      {"narrow_coefficients", "A norm kept the factor and the mean of every channel in 16 bits.",
       ""},
      {"offset", "One row was added to all rows, such as a bias that is added on every rank.", ""},
      {"local_norm", "The gradient norm is that of a part of the gradients.", "main gradients"},
      {"wrong_layout_declared",
       "The values are right under another layout: the manifest is wrong, not the run.", ""},
      {"padding_with_gradient",
       "Rows that only pad the tensor carry a gradient: the loss sees them.", ""},
      {"padding_with_values",
       "Rows that only pad the tensor are no longer what padding is: something wrote them.",
       "the mask of the update, and what allocates the padded rows"},
      {"missing_layer", "No rank has the layer.", ""},
      {"non_finite", "It has NaN or infinities where the other side has none.",
       "input and output of the modules before it, to see the first that is not finite"},
      {"mask_or_rows", "Some elements or rows hold all of the error, and the others are right.",
       "input and output of the module, and the mask or the indices that choose these rows"},
  };
  return kWords;
}

const std::vector<Word>& glossary() {
  static const std::vector<Word> kGlossary{
      {"ε", "epsilon",
       "The rounding error of the precision that a tensor was computed in: 1.2e-7 in fp32, 7.8e-3 "
       "in bf16. An error of 100 ε is 100 such roundings of the tensor's norm."},
      {"m", "multiplier",
       "How many times its noise a tensor may be off (without noise runs: the bound of its rule): "
       "4 "
       "unless a rule of the tolerance file says otherwise. \"would pass at m = 5\" is a close "
       "call "
       "that more noise runs decide; thousands are a bug."},
      {"would pass", "passing multiplier",
       "At this m the tensor would just have matched: near 4 a close call that more noise runs "
       "decide, thousands a bug."},
      {"noise run", "perturbed run",
       "The reference run again with its first activation multiplied by 1 + ε·u, one rounding "
       "(TTRACE_NOISE=1): it shows how far rounding alone moves each tensor. Three are best."},
      {"used", "share",
       "Error over what is allowed: 0.23 used 23 % of its tolerance, above 1 is a divergence."},
      {"frontier", "finding",
       "The tensors that are wrong although nothing that they were computed from is: the first "
       "divergences, one or several per bug. What follows from them is downstream."},
      {"tolerance", "allowed",
       "How far a tensor may be from the reference: m times the noise of the noise runs and a few "
       "ε, or, without noise runs, a bound by depth and precision. lib/judge/README.md derives "
       "it."},
      {"reference", "REF",
       "The trusted run of the same model on one process, with the data of all ranks."},
      {"candidate", "RUN", "The run that is checked."},
      {"main gradient", "main_grad",
       "The gradient that the optimizer takes, after accumulation and the reductions over ranks."},
      {"raw gradient", "param_grad",
       "The gradient of one micro-batch on one rank, before anything is reduced over ranks."},
      {"suspect", "second suspect",
       "A tensor behind a finding whose error is more than 30 times what it was given: it may hide "
       "a second bug. It changes no exit code."},
      {"below noise floor", "below_noise_floor",
       "The noise is as large as the value, so nothing can be told: not checked."},
      {"replica", "copies",
       "A tensor that several ranks hold whole. Copies that differ are a replica conflict."},
      {"routing", "router",
       "Which experts a mixture of experts takes for each token. Where two scores are closer than "
       "rounding, the two runs may take other ones, which is no bug: these tokens are left out of "
       "what follows, and counted (\"tokens went to other experts\"). In fp32 it "
       "is some ten thousand times rarer."},
      {"downstream", "",
       "What is wrong and was computed from something that is wrong: counted and not explained."},
  };
  return kGlossary;
}

}  // namespace ttrace::report
