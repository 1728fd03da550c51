"""What runs a fuzz test by hand: `main`, for a function that checks the program of a seed."""

import argparse


def main(check, description):
    """Check as many programs as the command line says; 1 where some were wrong.

    `check` gives a message for a seed whose program came to something else than its reference, and None for others.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = checked = 0
    for seed in range(options.seed, options.seed + options.programs):
        checked += 1
        if message := check(seed):
            wrong += 1
            print(message)
            if wrong >= 20:
                break
    print(f"{checked} programs, {wrong} wrong")
    return 1 if wrong else 0
