"""Writes function_cases.txt: what mpmath gives for random and hard arguments of base/functions.h.

python tests/base/function_cases.py [--seed N] [--count N] > tests/base/function_cases.txt

A line has the function, its arguments, and the exact result in two doubles (high + low), all in
hexadecimal. With --factors it prints the factors of error_function_far_from_0 instead.
"""

import argparse
import math
import random
import struct

import mpmath as mp

# Tiny arguments cancel against 1, large ones against multiples of pi.
mp.mp.prec = 1500

LEAST = 2.0**-1074
NORMAL = 2.0**-1022
LARGEST = math.ldexp(2 - 2.0**-52, 1023)


def any_number(source):
    while True:
        (x,) = struct.unpack("<d", struct.pack("<Q", source.getrandbits(64)))
        if math.isfinite(x):
            return x


def any_positive(source):
    return abs(any_number(source)) or LEAST


def uniform(low, high):
    return lambda source: source.uniform(low, high)


def powers_of_2(low, high):
    return lambda source: source.choice([-1, 1]) * 2.0 ** source.uniform(low, high)


def near(x):
    return [math.nextafter(x, -math.inf), x, math.nextafter(x, math.inf)]


def pairs(first, second):
    return lambda source: (first(source), second(source))


SMALL = [LEAST, 3 * LEAST, NORMAL, 1e-300, 2.0**-54, 2.0**-53, 1e-10]
SMALL += [-x for x in SMALL]
# The nearest to a multiple of pi/2 among all doubles is the first (J.-M. Muller, Elementary
# Functions, 11.3).
ANGLES = [6381956970095103 * 2.0**797, LARGEST, 2.0**1000, 1e22, 1e5, 710.0]
ANGLES += [x for n in (1, 2, 3, 4, 355, 10**6) for x in near(n * math.pi / 2)]
ANGLES += near(math.pi / 4)

# Function, mpmath's, sources of random arguments, hard arguments.
FUNCTIONS = [
    (
        "exponential",
        mp.exp,
        [uniform(-745, 709.7), uniform(-1, 1), uniform(-746, -708)],
        [*SMALL, *near(math.log(2) / 2), 709.782712893384, -745.13321910194, -708.4, 1.0],
    ),
    (
        "logarithm",
        mp.log,
        [any_positive, uniform(0.5, 2), uniform(0.99, 1.01)],
        [
            LEAST,
            NORMAL,
            LARGEST,
            *near(1.0),
            *near(math.sqrt(2)),
            *near(math.sqrt(0.5)),
            1 - 2.0**-8,
        ],
    ),
    (
        "decimal_logarithm",
        lambda x: mp.log(x) / mp.log(10),
        [any_positive, uniform(0.5, 2)],
        [LEAST, LARGEST, *near(1.0), *(10.0**n for n in range(1, 23))],
    ),
    (
        "logarithm_of_1_plus",
        mp.log1p,
        [uniform(-0.9, 1), powers_of_2(-60, -1), any_positive],
        [*SMALL, math.nextafter(-1, 0), LARGEST, 2.0**53, 2.0**60, *near(-0.5), *near(-0.25)],
    ),
    ("sine", mp.sin, [any_number, uniform(-10, 10), uniform(-1e5, 1e5)], ANGLES + SMALL),
    ("cosine", mp.cos, [any_number, uniform(-10, 10), uniform(-1e5, 1e5)], ANGLES + SMALL),
    (
        "hyperbolic_tangent",
        mp.tanh,
        [uniform(-23, 23), uniform(-1, 1), powers_of_2(-40, 3)],
        [*SMALL, 22.0, 1e300, *near(2.0**-28), *near(math.log(2) / 4)],
    ),
    (
        "arctangent",
        mp.atan,
        [any_number, uniform(-1, 1), uniform(-10, 10), powers_of_2(-40, 40)],
        [*SMALL, 1e300, *(x for n in range(1, 18, 2) for x in near(n / 16)), *near(1.0)],
    ),
    (
        "arcsine",
        mp.asin,
        [uniform(-1, 1), powers_of_2(-40, 0), lambda source: 1 - 2.0 ** source.uniform(-53, -1)],
        [*SMALL, 1.0, -1.0, math.nextafter(1, 0), *near(0.5), *near(math.sqrt(0.5))],
    ),
    (
        "arccosine",
        mp.acos,
        [uniform(-1, 1), powers_of_2(-40, 0), lambda source: 1 - 2.0 ** source.uniform(-53, -1)],
        [*SMALL, -1.0, math.nextafter(1, 0), math.nextafter(-1, 0), *near(0.5), *near(-0.5)],
    ),
    (
        "hyperbolic_sine",
        mp.sinh,
        [uniform(-710, 710), uniform(-3, 3), powers_of_2(-40, 3)],
        [*SMALL, *near(1.0), *near(40.0), *near(700.0), 710.4],
    ),
    (
        "hyperbolic_cosine",
        mp.cosh,
        [uniform(-710, 710), uniform(-3, 3), powers_of_2(-40, 3)],
        [*SMALL, *near(1.0), *near(40.0), *near(700.0), 710.4],
    ),
    (
        "inverse_hyperbolic_sine",
        mp.asinh,
        [any_number, uniform(-3, 3), powers_of_2(-40, 40)],
        [*SMALL, *near(2.0**30), LARGEST, -LARGEST],
    ),
    (
        "inverse_hyperbolic_cosine",
        mp.acosh,
        [
            uniform(1, 3),
            lambda source: 1 + 2.0 ** source.uniform(-52, 10),
            lambda source: 2.0 ** source.uniform(0, 1023),
        ],
        [1.0, math.nextafter(1, 2), *near(2.0**30), LARGEST],
    ),
    (
        "inverse_hyperbolic_tangent",
        mp.atanh,
        [uniform(-1, 1), powers_of_2(-40, 0), lambda source: 1 - 2.0 ** source.uniform(-53, -1)],
        [*SMALL, math.nextafter(1, 0), math.nextafter(-1, 0), *near(0.5)],
    ),
    (
        "error_function",
        mp.erf,
        [uniform(-6.5, 6.5), uniform(-1, 1), powers_of_2(-40, 2)],
        [*SMALL, *near(0.875), *near(2.0**-500), *near(6.0), 1e300],
    ),
    (
        "log_gamma",
        mp.loggamma,
        [uniform(0, 3), uniform(0, 100), lambda source: 2.0 ** source.uniform(-100, 300)],
        [LEAST, 1.0, 2.0, 0.5, 16.0, 1e300, *near(2.0**100)],
    ),
    (
        "power",
        mp.power,
        [
            pairs(any_positive, uniform(-0.9, 0.9)),
            pairs(uniform(0, 2), uniform(-60, 60)),
            pairs(uniform(0.9, 1.1), uniform(-6000, 6000)),
            pairs(uniform(-100, 100), lambda source: float(source.randint(-20, 20))),
            pairs(uniform(-100, 100), lambda source: 3.0),
        ],
        [(10.0, float(n)) for n in range(-5, 23)]
        + [
            (LEAST, 0.5),
            (LARGEST, -1.0),
            (2.0, -1074.0),
            (2.0, -1060.5),
            (1e100, 3.0),
            (1e-105, 3.0),
        ]
        + [(1 + 2.0**-52, 3e18), (1 - 2.0**-53, -6e18), (0.999, 9999.0), (-3.0, 3.0), (2.0, LEAST)],
    ),
    (
        "angle_of_point",
        mp.atan2,
        [
            pairs(any_number, any_number),
            pairs(uniform(-1, 1), uniform(-1, 1)),
            pairs(powers_of_2(-30, 30), powers_of_2(-30, 30)),
        ],
        [(1.0, 1.0), (1.0, -1.0), (LEAST, LARGEST), (LARGEST, -LEAST), (LEAST, -1.0)],
    ),
    (
        "hypotenuse",
        lambda x, y: mp.sqrt(x * x + y * y),
        [
            pairs(any_number, any_number),
            pairs(uniform(-1, 1), uniform(-1, 1)),
            pairs(powers_of_2(-560, -380), powers_of_2(-560, -380)),
            pairs(powers_of_2(1000, 1022), powers_of_2(1000, 1022)),
            pairs(powers_of_2(-1074, -1000), powers_of_2(-1074, -1000)),
        ],
        [(3.0, 4.0), (LEAST, LEAST), (LARGEST, 1.0), (2.0**1022, 2.0**1022), (0.0, LEAST)],
    ),
]


def two_doubles(value):
    high = float(value)
    return high, 0.0 if math.isinf(high) else float(value - mp.mpf(high))


def factors_of_error_function():
    """Least squares over x from 0.875 to 6, of e^(-x*x) times the error, in powers of t."""
    mp.mp.prec = 200
    count, points, middle = 13, 200, 3
    ends = [(mp.mpf(x) - middle) / (x + middle) for x in (0.875, 6)]
    matrix, wanted = mp.matrix(points, count), mp.matrix(points, 1)
    for i in range(points):
        t = sum(ends) / 2 + (ends[1] - ends[0]) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * points))
        x = middle * (1 + t) / (1 - t)
        for k in range(count):
            matrix[i, k] = mp.exp(-x * x) * t**k
        wanted[i] = mp.erfc(x)
    for factor in reversed(list(mp.qr_solve(matrix, wanted)[0])):
        print(float(factor).hex())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="of each source of random arguments")
    parser.add_argument("--factors", action="store_true")
    options = parser.parse_args()
    if options.factors:
        factors_of_error_function()
        return
    for name, exact, random_arguments, hard in FUNCTIONS:
        source = random.Random(f"{name} {options.seed}")
        arguments = hard + [draw(source) for draw in random_arguments for _ in range(options.count)]
        for argument in arguments:
            x = argument if isinstance(argument, tuple) else (argument,)
            numbers = (*x, *two_doubles(exact(*map(mp.mpf, x))))
            print(name, *(number.hex() for number in numbers))


main()
