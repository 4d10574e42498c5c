#!/usr/bin/env python3
"""A check that cannot fail is no check: plants calls of the C library's functions."""

from __future__ import annotations

import sys

from check_functions import violations, violations_in
from checking import copy_of_sources, plant, verdict

FILE = "lib/specification/primitives/norms.cpp"
PLANTED = [
    "double f(double x) { return std::exp(x); }",
    "double f(double x) { return 2 * std::log1p (x); }",
    "double f(double x) { return ::lgamma_r(x, nullptr); }",
    "double f(double x) { return pow(x, 3); }",
    "float f(float x) { return -tanhf(x); }",
    "double f(double x) { if (x > 0) return cos(x); else return 1; }",
    "double f(double x) { return __builtin_sin(x); }",
    "const auto kFunction = Call<std::erf>();",
]
HARMLESS = [
    "double f(double x) { return std::sqrt(x) + std::fma(x, x, std::floor(x)); }",
    "double f(double x) { return base::power(x, 3) + own::log(x); }",
    "// As std::exp(x) does.",
    'const char* const kWords = "log(1 + exp(x))";',
    "std::string log(const std::string& job);",
    "double f(const Job& job) { return job.log(1) + logarithm(expected(2)); }",
]


def main() -> int:
    with copy_of_sources() as root:
        clean = violations(root)
        file = root / FILE
        code = file.read_text()
        before = len(violations_in(file, root))
        missed: list[object] = []
        for texts, expected in ((PLANTED, 1), (HARMLESS, 0)):
            for text in texts:
                plant(file, "namespace ttrace::specification {\n", text + "\n")
                if len(violations_in(file, root)) - before != expected:
                    missed.append(text)
                file.write_text(code)
        # Among all sources, too.
        plant(file, "namespace ttrace::specification {\n", PLANTED[0] + "\n")
        if len(violations(root)) - len(clean) != 1:
            missed.append(FILE)
    return verdict(clean, missed)


if __name__ == "__main__":
    sys.exit(main())
