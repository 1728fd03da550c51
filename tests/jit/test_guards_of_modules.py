"""Networks, parameters, optimisers and tensors that a function reads: a change of each is seen at the next call."""

import sys

import pytest
from laid_out import Box, Net, case, check

import adjoint as ad

x = ad.tensor([1.0, 2.0])


CASES = {}


@case(CASES, "training is False, was True")
def eval_of_a_module():
    net = Net()
    return net, (x,), net.eval


@case(CASES, "layers")
def a_layer_that_is_added():
    net = Net()
    return net, (x,), lambda: net.layers.append(ad.nn.Linear(3, 3))


@case(CASES, "another class")
def a_layer_that_is_replaced():
    net = Net()
    return net, (x,), lambda: setattr(net, "first", ad.nn.Sequential(ad.nn.Linear(2, 3)))


@case(CASES, "")
def a_hook_of_a_module():
    net = Net()
    return net, (x,), lambda: net.first.register_forward_hook(lambda *a: None)


@case(CASES, "")
def a_hook_of_all_modules():
    net = Net()
    handles = []

    def change():
        handles.append(ad.nn.module.register_module_forward_hook(lambda *a: None))

    change.undo = lambda: handles.pop().remove()
    return net, (x,), change


@case(CASES, "")
def a_method_of_the_library():
    net = ad.nn.Linear(2, 2)
    old = ad.nn.Linear.forward

    def change():
        ad.nn.Linear.forward = lambda self, x: x

    change.undo = lambda: setattr(ad.nn.Linear, "forward", old)
    return net, (x,), change


@case(CASES, "weight.grad is there, was None")
def a_gradient_that_is_there():
    net = Net()
    return net, (x,), lambda: net(x).sum().backward()


@case(CASES, "weight.grad is None, was a tensor")
def a_gradient_that_is_gone():
    net = Net()
    net(x).sum().backward()
    return net, (x,), net.zero_grad


@case(CASES, "weight does not require grad, did")
def a_parameter_that_is_frozen():
    net = Net()
    return net, (x,), lambda: net.first.weight.requires_grad_(False)


@case(CASES, "weight has a hook, had none")
def a_hook_of_a_parameter():
    net = Net()
    return net, (x,), lambda: net.first.weight.register_hook(lambda g: g)


@case(CASES, "weight has a hook, had none")
def a_hook_after_accumulation():
    net = Net()
    return net, (x,), lambda: net.first.weight.register_post_accumulate_grad_hook(lambda p: None)


@case(CASES, "mean has dtype float64, was float32")
def the_dtype_of_a_buffer():
    net = Net()
    return net, (x,), lambda: setattr(net, "mean", net.mean.double())


@case(CASES, "attributes")
def an_attribute_of_a_tensor():
    y = ad.ones(2)
    return (lambda x: x * hasattr(y, "k")), (x,), lambda: setattr(y, "k", 2)


@case(CASES, "k is 3, was 2")
def the_value_of_an_attribute_of_a_tensor():
    y = ad.ones(2)
    y.k = 2
    return (lambda x: x * y.k), (x,), lambda: setattr(y, "k", 3)


@case(CASES, "was a tensor")
def a_tensor_that_becomes_a_number():
    o = Box(k=ad.tensor(2.0))
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "k", 2.0)


@case(CASES, "lr")
def an_option_of_an_optimiser():
    w = ad.nn.Parameter(ad.ones(2))
    optimizer = ad.optim.Adam([w], lr=0.1)

    def f(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    f(x)
    return f, (x,), lambda: optimizer.param_groups[0].update(lr=0.2)


@case(CASES, "")
def the_state_of_an_optimiser_that_is_dropped():
    w = ad.nn.Parameter(ad.ones(2))
    optimizer = ad.optim.Adam([w], lr=0.1)

    def f(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    f(x)
    return f, (x,), optimizer.state.clear


@case(CASES, "relu")
def a_function_within_the_library():
    functional = sys.modules[ad.nn.ReLU.forward.__globals__["__name__"]]
    name = next(n for n in ad.nn.ReLU.forward.__code__.co_names if n in vars(functional))
    old = vars(functional)[name]

    def change():
        setattr(functional, name, lambda *a, **k: 3)

    change.undo = lambda: setattr(functional, name, old)
    CASES["a_function_within_the_library"] = (a_function_within_the_library, name)
    return ad.nn.ReLU(), (x,), change


@pytest.mark.parametrize("name", CASES)
def test_a_change_outside_is_seen(name):
    check(CASES, name)
