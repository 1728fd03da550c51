"""Programs that are refused: one function for each, which raises; their rows are in test_phrases.py.

Every tensor is of shape [2, 3] where nothing else is said, so that messages can be checked for it.
"""

from helpers import leaf

import adjoint as ad
from adjoint.autograd import Function, grad, graph
from adjoint.autograd.function import once_differentiable


def matrix():
    return ad.ones(2, 3, requires_grad=True)


def freed():
    y = (matrix() ** 2).sum()
    y.backward()
    y.backward()


def freed_attribute():
    y = matrix().sin()
    y.sum().backward()
    y.grad_fn._saved_self  # noqa: B018


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


def freed_in_a_function():
    y = Square.apply(matrix()).sum()
    y.backward()
    y.backward()


def mutated_input():
    x, c = matrix(), ad.ones(2, 3)
    y = (x * c).sum()
    c.add_(1)
    y.backward()


def mutated_result():
    y = matrix().exp()
    y.mul_(2)
    y.sum().backward()


def mutated_in_a_function():
    x = matrix() * 1
    y = Square.apply(x).sum()
    x.zero_()
    y.backward()


def mutated_with_lines():
    before = graph.set_record_lines(True)
    try:
        mutated_input()
    finally:
        graph.set_record_lines(before)


def multiple_views_base_written():
    y = matrix() * 1
    parts = y.unbind()
    y.mul_(2)
    parts[1].sum()


def no_grad_view(make):
    y = matrix() * 1
    with ad.no_grad():
        v = make(y)
    return y, v


def no_grad_view_base_written():
    y, v = no_grad_view(lambda y: y[0])
    y.mul_(2)
    v.sum()


def inference_view():
    y = matrix() * 1
    with ad.inference_mode():
        v = y[0]
    v.add_(1)


class FirstRow(Function):
    @staticmethod
    def forward(ctx, x):
        return x[0]

    @staticmethod
    def backward(ctx, g):
        return ad.stack([g, g * 0])


class Itself(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def inference_tensor():
    with ad.inference_mode():
        return ad.ones(2, 3)


def returns(result):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return result

    Wrong.apply(matrix(), 3).sum().backward()


class Forgets(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(y)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g, None


class Once(Square):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


def once_twice():
    x, w = matrix(), matrix()
    (g,) = grad((Once.apply(x) * w).sum(), x, create_graph=True)
    g.sum().backward()


def hook_returns(change, of_leaf=False):
    x = matrix()
    y = x * 2
    (x if of_leaf else y).register_hook(change)
    y.sum().backward()


def halve(g):
    return g[:1]


def nan_found():
    with ad.autograd.detect_anomaly():
        y = (leaf(0.0, 4.0).sqrt() * 0).sum()  # the root
        y.backward()


class SavesSecond(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None
