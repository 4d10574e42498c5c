"""Constants that can change no verdict and no cause. Each has a note of what it decides: how much
work is done at a time, how an answer is shown, or what the format of a number needs."""

from __future__ import annotations

_BY_FILE = {
    "audit/narrow_coefficients.cpp": {"kNothing": "that no line fits"},
    "audit/rows_that_stand_out.cpp": {"kMostRanges": "rows that are listed"},
    "audit/specified_run.cpp": {
        "kMostCachedBytes": "values that are kept for other tensors",
        "kMostSharedBytes": "the same",
    },
    "audit/verdict.cpp": {"kWide": "which bounds the first line counts as wide"},
    "comparison/checkpoint/checkpoint_lines.cpp": {"kSorts": "how checkpoints write lines"},
    "comparison/division.cpp": {
        "kBytesPerTensor": "how work is divided among processes",
        "kMost": "a sum of bytes that would overflow",
        "kMostListed": "missing parts that are listed",
    },
    "comparison/division.h": {"kMostParts": "parts of work, refused beyond"},
    "comparison/fault_plan.cpp": {"kParts": "which fault selftest plants, and tells"},
    "comparison/tensor_comparison.cpp": {"kInfinity": "a share of nothing"},
    "comparison/local_files.cpp": {"kMostParts": "parts that are listed"},
    "comparison/measure_pairs.cpp": {"kMostKept": "layouts that records share in memory"},
    "comparison/run_facts.cpp": {"kMostNamed": "unreadable ranks that are listed"},
    "comparison/selftest_report.cpp": {"kNever": "a fault that is not caught"},
    "judge/noise_rule.cpp": {
        "kTiny": "a continued fraction",
        "kMostTerms": "the same",
        "kQuantumNamed": "when a formula mentions a term",
    },
    "judge/fallback_rule.cpp": {"kMostLayers": "what counts as the number of a layer"},
    "judge/slices.h": {"kMostKept": "slices that are listed"},
    "judge/calibration.cpp": {
        "kBytesPerTensor": "the size of a calibration's file",
        "kBytesPerCell": "the same",
    },
    "localize/causes/block_mapping.cpp": {"kMostBlocksNamed": "blocks that are listed"},
    "localize/causes/wrong_order.cpp": {"kMostBlocksInOrder": "blocks that a sentence lists"},
    "localize/causes/missing_layer.cpp": {"kMostLayersNamed": "layers that are listed"},
    "localize/causes/near_blocks.cpp": {"kFewestToScreen": "speed: the same blocks are found"},
    "localize/causes/offset.cpp": {"kMostOff": "when a multiple is shown as a whole number"},
    "localize/causes/profile.cpp": {"kGolden": "a hash"},
    "localize/causes/scaled.cpp": {"kMostDigits": "digits of a factor"},
    "localize/causes/trial.h": {"kUnknown": "a slice of which nothing is known"},
    "localize/dataflow.cpp": {"kLast": "the place of a tensor without an order"},
    "localize/describe_difference.cpp": {
        "kMostElementsDescribed": "when the line `where` names rows",
        "kFewestIndices": "the same",
        "kMostOfError": "the same",
    },
    "localize/explain.cpp": {"kMostWithRows": "findings whose line `where` names rows"},
    "localize/isolation_plan.cpp": {"kPlannedSlabElements": "elements that are read at a time"},
    "localize/one_sided.cpp": {"kMostLookedUp": "names that are proposed for a missing one"},
    "measure/backend.cpp": {"kBytesPerThread": "threads that fit the memory"},
    "measure/block_reader.cpp": {
        "kMostDifferentBytes": "replicas that are measured together",
        "kDecodedAtOnce": "elements that are decoded at once",
    },
    "measure/block_reader.h": {"kMostOpenShards": "files that are open at once"},
    "measure/fingerprints.cpp": {"kGolden": "a hash"},
    "measure/one_pass.cpp": {"kFewElements": "a guess, and the sums are made again if it is wrong"},
    "measure/optimizer/step.cpp": {"kInfinity": "no bound"},
    "measure/planned_tensor.cpp": {
        "kMostKept": "plans that are kept for other tensors",
        "kMostBlocks": "the same",
    },
    "measure/products.cpp": {"kDepth": "parts that fit the cache: sums stay in their order"},
    "measure/products.h": {
        "kRowsPerCall": "what is worth a thread",
        "kColumnsPerCall": "the same",
    },
    "measure/sections.h": {
        "kSectionElements": "parts of a sum in binary64, in its last bits",
        "kMostSections": "the same",
        "kReadElements": "elements that are read at once",
        "kMostTimesLarger": "the same",
    },
    "measure/shard_reader.cpp": {
        "kWorthwhileSurplus": "whether gaps are read along",
        "kSmallRead": "the same",
    },
    "optimizer/update_plan.cpp": {"kOperands": "tensors that an update reads"},
    "routing/choices.cpp": {"kMostRowsKept": "memory: rows of a weight are read again"},
    "specification/check_shapes.cpp": {"kMostChecks": "a larger specification is refused"},
    "specification/compare_specifications.cpp": {"kEveryItem": "more than a list may have"},
    "specification/describe.cpp": {"kMostNamed": "operations and tensors that are listed"},
    "specification/evaluate/equal_scores.h": {"kSeveral": "a mark"},
    "specification/evaluate/evaluate.cpp": {
        "kStepStreams": "the numbers of random streams",
        "kEndless": "more bytes than there are",
    },
    "specification/evaluate/exact_integers.cpp": {
        "kBitsOfDouble": "binary64; a tensor with larger integers says so",
    },
    "specification/evaluate/full_judging.cpp": {
        "kSums": "the order of a sum in binary64, in its last bits",
    },
    "specification/evaluate/judge_expression.cpp": {"kInfinite": "beyond any bound"},
    "specification/evaluate/probes.h": {
        "kMostTerms": "memory: a longer sum is made in full, which judges no less sharply",
    },
    "specification/evaluate/shared_values.cpp": {
        "kLongest": "lists that are known by their hash",
        "kMostText": "names of values that are kept",
    },
    "specification/expression.h": {
        "kMostSteps": "a tensor with a longer formula says so",
        "kMostArguments": "the same",
    },
    "specification/pattern_json.cpp": {
        "kMostDimensions": "a larger specification is refused",
        "kMostListedValues": "the same",
        "kLargestExact": "the whole numbers of binary64",
    },
    "specification/primitives/attention.cpp": {"kBlock": "rows that are computed at a time"},
    "specification/primitives/attention_head.cpp": {"kNever": "a score behind a mask"},
    "specification/primitives/exponential_source.cpp": {
        "kWidth": "numbers in a register",
        "kSums": "the order of a sum in binary64, in its last bits",
    },
    "specification/primitives/functions.h": {"kGeluCubic": "the definition of GELU by tanh"},
    "specification/primitives/loops.h": {"kElementsPerCall": "what is worth a thread"},
    "specification/primitives/primitive.h": {"kAnyExtent": "a mark"},
    "specification/primitives/reductions.cpp": {
        "kSums": "the order of a sum in binary64, in its last bits",
    },
    "specification/primitives/rounded_number.h": {"kBits": "the numbers of random streams"},
    "specification/primitives/value.cpp": {
        "kNoLimit": "no limit of memory",
        "kFewest": "memory that is kept for other values",
        "kMost": "the same",
    },
    "specification/primitives/views.cpp": {"kMost": "a larger window is refused"},
    "specification/primitives/zero_rows.cpp": {"kFewestProducts": "speed: the bits are the same"},
    "specification/specification_json.cpp": {
        "kMostValuesOfBuffer": "a larger specification is refused",
        "kMostVariants": "the same",
        "kMostUpdates": "the same",
        "kNodeBytes": "the memory that a specification takes",
        "kTensorBytes": "the same",
        "kBytesOfItem": "the same",
        "kBytesOfJson": "the same",
    },
}
# Folders of kernels: their constants say how the work is cut.
FOLDERS_OF_NO_VERDICT = {
    "measure/cpu/": "tests hold all kernels to the bits of plain numbers (kernels_test.cpp)",
    "measure/cuda/": "tests hold a device to the bits of the CPU (cuda/conformance.cpp)",
}
OF_NO_VERDICT = {
    (name, file): why for file, constants in _BY_FILE.items() for name, why in constants.items()
}
