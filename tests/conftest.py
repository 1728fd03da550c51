"""What every test shares: a fixed seed, default modes, and the folder of helpers on the path.

Start reading in `helpers.py`. The fixtures here only make sure that a test which changes global state
(default dtype, number of threads, gradient mode) cannot be felt by the next one.
"""

import gc
import os
import pathlib
import sys
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

settings.register_profile(
    "adjoint",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("adjoint")


def pytest_addoption(parser):
    parser.addoption(
        "--limits", action="store_true", help="fail where a test takes over 10 s or 1 GB; list the largest"
    )
    parser.addoption(
        "--checks",
        choices=("1", "2"),
        metavar="LEVEL",
        help="run all tests, their workers and programs, with checked blocks of memory (ADJOINT_CHECKS=LEVEL)",
    )


def pytest_configure(config):
    # The allocator looks once whether it checks, so the package is first loaded here, and by no conftest.
    if level := config.getoption("checks"):
        if "adjoint" in sys.modules and os.environ.get("ADJOINT_CHECKS") != level:
            raise pytest.UsageError(
                f"--checks={level}: adjoint was loaded before, so that its blocks are not checked"
            )
        os.environ["ADJOINT_CHECKS"] = level
    import limits

    limits.limit_memory()
    config.pluginmanager.register(limits.Limits(config))


def pytest_collection_finish():
    """Thousands of collected tests are no garbage, and no test that collects any need look for it among them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_state(request):
    """Seed the generators, and put the default dtype, the threads and the gradient mode back afterwards.

    A module's own generators are set by the name of the test: what a test draws does not depend on those that
    ran before it in the same worker, which was how rounding decided, once in some hundred runs, between two pivots.
    """
    import adjoint as ad

    threads = ad.get_num_threads()
    ad.manual_seed(0)
    for own in list(vars(request.module).values()):
        if isinstance(own, np.random.Generator):
            own.bit_generator.state = np.random.PCG64(zlib.crc32(request.node.name.encode())).state
    yield
    ad.set_default_dtype(ad.float32)
    if ad.get_num_threads() != threads:
        ad.set_num_threads(threads)
    leaked = not ad.is_grad_enabled()
    ad.set_grad_enabled(True)
    assert not leaked, "a test left gradient recording switched off"
