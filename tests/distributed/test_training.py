"""Data-parallel training on two and three ranks, which must be that of one process with all the data.

Start reading in `training.py`.
"""

import pytest
from ranks import processes


@pytest.mark.parametrize(
    "program, n",
    [
        ("same_as_one_process", 2),
        ("several_passes", 3),
        ("shared_passes", 2),
        ("unused", 3),
        ("others", 2),
        ("uneven", 3),
        ("normalised_over_ranks", 3),
        ("optimisers", 2),
    ],
)
def test_training(program, n, tmp_path):
    assert processes("training:with_both_kinds_of_buckets", n, tmp_path, program) == ["ok\nok\n"] * n
