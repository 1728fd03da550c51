"""What all optimisers share: groups, state, saving and loading, hooks, closures, errors."""

import copy
import pickle

import pytest

import adjoint as ad
from adjoint import nn, optim

KINDS = [
    (optim.SGD, {"lr": 0.1, "momentum": 0.9}, {"momentum_buffer"}),
    (optim.Adam, {"amsgrad": True}, {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}),
    (optim.AdamW, {}, {"step", "exp_avg", "exp_avg_sq"}),
    (
        optim.RMSprop,
        {"momentum": 0.9, "centered": True},
        {"step", "square_avg", "momentum_buffer", "grad_avg"},
    ),
]


def parameters():
    return [nn.Parameter(ad.tensor([1.0, 2.0])), nn.Parameter(ad.tensor([[3.0]]))]


def push(params, value=1.0):
    for p in params:
        p.grad = ad.full(p.shape, value)


def values(params):
    return [p.tolist() for p in params]


@pytest.mark.parametrize("kind, options, keys", KINDS)
def test_round_trip_continues_in_step(kind, options, keys):
    a, b = parameters(), parameters()
    first = kind(a, **options)
    for value in (1.0, -2.0):
        push(a, value)
        first.step()
    state = pickle.loads(pickle.dumps(first.state_dict()))
    assert set(state) == {"state", "param_groups"} and set(state["state"]) == {0, 1}
    assert set(state["state"][0]) == keys and state["param_groups"][0]["params"] == [0, 1]
    for p, q in zip(a, b, strict=True):
        with ad.no_grad():
            q.copy_(p)
    second = kind(b, lr=0.7)
    second.load_state_dict(state)
    assert second.param_groups[0]["lr"] == first.param_groups[0]["lr"]
    assert second.param_groups[0]["params"][0] is b[0]
    for value in (0.5, 3.0):
        push(a, value)
        push(b, value)
        first.step()
        second.step()
    assert values(a) == values(b)


def test_loading_copies_and_takes_the_dtype():
    p = nn.Parameter(ad.zeros(2, dtype=ad.float64))
    optimizer = optim.Adam([p])
    given = {"step": 3, "exp_avg": ad.ones(2), "exp_avg_sq": ad.ones(2)}
    state = optimizer.state_dict()
    state["state"] = {0: given}
    optimizer.load_state_dict(state)
    entry = optimizer.state[p]
    assert entry["exp_avg"].dtype == ad.float64 and entry["step"].item() == 3.0
    entry["exp_avg"].fill_(9.0)
    assert given["exp_avg"].tolist() == [1.0, 1.0]


def test_loading_what_does_not_fit():
    a, b = parameters()
    one, two = optim.SGD([a, b]), optim.SGD([{"params": [a]}, {"params": [b]}])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        one.load_state_dict(two.state_dict())
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optim.SGD([a]).load_state_dict(one.state_dict())


def test_groups_override_defaults():
    a, b = parameters()
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    push([a, b])
    optimizer.step()
    assert a.tolist() == pytest.approx([0.9, 1.9]) and b.tolist() == [[2.5]]
    assert list(optimizer.param_groups[0]) == [
        "params",
        "lr",
        "momentum",
        "dampening",
        "weight_decay",
        "nesterov",
        "maximize",
        "foreach",
        "differentiable",
        "fused",
    ]


def test_changing_an_option_takes_effect():
    a, _ = parameters()
    optimizer = optim.SGD([a], lr=0.1)
    optimizer.param_groups[0]["lr"] = ad.tensor(1.0)
    push([a])
    optimizer.step()
    assert a.tolist() == [0.0, 1.0]


def test_named_parameters():
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][0] is model.weight
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": parameters()})


def test_parameters_without_gradient_are_passed_over():
    a, b = parameters()
    optimizer = optim.Adam([a, b], lr=0.1)
    optimizer.step()
    push([a])
    optimizer.step()
    assert b.tolist() == [[3.0]] and set(optimizer.state) == {a}
    assert optimizer.state[a]["step"].item() == 1.0


def test_momentum_that_starts_later():
    """A parameter whose first gradient comes later starts its buffer with that gradient."""
    a, b = parameters()
    optimizer = optim.SGD([a, b], lr=1.0, momentum=0.5, dampening=0.5)
    push([a], 4.0)
    optimizer.step()
    push([a, b], 2.0)
    optimizer.step()
    assert optimizer.state[a]["momentum_buffer"].tolist() == [3.0, 3.0]
    assert optimizer.state[b]["momentum_buffer"].tolist() == [[2.0]]
    assert a.tolist() == [-6.0, -5.0] and b.tolist() == [[1.0]]


def test_zero_grad():
    a, b = parameters()
    optimizer = optim.SGD([a, b])
    push([a])
    grad = a.grad
    optimizer.zero_grad(set_to_none=False)
    assert a.grad is grad and grad.tolist() == [0.0, 0.0] and b.grad is None
    optimizer.zero_grad()
    assert a.grad is None


def test_closure_runs_with_gradients_enabled():
    a, _ = parameters()
    optimizer = optim.SGD([a], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    with ad.no_grad():
        assert optimizer.step(closure).item() == 5.0
    assert a.tolist() == pytest.approx([0.8, 1.6])
    optimizer.zero_grad()
    assert optimizer.step() is None


def test_step_hooks():
    a, _ = parameters()
    optimizer, seen = optim.SGD([a], lr=1.0), []
    pre = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("pre", a.tolist())))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("post", a.tolist())))
    push([a])
    optimizer.step()
    assert seen == [("pre", [1.0, 2.0]), ("post", [0.0, 1.0])]
    pre.remove()
    optimizer.step()
    assert [what for what, _ in seen] == ["pre", "post", "post"]
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((args[0], lambda: "mine"), {}))
    assert optimizer.step() == "mine"
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append((args[0] is o, len(args), kwargs)))
    optimizer.step()
    assert seen[-1] == (True, 2, {})
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_step_hooks_run_once_around_inherited_steps():
    class Louder(optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    optimizer, seen = Louder(parameters()), []
    optimizer.register_step_post_hook(lambda *x: seen.append(1))
    optimizer.step()
    assert seen == [1]


def test_state_dict_hooks():
    optimizer, order = optim.SGD(parameters(), lr=0.1), []
    optimizer.register_state_dict_pre_hook(lambda o: order.append("before saving"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "note": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: {k: state[k] for k in state if k != "note"})
    optimizer.register_load_state_dict_post_hook(lambda o: order.append("loaded"))
    state = optimizer.state_dict()
    assert state["note"] == 1
    optimizer.load_state_dict(state)
    assert order == ["before saving", "loaded"]


def test_an_optimizer_of_ones_own():
    class Plain(optim.Optimizer):
        def __init__(self, params, rate):
            super().__init__(params, {"rate": rate})

        def step(self, closure=None):
            with ad.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.sub_(p.grad * group["rate"])
                        self.state[p]["count"] = self.state[p].get("count", 0) + 1

    a, b = parameters()
    optimizer = Plain([a, b], rate=0.5)
    push([a, b])
    optimizer.step()
    assert a.tolist() == [0.5, 1.5]
    assert optimizer.state_dict()["state"] == {0: {"count": 1}, 1: {"count": 1}}
    with pytest.raises(NotImplementedError, match="does not define step"):
        optim.Optimizer([a], {}).step()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies(duplicate):
    params = parameters()
    optimizer = optim.Adam(params, lr=0.1)
    push(params)
    optimizer.step()
    twin = duplicate(optimizer)
    mine = twin.param_groups[0]["params"]
    assert mine[0] is not params[0] and set(twin.state) == set(mine)
    push(mine)
    twin.step()
    assert mine[0].tolist() != params[0].tolist()


def test_repr():
    assert repr(optim.SGD(parameters(), lr=0.1)) == (
        "SGD (\n"
        "Parameter Group 0\n"
        "    dampening: 0\n"
        "    differentiable: False\n"
        "    foreach: None\n"
        "    fused: None\n"
        "    lr: 0.1\n"
        "    maximize: False\n"
        "    momentum: 0\n"
        "    nesterov: False\n"
        "    weight_decay: 0\n"
        ")"
    )


def test_errors():
    a, b = parameters()
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        optim.SGD(a)
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([])
    with pytest.raises(TypeError, match="can only optimize Tensors, but one of the params is int"):
        optim.SGD([a, 3])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.SGD([a * 2])
    with pytest.raises(ValueError, match="appear in more than one parameter group"):
        optim.SGD([{"params": [a]}, {"params": [a, b]}])
    with pytest.raises(TypeError, match="ordered collections"):
        optim.SGD([{"params": {a, b}}])
    with pytest.raises(TypeError, match="param_group must be a dict"):
        optim.SGD([a]).add_param_group([b])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([a, a])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda p: optim.SGD(p, lr=-1), "Invalid learning rate: -1"),
        (lambda p: optim.SGD(p, lr=float("nan")), "Invalid learning rate: nan"),
        (lambda p: optim.SGD(p, momentum=-1), "Invalid momentum value: -1"),
        (lambda p: optim.SGD(p, weight_decay=-1), "Invalid weight_decay value: -1"),
        (lambda p: optim.SGD(p, nesterov=True), "Nesterov momentum requires a momentum and zero dampening"),
        (lambda p: optim.Adam(p, betas=(1.0, 0.9)), "Invalid beta parameter at index 0: 1.0"),
        (lambda p: optim.AdamW(p, betas=(0.9, -0.1)), "Invalid beta parameter at index 1: -0.1"),
        (lambda p: optim.Adam(p, eps=-1), "Invalid epsilon value: -1"),
        (lambda p: optim.RMSprop(p, alpha=-1), "Invalid alpha value: -1"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make(parameters())


def test_required_options():
    from adjoint.optim.optimizer import required

    class Strict(optim.Optimizer):
        pass

    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Strict([{"params": parameters()}], {"lr": required})
    Strict([{"params": parameters(), "lr": 1}], {"lr": required})


def test_names_are_given_for_all_parameters_or_none():
    a, b = ad.nn.Parameter(ad.zeros(1)), ad.nn.Parameter(ad.zeros(1))
    with pytest.raises(ValueError, match="Some param names are missing"):
        ad.optim.SGD([("a", a), b])
    with pytest.raises(ValueError, match="cannot add param group with names to the optimizer"):
        ad.optim.SGD([{"params": [a]}, {"params": [("b", b)]}])


def test_betas_that_are_tensors():
    results = []
    for betas in ((0.5, 0.75), (ad.tensor(0.5), ad.tensor(0.75))):
        p = ad.nn.Parameter(ad.tensor([1.0, -2.0]))
        optimizer = ad.optim.Adam([p], lr=0.1, betas=betas)
        for _ in range(3):
            optimizer.zero_grad()
            (p**3).sum().backward()
            optimizer.step()
        results.append(p.tolist())
    assert results[0] == results[1]
    p = ad.nn.Parameter(ad.zeros(1))
    for cls in (ad.optim.Adam, ad.optim.AdamW):
        for betas in ((0.9, ad.tensor(0.99)), (0, 0.9)):
            with pytest.raises(ValueError, match="betas must be either both floats or both Tensors"):
                cls([p], betas=betas)
        with pytest.raises(
            ValueError, match=r"betas\[0\] as a Tensor is not supported for capturable=False and foreach=True"
        ):
            cls([p], betas=(ad.tensor(0.9), ad.tensor(0.9)), foreach=True)
        with pytest.raises(ValueError, match=r"Tensor betas\[1\] must be 1-element"):
            cls([p], betas=(ad.tensor(0.9), ad.tensor([0.9, 0.9])))


def test_rates_of_asgd_are_float32_after_loading_too():
    p = ad.nn.Parameter(ad.tensor([1.0, 2.0], dtype=ad.float64))
    steps = []
    for reload in (False, True):
        with ad.no_grad():
            p.copy_(ad.tensor([1.0, 2.0]))
        optimizer = ad.optim.ASGD([p], lr=0.1, lambd=0.1)
        for i in range(4):
            if reload and i == 2:
                state = optimizer.state_dict()
                optimizer = ad.optim.ASGD([p], lr=0.1, lambd=0.1)
                optimizer.load_state_dict(state)
            p.grad = p.detach().clone()
            optimizer.step()
        steps.append(p.tolist())
    assert steps[0] == steps[1]


def test_hooks_of_all_steps():
    from adjoint.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    p = ad.nn.Parameter(ad.zeros(1))
    p.grad = ad.ones(1)
    plain, hooked, seen = ad.optim.SGD([p], lr=0.1), ad.optim.Adam([p]), []
    hooked.register_step_pre_hook(lambda o, a, k: seen.append("own before"))
    hooked.register_step_post_hook(lambda o, a, k: seen.append("own after"))
    with (
        register_optimizer_step_pre_hook(lambda o, a, k: seen.append("all before")),
        register_optimizer_step_post_hook(lambda o, a, k: seen.append("all after")),
    ):
        hooked.step()
        assert seen == ["all before", "own before", "own after", "all after"]
        seen.clear()
        plain.step()
        assert seen == ["all before", "all after"]
    seen.clear()
    plain.step()
    assert seen == [] and ad.optim.Optimizer._hooks is None
