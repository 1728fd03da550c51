"""Small programs as users write them, with one `ad.jit` at the step: eager's results to the bit, and replayed.

Each gives its step and the arguments of a call. Start reading at `test_replayed_with_eagers_bits`.
"""

import copy
import math
import warnings

import pytest
import twice

import adjoint as ad
import adjoint.distributions as D
from adjoint import nn, optim
from adjoint.nn import functional as F


def network(*sizes):
    layers = [m for a, b in zip(sizes, sizes[1:], strict=False) for m in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def stepped(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def adversarial():
    g, d = network(4, 16, 2), network(2, 16, 1)
    of_g, of_d = optim.Adam(g.parameters(), 1e-3, betas=(0.5, 0.999)), optim.Adam(d.parameters(), 1e-3)
    bce = nn.BCEWithLogitsLoss()

    def step(x):
        fake = g(ad.randn(32, 4))
        a = stepped(of_d, bce(d(x), ad.ones(32, 1)) + bce(d(fake.detach()), ad.zeros(32, 1)))
        return a, stepped(of_g, bce(d(fake), ad.ones(32, 1)))

    x = ad.randn(32, 2)
    return step, lambda k: (x + k * 0.01,)


def policy_gradient():
    policy = network(4, 32, 2)
    optimizer = optim.Adam(policy.parameters(), 1e-2)

    def step(s):
        chosen = D.Categorical(logits=policy(s))
        a = chosen.sample()
        reward = (a == (s[:, 0] > 0)).float()
        gain = (reward - reward.mean()) / (reward.std() + 1e-6)
        return stepped(optimizer, -(chosen.log_prob(a) * gain).mean() - 0.01 * chosen.entropy().mean()), a

    s = ad.randn(10, 4)
    return step, lambda k: (s + k * 0.1,)


def gaussian_process():
    scale, noise = nn.Parameter(ad.zeros(())), nn.Parameter(ad.tensor(-1.0))
    optimizer = optim.Adam([scale, noise], 0.05)
    x = ad.linspace(0, 1, 20)[:, None]

    def step(y):
        K = ad.exp(-0.5 * ad.cdist(x, x) ** 2 / scale.exp() ** 2) + noise.exp() * ad.eye(20)
        L = ad.linalg.cholesky(K)
        a = ad.cholesky_solve(y[:, None], L)[:, 0]
        return stepped(optimizer, 0.5 * y @ a + L.diagonal().log().sum() + 10 * math.log(2 * math.pi))

    return step, lambda k: (ad.sin(6 * x[:, 0]) + 0.01 * k,)


def kalman_filter():
    A, log_q = nn.Parameter(ad.tensor([[1.0, 0.1], [0.0, 1.0]])), nn.Parameter(ad.tensor(-2.0))
    optimizer = optim.Adam([A, log_q], 1e-2)
    H, R = ad.tensor([[1.0, 0.0]]), ad.eye(1) * 0.1

    def step(ys):
        m, P, likelihood = ad.zeros(2), ad.eye(2), 0.0
        for y in ys:
            m, P = A @ m, A @ P @ A.T + log_q.exp() * ad.eye(2)
            S = H @ P @ H.T + R
            K = ad.linalg.solve(S, H @ P).T
            r = y - H @ m
            likelihood = likelihood - 0.5 * (ad.logdet(S) + r @ ad.linalg.solve(S, r))
            m, P = m + K @ r, P - K @ H @ P
        return stepped(optimizer, -likelihood)

    ys = ad.randn(6, 1)
    return step, lambda k: (ys + 0.01 * k,)


def spectral_equation():
    n, nu = 64, nn.Parameter(ad.tensor(0.05))
    k = ad.fft.rfftfreq(n, 1 / n) * 2 * math.pi
    optimizer = optim.Adam([nu], 1e-2)
    x = ad.linspace(0, 2 * math.pi, n + 1)[:-1]

    def rate(u):
        v = ad.fft.rfft(u)
        return ad.fft.irfft(-nu * k**2 * v, n) * 0.001 - 0.01 * u * ad.fft.irfft(1j * k * v, n)

    def step(u):
        for _ in range(3):
            u = u + rate(u + 0.5 * rate(u))
        return stepped(optimizer, ((u - ad.sin(x) * 0.5) ** 2).mean()), u.detach()

    return step, lambda k: (ad.sin(x + 0.1 * k),)


def transport():
    X, Y = nn.Parameter(ad.randn(10, 2)), ad.randn(12, 2)
    optimizer = optim.SGD([X], 0.1)

    def step(eps):
        C = ((X[:, None] - Y[None]) ** 2).sum(-1)
        f, g = ad.zeros(10), ad.zeros(12)
        for _ in range(30):
            g = eps * (-math.log(12) - ad.logsumexp((f[:, None] - C) / eps, 0))
            before, f = f, eps * (-math.log(10) - ad.logsumexp((g[None] - C) / eps, 1))
            if (f - before).abs().max().item() < 1e-2:
                break
        return stepped(optimizer, (ad.exp((f[:, None] + g[None] - C) / eps) * C).sum())

    return step, lambda k: (2.0,)


def decoder_with_a_cache():
    d, h = 16, 2
    embed, qkv, out = nn.Embedding(20, d), nn.Linear(d, 3 * d), nn.Linear(d, 20)
    keys, values = ad.zeros(1, h, 16, d // h), ad.zeros(1, h, 16, d // h)

    @ad.no_grad()
    def step(token, at):
        q, k, v = (t.view(1, 1, h, d // h).transpose(1, 2) for t in qkv(embed(token)).chunk(3, -1))
        keys.index_copy_(2, at, k)
        values.index_copy_(2, at, v)
        mask = (ad.arange(16) <= at)[None, None, None]
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return out(y.transpose(1, 2).reshape(1, 1, d)).argmax(-1)

    return step, lambda k: (ad.tensor([[k % 20]]), ad.tensor([k % 16]))


def mixed_precision():
    net = network(4, 16, 1)
    mean = copy.deepcopy(net).requires_grad_(False)
    optimizer = optim.SGD(net.parameters(), 1e-2, momentum=0.9)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    scaler = ad.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=7)

    def step(x):
        optimizer.zero_grad()
        with ad.autocast("cpu", dtype=ad.bfloat16):
            y = net(x).float()
        loss = F.mse_loss(y, x.sum(1, keepdim=True))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        with ad.no_grad():
            for p, q in zip(mean.parameters(), net.parameters(), strict=True):
                p.lerp_(q, 0.01)
        return loss.detach(), scaler.get_scale(), [*mean.parameters()]

    x = ad.randn(16, 4)
    return step, lambda k: (x + 0.01 * k,)


@pytest.mark.parametrize(
    "program",
    [
        adversarial,
        policy_gradient,
        gaussian_process,
        kalman_filter,
        spectral_equation,
        transport,
        decoder_with_a_cache,
        mixed_precision,
    ],
    ids=lambda f: f.__name__,
)
def test_replayed_with_eagers_bits(program):
    steps = []
    for _ in range(2):
        ad.manual_seed(0)
        steps.append(program())
    (plain, make), (again, _) = steps
    jitted = ad.jit(again)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(20):
            seen = []
            for f in (plain, jitted):
                ad.manual_seed(k)
                seen.append((twice.picture(f(*make(k))), ad.rand(1).item()))
            assert seen[0] == seen[1], f"call {k}: {jitted.stats()}"
    assert jitted.stats()["replayed"] >= 8, jitted.stats()
