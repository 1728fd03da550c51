"""What runs a fuzz test by hand: `main`, for a function that checks the program of a seed."""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from side_by_side import side_by_side  # noqa: E402


def called(f, *args):
    return f(*args)


def replayed(f, *args):
    """The same by `jit`, once it was called until it would be replayed."""
    from adjoint import jit

    f = jit(f)
    for _ in range(3):
        f(*args)
    return f(*args)


def main(check, description):
    """Check as many programs as the command line says; 1 where some were wrong.

    `check` gives a message for a seed whose program came to something else than its reference, and None for others. Its
    other argument calls what is checked.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jit", action="store_true", help="under jit, by what is replayed")
    parser.add_argument("--threads", type=int, default=1, help="programs at once")
    options = parser.parse_args()
    call, seeds = replayed if options.jit else called, range(options.seed, options.seed + options.programs)
    wrong = checked = 0
    for _, message in side_by_side(lambda seed: check(seed, call), seeds, options.threads):
        checked += 1
        if message:
            wrong += 1
            print(message)
            if wrong >= 20:
                break
    print(f"{checked} programs, {wrong} wrong")
    return 1 if wrong else 0
