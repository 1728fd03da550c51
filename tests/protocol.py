"""Types and modes that take part in `__torch_function__`, for the tests of `adjoint.overrides`."""

import adjoint as ad
from adjoint.overrides import TorchFunctionMode


class Asked:
    """No tensor: gives what it was asked."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types, args, kwargs


class Declines:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Log(TorchFunctionMode):
    def __init__(self):
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def first(result):
    return result[0]


def public(row):
    return row["name"][0] != "_" and not row["overloads"]


def tensors_in(result):
    if isinstance(result, ad.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for element in result:
            yield from tensors_in(element)


class Whole(ad.Tensor):
    """A tensor that says what it is asked."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return Asked.__torch_function__(func, types, args, kwargs)
