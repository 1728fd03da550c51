"""The calls that verify and differentiate take torch's arguments, by its names, in its order, with its defaults."""

from inspect import Parameter, signature

import pytest
from functions import leaf

import adjoint as ad
from adjoint.autograd import functional, gradcheck, gradgradcheck
from adjoint.utils import checkpoint

CHECK = (
    "eps=1e-06 atol=1e-05 rtol=0.001 raise_exception=True nondet_tol=0.0 check_undefined_grad=True "
    "check_grad_dtypes=False check_batched_grad=False "
)
VERSUS = "func inputs v=None create_graph=False strict=False"
SIGNATURES = {
    gradcheck: f"func inputs * {CHECK}check_batched_forward_grad=False check_forward_ad=False check_backward_ad=True "
    "fast_mode=False masked=None",
    gradgradcheck: "func inputs grad_outputs=None * "
    f"{CHECK.replace('rtol=0.001', 'rtol=0.001 gen_non_contig_grad_outputs=False')}"
    "check_fwd_over_rev=False check_rev_over_rev=True fast_mode=False masked=False",
    functional.vjp: VERSUS,
    functional.jvp: VERSUS,
    functional.vhp: VERSUS,
    functional.hvp: VERSUS,
    functional.jacobian: "func inputs create_graph=False strict=False vectorize=False strategy='reverse-mode'",
    functional.hessian: "func inputs create_graph=False strict=False vectorize=False "
    "outer_jacobian_strategy='reverse-mode'",
    checkpoint.checkpoint_sequential: "functions segments input use_reentrant=None **kwargs",
    checkpoint.set_checkpoint_early_stop: "enable",
    checkpoint.set_checkpoint_debug_enabled: "enabled",
    ad.autograd.backward: "tensors grad_tensors=None retain_graph=None create_graph=False grad_variables=None inputs=None",
    ad.autograd.grad: "outputs inputs grad_outputs=None retain_graph=None create_graph=False only_inputs=True "
    "allow_unused=None is_grads_batched=False materialize_grads=False",
}


def text(function):
    """The parameters in one line: ``a b=1 * c=2``."""
    parts, keywords = [], False
    for p in signature(function).parameters.values():
        if p.kind is Parameter.KEYWORD_ONLY and not keywords:
            parts.append("*")
        keywords = p.kind is Parameter.KEYWORD_ONLY
        stars = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(f"{stars}{p.name}" + ("" if p.default is Parameter.empty else f"={p.default!r}"))
    return " ".join(parts)


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: f.__name__)
def test_signature(function):
    assert text(function) == SIGNATURES[function]


def test_checkpoint_s_keywords():
    parameters = signature(checkpoint.checkpoint).parameters
    assert {n: p.default for n, p in parameters.items() if p.kind is not Parameter.VAR_POSITIONAL} == {
        "function": Parameter.empty,
        "use_reentrant": None,
        "context_fn": None,
        "determinism_check": "default",
        "debug": False,
        "early_stop": True,
        "preserve_rng_state": True,
        "kwargs": Parameter.empty,
    }


def test_lists_of_inputs_and_of_cotangents():
    pair = [leaf(1.0, 2.0), leaf(3.0, 4.0)]
    assert gradcheck(ad.mul, pair) and gradgradcheck(ad.mul, pair)
    assert gradgradcheck(ad.mul, pair, [leaf(1.0, -1.0)])
    assert gradgradcheck(ad.mul, tuple(pair), leaf(1.0, -1.0), masked=True)
    assert gradcheck(ad.mul, pair, masked=True)


def test_gradients_that_are_none():
    none = type(
        "None_",
        (ad.autograd.Function,),
        {"forward": staticmethod(lambda ctx, x: x * 2), "backward": staticmethod(lambda ctx, g: None)},
    )
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(none.apply, leaf(1.0, 2.0))
    assert gradcheck(lambda x: none.apply(x) * 0, leaf(1.0, 2.0))
