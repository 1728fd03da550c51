"""What every test shares: a fixed seed, default modes, and the folder of helpers on the path.

Start reading in `helpers.py`. The fixtures here only make sure that a test which changes global state
(default dtype, number of threads, gradient mode) cannot be felt by the next one.
"""

import pathlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES

import pytest
from hypothesis import HealthCheck, settings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# The package beside this folder counts only where the core was built into it. Otherwise the installed one is tested,
# however pytest was started: `python -m pytest` puts the folder that it runs in on the path.
if not any((HERE.parent / "adjoint" / f"_C{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
    sys.path[:] = [folder for folder in sys.path if pathlib.Path(folder).resolve() != HERE.parent]

import adjoint as ad  # noqa: E402

settings.register_profile(
    "adjoint",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("adjoint")


@pytest.fixture(autouse=True)
def fresh_state():
    """Seed the generator, and put the default dtype, the threads and the gradient mode back afterwards."""
    threads = ad.get_num_threads()
    ad.manual_seed(0)
    yield
    ad.set_default_dtype(ad.float32)
    if ad.get_num_threads() != threads:
        ad.set_num_threads(threads)
    leaked = not ad.is_grad_enabled()
    ad.set_grad_enabled(True)
    assert not leaked, "a test left gradient recording switched off"
