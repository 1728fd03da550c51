"""`python -m benchmarks`: the whole table."""

from benchmarks.run import main

if __name__ == "__main__":
    raise SystemExit(main())
