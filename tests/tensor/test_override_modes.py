"""Modes of `__torch_function__`: what they see, in which order, in threads, generators and after errors.

What objects are asked is in test_overrides.py. Start reading at `test_a_mode_sees_every_call`.
"""

import gc
import threading
import weakref

import pytest
from protocol import Asked, Declines, Log, first

import adjoint as ad
from adjoint import overrides
from adjoint.overrides import TorchFunctionMode

F = ad.nn.functional


def test_a_mode_sees_every_call():
    x, p = ad.ones(2, 2), ad.nn.Parameter(ad.ones(2, 2))
    with Log() as log:
        (
            x + x,
            x @ p,
            ad.zeros(2),
            ad.tensor([1.0]),
            x.shape,
            x[0],
            x.T,
            x.dim(),
            F.linear(x, p),
            ad.hstack([x, x]),
            -x,
            len(x),
            x < 1,
        )
        x.view(4), ad.is_tensor(x), ad.rand(1), x.add_(1), ad.linalg.norm(x)
        x[0] = 3
    names = [overrides.resolve_name(f).removeprefix("adjoint.") for f in log.calls]
    assert (
        names
        == (
            "add matmul zeros tensor Tensor.shape.__get__ Tensor.__getitem__ Tensor.T.__get__ Tensor.dim nn.functional.linear hstack neg "
            "Tensor.__len__ lt Tensor.view is_tensor rand Tensor.add_ linalg.norm Tensor.__setitem__"
        ).split()
    )
    x + x
    assert len(log.calls) == len(names)


def test_modes_nest():
    order = []

    class Named(TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    outer, inner = Named("outer"), Named("inner")
    with outer, inner:
        assert overrides._get_current_function_mode() is inner
        assert (
            overrides._get_current_function_mode_stack() == [outer, inner]
            and overrides._len_torch_function_stack() == 2
        )
        ad.ones(1)
        assert order == ["inner", "outer"]
        with overrides._pop_mode_temporarily() as popped:
            assert popped is inner
            ad.ones(1)
        assert order == ["inner", "outer", "outer"]
        with inner:
            order.clear()
            ad.ones(1)
            assert order == ["inner", "inner", "outer"]
    assert (
        overrides._get_current_function_mode() is None and overrides._get_current_function_mode_stack() == []
    )
    with pytest.raises(RuntimeError, match="not open in this thread"):
        outer.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="no mode"):
        overrides._pop_mode()


def test_modes_are_asked_before_types():
    order = []

    class First(TorchFunctionMode):
        answer = NotImplemented

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(types)
            return self.answer

    with First() as mode:
        assert first(ad.sin(Asked())) is ad.sin and order == [(Asked,)]
        with pytest.raises(
            TypeError, match="no implementation found for 'adjoint.sin' .* nor in mode <.*First"
        ):
            ad.sin(Declines())
        with pytest.raises(TypeError, match="unsupported operand"):
            ad.ones.__wrapped__(2) + 1
        mode.answer = "mine"
        assert ad.sin(Asked()) == "mine" == ad.ones(2) == ad.nn.init.zeros_(3)


def test_a_mode_that_calls_itself():
    depth = []

    class Deep(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            depth.append(func)
            with self:
                return overrides.redispatch_function(func, types, args, kwargs or {})

    x = ad.ones(2, 2)
    with Deep():
        ad.hstack([x, x])
    assert depth[0] is ad.hstack and ad.cat in depth


def test_errors_leave_modes_as_they_were():
    class Fails(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    with pytest.raises(KeyError), Log() as log, Fails():
        try:
            ad.ones(1)
        finally:
            assert overrides._len_torch_function_stack() == 2
    assert overrides._len_torch_function_stack() == 0 and log.calls == [] and ad.ones(1) == 1
    with pytest.raises(NotImplementedError, match="must define __torch_function__"), TorchFunctionMode():
        ad.ones(1)


def test_modes_in_generators():
    def steps():
        with Log() as log:
            yield log
            ad.ones(1)
            yield log

    one, two = steps(), steps()
    first_log, second_log = next(one), next(two)
    next(one)
    one.close()  # the outer one is left first
    assert overrides._get_current_function_mode() is second_log
    ad.zeros(1)
    two.close()
    assert (
        overrides._len_torch_function_stack() == 0
        and second_log.calls == [ad.ones, ad.zeros]
        and first_log.calls == [ad.ones]
    )


def test_modes_belong_to_a_thread():
    seen = []
    with Log() as log:
        thread = threading.Thread(
            target=lambda: seen.append((ad.ones(1) + 1, overrides._len_torch_function_stack()))
        )
        thread.start()
        thread.join()
    assert log.calls == [] and seen[0][1] == 0


def test_other_kinds_of_modes():
    with overrides.BaseTorchFunctionMode(), overrides.enable_reentrant_dispatch():
        assert (ad.ones(1) + 1).tolist() == [2]
    with pytest.warns(UserWarning, match="no longer necessary"):
        mode = Log.push()
    with mode:
        ad.ones(1)
    assert mode.calls == [ad.ones]


def test_modes_and_gradients():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    with Log() as log:
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4] and log.calls == [ad.mul, ad.sum, ad.Tensor.backward]


def test_nothing_is_kept():
    class Kept(Log):
        pass

    mode = Kept()
    gone = weakref.ref(mode)
    with mode:
        ad.ones(1)
    del mode
    gc.collect()
    assert gone() is None
