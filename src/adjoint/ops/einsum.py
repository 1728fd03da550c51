"""Einstein summation: operands are brought into batched matrix products, two at a time. Start reading at `einsum`.

The convention is NumPy's: one letter per dimension, repeated letters take a diagonal, letters that are not in the output
are summed, an ellipsis stands for dimensions that broadcast. With more than two operands the order of contraction is
left to right, or opt_einsum's where that package is installed.
"""

from __future__ import annotations

import operator

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import composition
from adjoint._types import Any

_ELLIPSIS = "."


def _refuse(equation, reason):
    raise RuntimeError(f"einsum(): {reason}, in the equation {equation!r}")


def _letters(equation, start, end, operand):
    """One operand's subscripts, or the output's, the ellipsis as a single character."""
    letters = []
    at = start
    while at < end:
        letter = equation[at]
        if letter == ".":
            if _ELLIPSIS in letters:
                _refuse(
                    equation,
                    f"found '.' for {operand} for which an ellipsis was already found"
                    if operand != "output"
                    else "found '.' for output but an ellipsis (...) was already found",
                )
            if equation[at : min(at + 3, end)] != "...":
                _refuse(
                    equation,
                    f"found '.' for {operand} that is not part of any ellipsis{' (...)' * (operand == 'output')}",
                )
            at += 2
        elif letter == " ":
            at += 1
            continue
        elif not (letter.isalpha() and letter.isascii()):
            _refuse(
                equation,
                f"invalid subscript given at index {at} in the equation string, subscripts must be in [a-zA-Z]",
            )
        letters.append(letter)
        at += 1
    return "".join(letters)


def _expand(subscript, ndim, names, equation, position):
    """Subscripts as a list of labels: letters, and numbers for the ellipsis' dimensions, counted from the right."""
    named = len(subscript) - subscript.count(_ELLIPSIS)
    if (_ELLIPSIS not in subscript and named != ndim) or named > ndim:
        _refuse(
            equation,
            f"the number of subscripts in the equation ({named}) "
            + (
                f"is more than the number of dimensions ({ndim}) for operand {position}"
                if _ELLIPSIS in subscript
                else f"does not match the number of dimensions ({ndim}) for operand {position} and no ellipsis was given"
            ),
        )
    rest = ndim - named
    labels: list[Any] = []
    for letter in subscript:
        if letter == _ELLIPSIS:
            labels.extend(range(-rest, 0))
            names.update(range(-rest, 0))
        else:
            labels.append(letter)
    return labels


def _take_diagonals(tensor, labels, position):
    """Repeated labels of one operand become one dimension."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {position} but the sizes don't match, "
                    f"{tensor.shape[second]} != {tensor.shape[first]}"
                )
            tensor = _C.diagonal(tensor, 0, first, second)
            labels = [x for i, x in enumerate(labels) if i not in (first, second)] + [label]
    return tensor, labels


def _sum_out(tensor, labels, keep):
    dims = [i for i, label in enumerate(labels) if label not in keep]
    if dims:
        tensor = _C.sum(tensor, dims)
        labels = [label for label in labels if label in keep]
    return tensor, labels


def _arrange(tensor, labels, order):
    """Dimensions in the given order; labels that the operand lacks become dimensions of size 1."""
    present = [label for label in order if label in labels]
    tensor = _C.permute(tensor, [labels.index(label) for label in present])
    for i, label in enumerate(order):
        if label not in labels:
            tensor = _C.unsqueeze(tensor, i)
    return tensor


def _contract(a, a_labels, b, b_labels, keep, rank):
    """The product of two operands, summed over what neither `keep` nor the other needs."""
    a, a_labels = _sum_out(a, a_labels, set(keep) | set(b_labels))
    b, b_labels = _sum_out(b, b_labels, set(keep) | set(a_labels))
    sizes = dict(zip(b_labels, b.shape, strict=True))
    for label, size in zip(a_labels, a.shape, strict=True):
        sizes[label] = max(size, sizes.get(label, 1)) if 0 not in (size, sizes.get(label, 1)) else 0
    # Dimensions come in the order of the output, so that a product which is the output lies there row by row.
    both = [label for label in rank if label in a_labels and label in b_labels]
    summed = [label for label in both if label not in keep]
    batch = [label for label in both if label in keep]
    left = [label for label in rank if label in a_labels and label not in both]
    right = [label for label in rank if label in b_labels and label not in both]
    first = next((label for label in rank if label in left or label in right), None)
    if first in right:
        a, a_labels, left, b, b_labels, right = b, b_labels, right, a, a_labels, left
    if not summed:
        order = batch + left + right
        return _arrange(a, a_labels, order) * _arrange(b, b_labels, order), order

    def whole(tensor, labels, groups):
        order = [label for group in groups for label in group]
        tensor = _arrange(tensor, labels, order)
        tensor = _C.expand(tensor, [sizes[label] for label in order])
        return _C.reshape(tensor, [_product(sizes, group) for group in groups])

    product = _C.bmm(whole(a, a_labels, (batch, left, summed)), whole(b, b_labels, (batch, summed, right)))
    order = batch + left + right
    return _C.reshape(product, [sizes[label] for label in order]), order


def _product(sizes, labels):
    n = 1
    for label in labels:
        n *= sizes[label]
    return n


def _path(subscripts, output, operands):
    """Pairs of positions to contract: opt_einsum's choice where it is installed, else from the left."""
    if len(operands) > 2:
        try:
            from opt_einsum import contract_path
        except ImportError:
            pass
        else:
            equation = ",".join(subscripts) + "->" + output
            return contract_path(equation, *(tuple(o.shape) for o in operands), shapes=True)[0]
    return [(0, 1)] * (len(operands) - 1)


def _of_lists(args):
    """The equation that operands with lists of numbers for subscripts spell, and the operands."""
    count = len(args) // 2
    operands, lists = args[0 : 2 * count : 2], args[1 : 2 * count : 2]
    if len(args) % 2:
        lists = (*lists, args[-1])
    for subscripts in lists:
        if not isinstance(subscripts, (list, tuple)):
            raise TypeError(
                "einsum(): expected each operand to be followed by a list of numbers for its subscripts, but got "
                f"{type(subscripts).__name__}"
            )
    texts = ["".join(map(_letter_of, subscripts)) for subscripts in lists]
    equation = ",".join(texts[:count]) + ("->" + texts[-1] if len(args) % 2 else "")
    return equation, operands


def _letter_of(subscript):
    if subscript is ...:
        return "..."
    number = operator.index(subscript)
    if not 0 <= number < 52:
        raise ValueError(f"einsum(): subscripts are numbers in [0, 52), but got {number}")
    # As text orders letters: capitals first.
    return chr(ord("A") + number if number < 26 else ord("a") + number - 26)


_plans: dict[tuple, tuple | None] = {}


def _planned(*signature):
    """`_plan` of a signature, made once (functools would be half of what this module costs to import)."""
    try:
        return _plans[signature]
    except KeyError:
        if len(_plans) > 1000:
            _plans.clear()
        plan = _plans[signature] = _plan(*signature)
        return plan


def _plan(equation, first, second):
    """How two operands of these shapes become one product of matrices, or None where it takes more than that.

    That is where each letter stands once in an operand, none is summed over in one alone, and no size is broadcast.
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    operands = inputs.split(",")
    if len(operands) != 2 or not (inputs.replace(",", "") + output).isalpha() or not equation.isascii():
        return None
    a, b = operands
    if not arrow:
        output = "".join(sorted(set(a) ^ set(b)))
    sizes = dict(zip(a + b, (*first, *second)))
    unique = all(len(set(labels)) == len(labels) for labels in (a, b, output))
    if not unique or len(a) != len(first) or len(b) != len(second) or not set(output) <= set(a + b):
        return None
    if any(sizes[label] != size for label, size in zip(a, first)) or set(a) ^ set(b) != set(output) - (
        set(a) & set(b)
    ):
        return None
    batch = [label for label in output if label in a and label in b]
    summed = [label for label in a if label in b and label not in output]
    rest = [label for label in output if label not in batch]
    if not summed or 0 in sizes.values():
        return None
    swapped = bool(rest) and rest[0] in b
    if swapped:
        a, b = b, a
    groups = batch, [label for label in rest if label in a], [label for label in rest if label in b]

    def whole(labels, *parts):
        parts = parts if batch else parts[1:]
        turned = [labels.index(label) for part in parts for label in part]
        shape = [_product(sizes, part) for part in parts]
        single = all(len(part) == 1 for part in parts)
        return turned if turned != sorted(turned) else None, None if single else shape

    order = [label for group in groups for label in group]
    single = all(len(group) == 1 for group in groups[not batch :])
    turned = [order.index(label) for label in output]
    return (
        swapped,
        bool(batch),
        whole(a, batch, groups[1], summed),
        whole(b, batch, summed, groups[2]),
        None if single else [sizes[label] for label in order],
        turned if turned != sorted(turned) else None,
    )


def _by_plan(plan, a, b):
    swapped, batched, left, right, made, turned = plan
    sides = []
    for tensor, (order, shape) in zip((b, a) if swapped else (a, b), (left, right)):
        tensor = tensor if order is None else _C.permute(tensor, order)
        sides.append(tensor if shape is None else _C.reshape(tensor, shape))
    result = (_C.bmm if batched else _C.mm)(*sides)
    result = result if made is None else _C.reshape(result, made)
    return result if turned is None else _C.permute(result, turned)


@composition(method=False)
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products of the operands' elements, by Einstein's convention.

    Parameters
    ----------
    equation : str
        Subscripts such as ``"ij,jk->ik"``; without ``->`` the output has the letters that occur once, in order.
        In its place may be the operands, each with a list of numbers below 52 (or ``...``) for its subscripts, and a
        list of those of the output at the end.
    operands : Tensors

    Raises
    ------
    RuntimeError
        The equation is malformed, or does not fit the operands.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.einsum("ij,ij->i", ad.ones(2, 3), ad.ones(2, 3))
    tensor([3., 3.])
    """
    if isinstance(equation, Tensor):
        equation, operands = _of_lists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if len(operands) == 2 and isinstance(equation, str):
        a, b = operands
        plan = isinstance(a, _C.Tensor) and isinstance(b, _C.Tensor) and _planned(equation, a.shape, b.shape)
        if plan:
            return _by_plan(plan, a, b)
    if not isinstance(equation, str):
        raise TypeError(
            f"einsum(): argument 'equation' (position 1) must be str, not {type(equation).__name__}"
        )
    inputs, arrow, _ = equation.partition("->")
    subscripts, start = [], 0
    for i, part in enumerate(inputs.split(",")):
        subscripts.append(_letters(equation, start, start + len(part), f"operand {i}"))
        start += len(part) + 1
    if len(subscripts) != len(operands):
        few = "fewer" if len(subscripts) > len(operands) else "more"
        _refuse(equation, f"{few} operands were provided than specified in the equation")
    names: set[Any] = set()
    labels = [
        _expand(s, o.ndim, names, equation, i)
        for i, (s, o) in enumerate(zip(subscripts, operands, strict=True))
    ]
    dots = sorted(names)
    if arrow:
        text = _letters(equation, len(inputs) + 2, len(equation), "output")
        output = [x for letter in text for x in (dots if letter == _ELLIPSIS else [letter])]
        for label in output:
            if output.count(label) > 1:
                _refuse(equation, f"output subscript {label} appears more than once in the output")
            if not any(label in operand for operand in labels):
                _refuse(
                    equation,
                    f"output subscript {label} does not appear in the equation for any input operand",
                )
    else:
        flat = [label for operand in labels for label in operand if isinstance(label, str)]
        output = dots + sorted(label for label in set(flat) if flat.count(label) == 1)
    pairs = [
        _take_diagonals(o, list(names_), i)
        for i, (o, names_) in enumerate(zip(operands, labels, strict=True))
    ]
    sizes: dict[Any, Any] = {}
    for position, (tensor, operand) in enumerate(pairs):
        for label, size in zip(operand, tensor.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                covered = (
                    f"subscript {label} has size {size} for operand {position}"
                    if isinstance(label, str)
                    else f"dimension {label + len(dots)} covered by ellipsis in operand {position} has size {size}"
                )
                _refuse(equation, f"{covered} which does not broadcast with previously seen size {known}")
    rank = list(dict.fromkeys([*output, *sizes]))
    path = (
        _path([s.replace(_ELLIPSIS, "") for s in subscripts], "".join(map(str, output)), operands)
        if not dots
        else None
    )
    for pair in path or [(0, 1)] * (len(pairs) - 1):
        if len(pair) == 1:
            continue
        chosen = [pairs.pop(i) for i in sorted(pair, reverse=True)]
        while len(chosen) > 1:
            (a, a_labels), (b, b_labels) = chosen.pop(), chosen.pop()
            keep = set(output).union(*(names_ for _, names_ in pairs), *(names_ for _, names_ in chosen))
            chosen.append(_contract(a, a_labels, b, b_labels, keep, rank))
        pairs.append(chosen[0])
    last, labels = pairs[0]
    result, order = _sum_out(last, labels, set(output))
    return _arrange(result, order, output)
