"""What Python composes of operators, on the meta device: results and gradients have the shapes of those on the CPU.

The calls are those of test_compositions.py. Start reading at `SEE_VALUES`.
"""

import pytest
from test_compositions import FUNCTIONAL, LINALG, MORE, SPECIAL

import adjoint as ad

#: Calls that look at values, on purpose.
SEE_VALUES = {"functional embedding_bag"}

CALLS = {
    f"{module} {name}": call
    for module, calls in (("functional", FUNCTIONAL), ("linalg", LINALG), ("special", SPECIAL), ("", MORE))
    for name, call in calls.items()
}


def outcome(f, leaves, device):
    """The shapes and types of results and of the gradients of their sum, and all devices among them."""
    leaves = [x.detach().to(device).requires_grad_() for x in leaves]
    with ad.device(device):
        results = f(*leaves)
    results = [results] if isinstance(results, ad.Tensor) else list(results)
    tracked = [r for r in results if r.requires_grad]
    found = ad.autograd.grad(tracked, leaves, [ad.ones_like(r) for r in tracked], allow_unused=True)
    all_of_them = [*results, *(g for g in found if g is not None)]
    return [(tuple(t.shape), t.dtype) for t in all_of_them], {t.device.type for t in all_of_them}


@pytest.mark.parametrize("name", CALLS)
def test_shapes_on_the_meta_device(name):
    f, *leaves = CALLS[name]
    here, _ = outcome(f, leaves, "cpu")
    constants = {"TARGET", "SIGNS", "THIRDS"} & set(getattr(f, "__code__", outcome.__code__).co_names)
    try:
        there, devices = outcome(f, leaves, "meta")
    except RuntimeError as error:
        # Constants of the calls stay on the CPU.
        assert (constants and "same device" in str(error)) or (
            name in SEE_VALUES and "depends on the values" in str(error)
        ), error
        return
    assert devices == {"meta"}
    assert there == here
