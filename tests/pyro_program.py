"""Pyro's inference on a small regression: run by test_pyro.py under Adjoint, and by hand under torch, unchanged.

PYTHONPATH=(where Pyro is) python tests/pyro_program.py
"""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import HMC, MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoMultivariateNormal, AutoNormal


def model(x, y):
    w = pyro.sample("w", dist.Normal(torch.zeros(2), 3.0).to_event(1))
    b = pyro.sample("b", dist.Normal(0.0, 3.0))
    s = pyro.sample("s", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("obs", dist.Normal(x @ w + b, s), obs=y)


def variational(make_guide, x, y):
    """The first loss, the last one, and the weights' medians."""
    pyro.clear_param_store()
    pyro.set_rng_seed(2)
    guide = make_guide(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.02}), loss=Trace_ELBO())
    losses = [svi.step(x, y) for _ in range(200)]
    return [losses[0], losses[-1], *guide.median()["w"].tolist()]


def monte_carlo(kernel, x, y):
    """The first draw of the weights, their mean, and the mean deviation."""
    pyro.clear_param_store()
    pyro.set_rng_seed(3)
    chain = MCMC(kernel, num_samples=40, warmup_steps=40, disable_progbar=True)
    chain.run(x, y)
    drawn = chain.get_samples()
    return [*drawn["w"][0].tolist(), *drawn["w"].mean(0).tolist(), drawn["s"].mean().item()]


torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.randn(40, 2)
y = x @ torch.tensor([1.5, -0.7]) + 0.3 + 0.5 * torch.randn(40)
print(
    {
        "AutoNormal": variational(AutoNormal, x, y),
        "AutoMultivariateNormal": variational(AutoMultivariateNormal, x, y),
        "HMC": monte_carlo(HMC(model, step_size=0.05, num_steps=5), x, y),
        "NUTS": monte_carlo(NUTS(model), x, y),
    }
)
