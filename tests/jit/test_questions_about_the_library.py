"""What a function asks the library for and no guard compares: the graph of a tensor that was there, what a tensor is a view of,
threads, memory, anomalies, how tensors are printed. A trace that kept the answer would show it again when it is another.

Each program lets a question be answered the same way often enough for a trace, and then otherwise. See `twice.same`.
"""

import pytest
import twice
from twice import numbers

import adjoint as ad

TRAPS, trap = twice.table()


@pytest.mark.parametrize("program, replays", TRAPS)
def test_program(program, replays):
    twice.same(program, replays)


# --- the graph of a tensor that existed before ---------------------------------------------------------------------------------


def made_otherwise(f):
    """A program that calls `f` with products, and then with sines."""

    def program(jit, see):
        g = jit(f)
        for k in range(10):
            x = numbers(3, seed=k, requires_grad=True)
            see(g(x * 2 if k < 7 else x.sin()))

    return program


GRAPH = {
    "name": lambda x: x * (2 if x.grad_fn.name() == "MulBackward0" else 3),
    "next": lambda x: x * len(x.grad_fn.next_functions),
    "class": lambda x: x * (2 if "Mul" in type(x.grad_fn).__name__ else 3),
    "text": lambda x: x * (2 if "Mul" in repr(x.grad_fn) else 3),
    "saved": lambda x: x * (2 if hasattr(x.grad_fn, "_saved_self") else 3),
}


@pytest.mark.parametrize("what", GRAPH)
def test_what_the_graph_of_an_argument_is(what):
    twice.same(made_otherwise(GRAPH[what]), None)


@trap(replays=False)
def which_result_an_argument_is(jit, see):
    f = jit(lambda x: x * (x.output_nr + 2))
    for k in range(10):
        parts = numbers(2, 3, seed=k, requires_grad=True).unbind(0)
        see(f(parts[0 if k < 7 else 1]))


@trap(replays=False)
def whether_two_arguments_were_made_by_one_call(jit, see):
    f = jit(lambda x, y: x * y * (2 if x.grad_fn is y.grad_fn else 3))
    for k in range(10):
        one, other = (numbers(2, 3, seed=n, requires_grad=True).unbind(0) for n in (k, k + 1))
        see(f(one[0], one[1] if k < 7 else other[1]))


@trap(replays=False)
def a_node_that_a_variable_holds(jit, see):
    state = {"node": None}
    f = jit(lambda x: x * len(state["node"].name()))
    for k in range(10):
        x = numbers(3, seed=k, requires_grad=True)
        state["node"] = (x * 2 if k < 7 else x.expand(3)).grad_fn
        see(f(x.detach()))


@trap()
def the_graph_that_the_function_makes(jit, see):
    """What it does is compared, and with it what its graph is."""

    def f(x):
        y = x * 2
        return y * (2 if y.grad_fn is None else len(y.grad_fn.name()) + y.output_nr)

    f = jit(f)
    for k in range(14):
        see(f(numbers(3, seed=k, requires_grad=k % 2 == 0)))


@trap(replays=False)
def what_an_argument_is_a_view_of(jit, see):
    f = jit(lambda x: x * x._base.shape[0])
    for k in range(10):
        see(f(numbers(4 if k < 7 else 8, seed=k)[:3]))


# --- the library's own state -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def state_of_the_library():
    threads = ad.get_num_threads()
    yield
    ad.set_num_threads(threads)
    ad.set_printoptions(profile="default")


@trap(replays=False)
def the_number_of_threads(jit, see):
    f = jit(lambda x: x * ad.get_num_threads())
    for k in range(10):
        ad.set_num_threads(1 if k < 7 else 2)
        see(f(numbers(3)))


@trap()
def the_number_of_threads_is_set(jit, see):
    f, g = jit(lambda x: (x * 2, ad.set_num_threads(2))[0]), jit(lambda x: x * 3)
    for _ in range(7):
        ad.set_num_threads(1)
        see(f(numbers(3)), g(numbers(3)), ad.get_num_threads())


@trap(replays=False)
def the_memory_that_is_used(jit, see):
    f = jit(lambda x: x * (2 if ad.memory_statistics()["allocated_bytes"] < (1 << 25) else 3))
    for k in range(10):
        held = ad.zeros(1 << 24) if k > 6 else None
        see(f(numbers(3)))
    del held


@trap(replays=False)
def how_tensors_are_printed(jit, see):
    f = jit(lambda x: (x * 2, repr(ad.tensor([1.23456, 2.0]))))
    for k in range(10):
        ad.set_printoptions(precision=4 if k < 7 else 2)
        see(f(numbers(3)))


@trap()
def how_tensors_are_printed_is_set(jit, see):
    f, g = jit(lambda x: (x * 2, ad.set_printoptions(precision=2))[0]), jit(lambda x: x * 3)
    for _ in range(7):
        ad.set_printoptions(precision=4)
        see(f(numbers(3)), g(numbers(3)), repr(ad.tensor([1.23456, 2.0])))


@trap()
def what_was_asked_for_in_inference_mode(jit, see):
    """Nothing is recorded there whatever it is, but a program may ask."""
    f = jit(lambda x: x * (2 if ad.is_grad_enabled() else 3))
    for k in range(24):
        with ad.inference_mode(), ad.set_grad_enabled(k % 8 < 5):
            see(f(numbers(3)))


# --- anomalies --------------------------------------------------------------------------------------------------------------------


def failing(see, call):
    """How a call fails, without the lines that lead there."""
    try:
        see(call())
    except RuntimeError as error:
        see(str(error).partition(" The forward call")[0])


@trap()
def anomalies_are_looked_for(jit, see):
    """Then a function is simply called, and its nodes are its own."""
    f = jit(lambda x: (x.sqrt() * 0).sum())
    for k in range(10):
        x = ad.zeros(3, requires_grad=True)
        with ad.autograd.set_detect_anomaly(k % 8 > 4):
            y = f(x)
            failing(see, y.backward)
        see(x.grad, type(y.grad_fn).__name__ if k % 8 > 4 else "")


@trap()
def anomalies_of_a_pass_inside(jit, see):
    def f(x):
        w = x.detach().requires_grad_()
        (w.sqrt() * 0).sum().backward()
        return w.grad

    f = jit(f)
    for k in range(14):
        with ad.autograd.set_detect_anomaly(k % 7 > 4):
            failing(see, lambda: f(ad.zeros(3)))


@trap()
def anomalies_are_switched_on_inside(jit, see):
    def f(x):
        w = x.detach().requires_grad_()
        with ad.autograd.set_detect_anomaly(True):
            (w.sqrt() * 0).sum().backward()
        return w.grad

    f, g = jit(f), jit(lambda x: x * 2)
    for k in range(10):
        x = ad.zeros(3) if k > 6 else ad.ones(3)
        failing(see, lambda: f(x))  # noqa: B023
        see(g(x))


@trap(replays=False)
def whether_anomalies_are_checked_for(jit, see):
    f = jit(lambda x: x * (2 if ad.is_anomaly_check_nan_enabled() else 3))
    for k in range(10):
        with ad.autograd.set_detect_anomaly(False, check_nan=k < 7):
            see(f(numbers(3)))
