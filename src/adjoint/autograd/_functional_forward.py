"""Jacobians column by column in forward mode: what `functional.jacobian` does with ``strategy="forward-mode"``.

One evaluation of the function per element of its inputs gives all derivatives by that element. That is the cheaper way round
where a function has fewer inputs than outputs. Start reading at
`jacobian_by_columns`.
"""

from __future__ import annotations

from adjoint.autograd import enable_grad, forward_ad


def is_forward(strategy):
    """Whether a strategy, which must be one of two, is that of this file."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than '
            'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    return strategy == "forward-mode"


def jacobian_by_columns(func, several, inputs, outputs_of, create_graph):
    """Like `functional.jacobian`. `several` inputs make a tuple; `outputs_of` checks outputs, as `functional._tensors` does."""
    with enable_grad():
        several_outputs, blocks = _columns(func, inputs, outputs_of, create_graph)
    rows = tuple(block if several else block[0] for block in blocks)
    return rows if several_outputs else rows[0]


def _columns(func, inputs, outputs_of, create_graph):
    """Whether `func` returns a tuple, and for each output a tuple with one tensor per input."""
    from adjoint import zeros_like

    several, blocks = False, []
    for j, x in enumerate(inputs):
        columns: list[list] = []
        # Of an input without elements the shapes of the outputs are wanted all the same.
        for k in range(max(1, x.numel())):
            tangent = x.new_zeros(x.numel())
            tangent[k : k + 1] = 1
            with forward_ad.dual_level():
                dual = [
                    forward_ad.make_dual(a, tangent.reshape(a.shape)) if i == j else a
                    for i, a in enumerate(inputs)
                ]
                several, ys = outputs_of(func(*dual))
                for i, y in enumerate(ys):
                    primal, t = forward_ad.unpack_dual(y)
                    if i == len(columns):
                        columns.append([])
                    t = zeros_like(primal.detach()) if t is None else t
                    columns[i].append(t if create_graph else t.detach())
        blocks.append([_joined(column, x) for column in columns])
    return several, [tuple(block[i] for block in blocks) for i in range(len(blocks[0]))]


def _joined(column, x):
    from adjoint import stack

    shape = column[0].shape
    return (stack(column, -1) if x.numel() else column[0].new_zeros((*shape, 0))).reshape((*shape, *x.shape))
