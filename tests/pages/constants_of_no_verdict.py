"""Constants that can change no verdict and no cause, each with what it decides: how much work is
done at a time or at most, how an answer is told, or what follows from the format of a number."""

from __future__ import annotations

_BY_FILE = {
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
}
OF_NO_VERDICT = {
    (name, file): why for file, constants in _BY_FILE.items() for name, why in constants.items()
}
