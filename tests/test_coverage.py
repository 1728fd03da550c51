"""docs/coverage.md: every name of torch that is absent has its reason, and the page is what the package says.

tools/coverage.py writes it. It runs in a process of its own, which answers to the name torch.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

CHECK = """
import sys
sys.path.insert(0, "tools")
import coverage
found, given = coverage.compare(), coverage.reasons()
assert found["torch.sin"] == "present" and found["torch.compile"] == "standin" and found["torch.cudnn_convolution"] == "absent"
assert coverage.judge(found, []), "without reasons, every absence is wrong"
stale = [*given, ("absent", "Not here", ["torch.sin"]), ("absent", "No such name", ["torch.sine"]), ("differs", "-", ["torch.cudnn_convolution"])]
more = [line for line in coverage.judge(found, stale) if line not in coverage.judge(found, given)]
assert [line.split()[0] for line in more] == ["torch.sin", "torch.sine", "torch.cudnn_convolution"], more
coverage.main(["--check"])
"""


def test_no_name_of_torch_is_absent_without_a_reason():
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
