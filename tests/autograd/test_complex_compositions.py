"""What Python composes of operators, called with complex numbers: right by both Wirtinger derivatives, or refused.

The calls are those of test_compositions.py; here their real operands get imaginary parts. Start reading at `ACCEPTED`.
"""

import pytest
from helpers import normal, tensor
from test_compositions import FUNCTIONAL, LINALG, MORE, SPECIAL, check

# What takes complex numbers; the rest orders numbers, or is defined for probabilities and real losses.
ACCEPTED = {
    "nn": "alpha_dropout bilinear cosine_similarity dropout dropout1d dropout2d dropout3d embedding feature_alpha_dropout glu hardshrink huber_loss l1_loss linear mse_loss normalize pad "
    "pairwise_distance pdist poisson_nll_loss rms_norm sigmoid silu smooth_l1_loss softsign tanh tanhshrink triplet_margin_loss "
    "triplet_margin_with_distance_loss",
    "linalg": "",
    "special": "exp2 expit expm1 log1p logsumexp sigmoid sinc xlog1py",
    "": "",
}
CALLS = [
    pytest.param(f, leaves, name in ACCEPTED[room].split(), id=f"{room} {name}")
    for room, table in (("nn", FUNCTIONAL), ("linalg", LINALG), ("special", SPECIAL), ("", MORE))
    for name, (f, *leaves) in table.items()
    if not any(x.is_complex() for x in leaves)
]


@pytest.mark.parametrize(("f", "leaves", "accepted"), CALLS)
def test_complex_operands(f, leaves, accepted):
    operands = [x + 0.4j * tensor(normal(*x.shape, seed=40 + k)) for k, x in enumerate(leaves)]
    if accepted:
        check(f, *operands)
        return
    with pytest.raises((RuntimeError, NotImplementedError, TypeError, ValueError)):
        f(*[x.requires_grad_() for x in operands])


@pytest.mark.parametrize(
    ("f", "leaves"), [pytest.param(*call.values[:2], id=call.id) for call in CALLS if call.values[2]]
)
def test_one_complex_operand(f, leaves):
    """The gradients of the real operands are real, and right; where types may not be mixed, that is refused."""
    if len(leaves) == 1:
        # From a real input by way of complex numbers.
        check(lambda x: f(x * tensor(0.7 - 0.4j)), *leaves)
        return
    for k in range(len(leaves)):
        operands = [x * tensor(0.7 - 0.4j) if j == k else x for j, x in enumerate(leaves)]
        try:
            f(*operands)
        except (RuntimeError, TypeError, ValueError) as error:
            assert "type" in str(error).lower()
        else:
            check(f, *operands)
