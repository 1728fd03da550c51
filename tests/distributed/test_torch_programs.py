"""Programs for torch that start ranks, unmodified: from one seed they print torch's numbers.

Start reading in `torch_programs.py`. What was printed by torch 2.13 stands below.
"""

import pathlib
import subprocess
import sys

from ranks import environment

TORCH_PRINTS = """\
demo_basic 26.3881
demo_checkpoint 26.3912
messages 1 2 12
by_hand 2.31673 64.7924
elastic 0.293782
joined -0.0658258 11
"""


def test_tutorials_print_torch_s_numbers(tmp_path):
    program = pathlib.Path(__file__).parent / "torch_programs.py"
    done = subprocess.run(
        [sys.executable, "-m", "adjoint.as_torch", program, tmp_path / "meet"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == TORCH_PRINTS, done.stderr
