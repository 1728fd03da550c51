"""Typical programs, which run and pass strict type checkers: see tools/check_types.py and test_typing.py."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import Tensor, nn, optim
from adjoint.utils.checkpoint import checkpoint
from adjoint.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split

# --- tensors ----------------------------------------------------------------------------------------------------------


def creation() -> list[Tensor]:
    generator = ad.Generator().manual_seed(0)
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=ad.float64, requires_grad=True)
    y = ad.zeros(2, 3, dtype=ad.float32, device="cpu")
    z = ad.ones((2, 3), device=ad.device("cpu")) + ad.full((2, 3), 0.5) + ad.arange(3)
    r = ad.randn(2, 3, generator=generator) + ad.rand((2, 3), generator=generator)
    i = ad.randint(0, 10, (4,)) + ad.arange(0, 4) + ad.randperm(4)
    return [
        x,
        y,
        z,
        r,
        i,
        ad.empty_like(y),
        ad.zeros_like(z, dtype=ad.int64),
        ad.eye(3),
        ad.linspace(0, 1, 5),
    ]


def arithmetic(x: Tensor, y: Tensor) -> Tensor:
    z = x + y - 2 * x / (y.abs() + 1.0) + x**2 - 3.0
    z = -z @ y.T + x.mm(y.t()) - (x * y).sum(dim=1, keepdim=True)
    z = ad.where(z > 0, z, 0.0) + ad.clamp(z, min=-1, max=1.0)
    w = ad.add(z, 1, alpha=2) + ad.matmul(z, z).tanh().relu() + z.softmax(-1) + z.mean(0)
    return ad.cat([w, ad.stack([w[0], w[1]])], dim=0) + ad.maximum(w[0], w[1])


def reductions(x: Tensor) -> float:
    values, indices = x.max(dim=1)
    top = x.topk(1, dim=-1)
    total: Tensor = top.values.sum() + indices.float().mean() + values.std() + ad.logsumexp(x, dim=(0, 1))
    low, high = ad.aminmax(x)
    first = x.sort(descending=True).indices[0, 0]
    if bool((x > 0).any()) and x.argmax().item() >= 0:
        total = total + low + high + x.var(correction=0) + x.norm() + x.cumsum(0)[-1].prod()
    return float(total) + int(first) + len(x)


def indexing(x: Tensor) -> Tensor:
    x = x.detach().clone()
    x[0, 1:] = 0.0
    x[..., -1] += 1
    x[x > 2] = 2
    rows = ad.tensor([0, 1])
    picked = (
        x[rows, :][:, None].squeeze(1) + x.index_select(0, rows) + x.gather(1, ad.zeros(2, 2, dtype=ad.int64))
    )
    for row in x:
        picked = picked + row
    return picked


def shapes(x: Tensor) -> tuple[int, ...]:
    rows, columns = x.shape
    y = x.reshape(-1).view(rows, columns).permute(1, 0).contiguous().unsqueeze(0).expand(3, -1, -1)
    a, b = ad.split(y, [1, 2])
    parts = y.unbind(0) + y.chunk(3, dim=0)
    assert x.size() == x.shape and x.size(0) == rows and x.stride(1) == 1 and x.numel() == rows * columns
    return tuple(a.flatten().shape) + b.transpose(0, 1).shape + parts[0].shape


def in_place(x: Tensor) -> Tensor:
    with ad.no_grad():
        x = x.clone().mul_(2).add_(1, alpha=0.5).clamp_(min=0).fill_(3).uniform_(0, 1).zero_()
    return x.to(ad.float32).double().to("cpu", dtype=ad.float64).type_as(x).requires_grad_()


# --- networks ---------------------------------------------------------------------------------------------------------


class MLP(nn.Module):
    def __init__(self, sizes: list[int], dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.dropout = nn.Dropout(dropout)
        self.scale = nn.Parameter(ad.ones(1))
        self.register_buffer("steps", ad.zeros((), dtype=ad.int64))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.dropout(F.relu(layer(x)))
        return self.scale * x


class Image(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(channels, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        z: Tensor = self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))
        return z


class Text(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        h, (state, _) = self.lstm(self.embedding(x))
        a, _ = self.attention(h, h, h, need_weights=False)
        result: Tensor = self.norm(a + h)
        last: Tensor = state[-1]
        return result.mean(dim=1) + F.scaled_dot_product_attention(h, h, h).mean(1) + last


# --- data and training ------------------------------------------------------------------------------------------------


class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, n: int) -> None:
        self.x = ad.linspace(-1, 1, n)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index : index + 1], self.x[index : index + 1] ** 2


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield from ad.arange(4)


def train(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], epochs: int) -> list[float]:
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.99), weight_decay=0.01)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    criterion = nn.MSELoss()
    losses: list[float] = []
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss: Tensor = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    model.eval()
    return losses


def saved(model: nn.Module) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        ad.save(model.state_dict(), path)
        model.load_state_dict(ad.load(path))
    for name, parameter in model.named_parameters():
        assert (
            parameter.requires_grad
            and name
            and parameter.grad is not None
            and parameter.grad.shape == parameter.shape
        )


# --- derivatives ------------------------------------------------------------------------------------------------------


class Exp(ad.autograd.Function):
    @staticmethod
    def forward(ctx: ad.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: ad.autograd.function.FunctionCtx, g: Tensor) -> Tensor:
        result: Tensor = ctx.saved_tensors[0]
        return g * result


def transforms(x: Tensor) -> Tensor:
    def f(x: Tensor) -> Tensor:
        return (x**2).sum()

    g: Tensor = ad.func.grad(f)(x)
    hessian: Tensor = ad.func.hessian(f)(x[0])
    batched: Tensor = ad.vmap(ad.func.grad(f))(x)
    pushed: Tensor
    _, pushed = ad.func.jvp(f, (x,), (ad.ones_like(x),))
    value, back = ad.func.vjp(f, x)
    jacobian: Tensor = ad.autograd.functional.jacobian(f, x)
    (by_hand,) = ad.autograd.grad(f(x), [x], create_graph=True)
    y: Tensor = Exp.apply(x) + checkpoint(ad.sin, x, use_reentrant=False)
    pulled: Tensor = back(value)[0]
    return g + batched + pulled + jacobian + by_hand + y + hessian.sum() + pushed


def mathematics() -> Tensor:
    a = ad.randn(3, 3, dtype=ad.float64)
    q, r = ad.linalg.qr(a)
    u, s, vh = ad.linalg.svd(a @ a.mT + ad.eye(3, dtype=ad.float64))
    x = ad.linalg.solve(a, q) + ad.linalg.inv(a) + ad.einsum("ij,jk->ik", q, r) + ad.linalg.norm(s)
    normal = ad.distributions.Normal(ad.zeros(3), ad.ones(3))
    sample = normal.rsample(ad.Size((2,)))
    kl = ad.distributions.kl_divergence(normal, ad.distributions.Normal(1.0, math.e))
    spectrum = (
        ad.fft.rfft(sample).abs() + ad.special.erf(sample).sum() + normal.log_prob(sample).sum() + kl.sum()
    )
    total: Tensor = spectrum.sum() + x.sum() + u.sum() + vh.sum()
    return total


def main() -> None:
    ad.manual_seed(0)
    x = ad.randn(2, 2, dtype=ad.float64, requires_grad=True)
    assert len(creation()) == 9 and math.isfinite(reductions(x)) and mathematics().isfinite()
    assert arithmetic(x, x.detach()).shape == (4, 2) and indexing(x).shape == (2, 2)
    assert len(shapes(x)) > 3 and in_place(x).requires_grad and transforms(x).shape == x.shape
    train_set, rest = random_split(Squares(10), [8, 2])
    model = MLP([1, 8, 1])
    assert (
        len(train(model, DataLoader(train_set, batch_size=4, shuffle=True), epochs=2)) == 4 and len(rest) == 2
    )
    saved(model)
    assert Image(4)(ad.randn(1, 3, 8, 8)).shape == Text(5, 4)(ad.tensor([[1, 2]])).shape[:1] + (2,)
    assert len(list(DataLoader(Stream(), batch_size=2))) == 2 == len(TensorDataset(x, x))


if __name__ == "__main__":
    main()
