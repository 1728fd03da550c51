"""Steps with sparse gradients: the formulas, what is written, what is refused; and programs that live of them."""

import numpy as np
import pytest
from helpers import array, torch_program
from sparse_reference import normal

import adjoint as ad
from adjoint import nn, optim

INDICES = [[0, 1, 1], [3], [1, 4, 4, 4], []]


def run(make, sparse, steps=INDICES):
    layer = nn.Embedding(
        6, 2, sparse=sparse, dtype=ad.float64, _weight=ad.arange(12.0, dtype=ad.float64).reshape(6, 2)
    )
    optimizer = make(layer.parameters())
    for index in steps:
        optimizer.zero_grad()
        layer(ad.tensor(index, dtype=ad.int64)).pow(2).sum().backward()
        optimizer.step()
    return layer, optimizer


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.5},
        {"momentum": 0.9, "nesterov": True},
        {"maximize": True},
    ],
    ids=str,
)
def test_sgd_is_that_of_dense_gradients(options):
    make = lambda p: optim.SGD(p, lr=0.05, **options)  # noqa: E731
    (sparse, optimizer), (dense, _) = run(make, True), run(make, False)
    np.testing.assert_allclose(array(sparse.weight), array(dense.weight), rtol=1e-12)
    if "momentum" in options:
        buffer = optimizer.state[sparse.weight]["momentum_buffer"]
        assert buffer.is_sparse and buffer._nnz() <= 6


@pytest.mark.parametrize(
    "options", [{}, {"lr_decay": 0.1}, {"maximize": True}, {"initial_accumulator_value": 0.5}], ids=str
)
def test_adagrad_is_that_of_dense_gradients(options):
    make = lambda p: optim.Adagrad(p, lr=0.5, **options)  # noqa: E731
    (sparse, a), (dense, b) = run(make, True), run(make, False)
    np.testing.assert_allclose(array(sparse.weight), array(dense.weight), rtol=1e-12)
    np.testing.assert_allclose(
        array(a.state[sparse.weight]["sum"]), array(b.state[dense.weight]["sum"]), rtol=1e-12
    )


def test_lbfgs_makes_them_dense():
    layer = nn.Embedding(6, 2, sparse=True, dtype=ad.float64)
    optimizer = optim.LBFGS(layer.parameters())

    def closure():
        optimizer.zero_grad()
        loss = (layer(ad.tensor([0, 1, 1])) - 1).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(array(layer.weight)[:2], 1, atol=1e-5)


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam(maximize):
    """The formulas, row by row, in NumPy; rows that no gradient names are left alone, moments included."""
    layer, optimizer = run(
        lambda p: optim.SparseAdam(p, lr=0.1, betas=(0.8, 0.99), eps=1e-6, maximize=maximize), True
    )
    p, m, v = np.arange(12.0).reshape(6, 2), np.zeros((6, 2)), np.zeros((6, 2))
    for t, index in enumerate(INDICES, 1):
        g = np.zeros((6, 2))
        np.add.at(g, np.array(index, int), 2 * p[np.array(index, int)])
        g = -g if maximize else g
        for row in set(index):
            m[row] += 0.2 * (g[row] - m[row])
            v[row] += 0.01 * (g[row] ** 2 - v[row])
            p[row] -= 0.1 * np.sqrt(1 - 0.99**t) / (1 - 0.8**t) * m[row] / (np.sqrt(v[row]) + 1e-6)
    np.testing.assert_allclose(array(layer.weight), p, rtol=1e-10)
    state = optimizer.state_dict()
    assert state["state"][0]["step"] == 4
    np.testing.assert_allclose(array(state["state"][0]["exp_avg"]), m, rtol=1e-10)
    np.testing.assert_allclose(array(state["state"][0]["exp_avg_sq"]), v, rtol=1e-10)
    again = optim.SparseAdam(layer.parameters(), lr=0.1)
    again.load_state_dict(state)
    layer(ad.tensor([2])).sum().backward()
    again.step()
    assert again.state[layer.weight]["step"] == 5


def test_sparse_adam_refuses_dense_gradients():
    p = nn.Parameter(ad.ones(2, 2))
    p.grad = ad.ones(2, 2)
    with pytest.raises(
        RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"
    ):
        optim.SparseAdam([p]).step()


@pytest.mark.parametrize(
    "name", "Adam AdamW Adadelta Adafactor Adamax ASGD Muon NAdam RAdam RMSprop Rprop".split()
)
def test_the_others_refuse_sparse_gradients(name):
    words = {"AdamW": "Adam"}.get(name, name) + " does not support sparse gradients"
    layer = nn.Embedding(4, 2, sparse=True)
    other = nn.Parameter(ad.ones(2, 2))
    optimizer = getattr(optim, name)([other, *layer.parameters()])
    before = array(other).copy()
    other.grad = ad.ones(2, 2)
    layer(ad.tensor([1])).sum().backward()
    with pytest.raises(
        RuntimeError,
        match=words + (", please consider SparseAdam instead" if name in ("Adam", "AdamW") else ""),
    ):
        optimizer.step()
    np.testing.assert_array_equal(array(other), before, "nothing is updated")


@pytest.mark.parametrize(
    "make", [lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1), lambda p: optim.Adagrad(p, weight_decay=0.1)]
)
def test_decay_of_weights_is_refused(make):
    with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse gradients"):
        run(make, True)


def test_sgd_takes_both_kinds_at_once():
    layer, linear = nn.Embedding(4, 2, sparse=True), nn.Linear(2, 1)
    optimizer = optim.SGD([*layer.parameters(), *linear.parameters()], lr=0.1, momentum=0.5)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (linear(layer(ad.tensor([0, 1]))) - ad.tensor([[1.0], [-1.0]])).pow(2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_a_step_writes_only_the_rows_that_are_named():
    """A NaN elsewhere stays where it is, whatever the others do."""
    for make in (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.Adagrad(p),
        lambda p: optim.SparseAdam(p),
    ):
        layer = nn.Embedding(5, 2, sparse=True)
        with ad.no_grad():
            layer.weight[3] = float("nan")
        before = array(layer.weight).copy()
        optimizer = make(layer.parameters())
        layer(ad.tensor([1, 2])).sum().backward()
        optimizer.step()
        np.testing.assert_array_equal(array(layer.weight)[[0, 3, 4]], before[[0, 3, 4]])
        assert (array(layer.weight)[1:3] != before[1:3]).all()


def test_convolution_over_a_graph_as_programs_write_it():
    """Kipf and Welling's network (2017), written for torch, with an adjacency matrix from SciPy."""
    printed = torch_program(
        """
        import math, numpy as np, scipy.sparse as sp, torch, torch.nn as nn, torch.nn.functional as F
        from torch.nn.parameter import Parameter

        def sparse_mx_to_torch_sparse_tensor(sparse_mx):
            sparse_mx = sparse_mx.tocoo().astype(np.float32)
            indices = torch.from_numpy(np.vstack((sparse_mx.row, sparse_mx.col)).astype(np.int64))
            values = torch.from_numpy(sparse_mx.data)
            shape = torch.Size(sparse_mx.shape)
            return torch.sparse.FloatTensor(indices, values, shape)

        class GraphConvolution(nn.Module):
            def __init__(self, n, m):
                super().__init__()
                self.weight, self.bias = Parameter(torch.FloatTensor(n, m)), Parameter(torch.FloatTensor(m))
                stdv = 1. / math.sqrt(m)
                self.weight.data.uniform_(-stdv, stdv); self.bias.data.uniform_(-stdv, stdv)

            def forward(self, input, adj):
                support = torch.mm(input, self.weight)
                output = torch.spmm(adj, support)
                return output + self.bias

        class GCN(nn.Module):
            def __init__(self, nfeat, nhid, nclass, dropout):
                super().__init__()
                self.gc1, self.gc2, self.dropout = GraphConvolution(nfeat, nhid), GraphConvolution(nhid, nclass), dropout

            def forward(self, x, adj):
                x = F.relu(self.gc1(x, adj))
                x = F.dropout(x, self.dropout, training=self.training)
                return F.log_softmax(self.gc2(x, adj), dim=1)

        torch.manual_seed(0); rng = np.random.default_rng(0)
        n = 60
        labels = torch.arange(n) % 3
        same = (labels[:, None] == labels[None]).numpy()
        a = sp.coo_matrix((rng.random((n, n)) < np.where(same, .3, .02)).astype(float)); a = a.maximum(a.T) + sp.eye(n)
        adj = sparse_mx_to_torch_sparse_tensor(sp.diags(1 / np.asarray(a.sum(1)).ravel()) @ a)
        assert isinstance(adj, torch.sparse.FloatTensor) and not isinstance(adj, torch.sparse.DoubleTensor)
        x = torch.from_numpy(rng.standard_normal((n, 8)).astype(np.float32))
        model = GCN(8, 16, 3, .2)
        optimizer = torch.optim.Adam(model.parameters(), lr=.02, weight_decay=5e-4)
        for epoch in range(80):
            model.train(); optimizer.zero_grad()
            loss = F.nll_loss(model(x, adj)[:30], labels[:30])
            loss.backward(); optimizer.step()
        model.eval()
        print((model(x, adj)[30:].argmax(1) == labels[30:]).double().mean().item() > .9, adj.type(), torch.sparse.mm(adj, x).shape)
        """
    )
    assert printed.split("\n")[0] == "True torch.sparse.FloatTensor torch.Size([60, 8])"


def test_factors_of_a_matrix_by_few_entries():
    users, items = (nn.Embedding(n, 3, sparse=True) for n in (20, 15))
    with ad.no_grad():
        for layer in (users, items):
            layer.weight.mul_(0.3)
    true = array(normal(20, 2)) @ array(normal(2, 15))
    rng = np.random.default_rng(0)
    optimizer = optim.SparseAdam([*users.parameters(), *items.parameters()], lr=0.05)
    for _ in range(400):
        i, j = rng.integers(0, 20, 32), rng.integers(0, 15, 32)
        optimizer.zero_grad()
        u, v = users(ad.tensor(i.tolist())), items(ad.tensor(j.tolist()))
        loss = ((u * v).sum(1) - ad.tensor(true[i, j].tolist())).pow(2).mean()
        loss.backward()
        optimizer.step()
    assert np.mean((array(users.weight) @ array(items.weight).T - true) ** 2) < 0.3 * np.mean(true**2)
