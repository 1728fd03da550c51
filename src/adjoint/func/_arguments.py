"""What the transforms share: which arguments are meant, and containers of tensors in and out of a function.

A function that is differentiated gets *arguments* instead of the caller's tensors (see core/autograd/arguments.h), and what
it returns goes through `results`, which takes away what no outer transform asked for. Start reading at `Arguments`.
"""

from __future__ import annotations

from adjoint._C import (
    Tensor,
    _argument_for,
    _finish_arguments,
    _is_argument,
    _result_of,
    _resume_arguments,
    _set_grad_enabled,
    _set_inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
)
from adjoint._switches import switches
from adjoint._types import Any
from adjoint.tree import flatten_arguments

# --- which arguments --------------------------------------------------------------------------------------------------


def positions(argnums, count):
    """The numbers of the arguments that are meant, as a tuple of numbers from 0, and whether it was a single one."""
    if isinstance(argnums, int):
        return (_position(argnums, count),), True
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    chosen = tuple([_position(number, count) for number in argnums])
    if not chosen:
        raise RuntimeError("argnums must be non-empty")
    if len({*chosen}) != len(chosen):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return chosen, False


def _position(number, count):
    if not isinstance(number, int):
        raise RuntimeError(f"argnum must be int, got: {type(number)}")
    if not -count <= number < count:
        raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    return number % count


def chosen(args, argnums):
    """Those of `args` that are meant, as one tree; and a function from another such tree to all arguments."""
    numbers, single = positions(argnums, len(args))
    if single:
        number = numbers[0]
        return args[number], lambda tree: (*args[:number], tree, *args[number + 1 :])

    def replaced(trees):
        given = list(args)
        for number, tree in zip(numbers, trees, strict=True):
            given[number] = tree
        return tuple(given)

    return tuple([args[number] for number in numbers]), replaced


# --- in and out of the function ---------------------------------------------------------------------------------------


class Recording:
    """For its scope everything is recorded, whatever the mode outside."""

    __slots__ = ("grad", "inference")

    def __enter__(self) -> Any:
        self.inference = is_inference_mode_enabled()
        if self.inference:
            _set_inference_mode(False)
        self.grad = _set_grad_enabled(True)

    def __exit__(self, *exception: Any) -> None:
        _set_grad_enabled(self.grad)
        if self.inference:
            _set_inference_mode(True)


class Arguments:
    """The tensors of a tree, and what stands for them inside of a function.

    Attributes
    ----------
    given, inside : list of Tensor
        The caller's tensors, and what the function gets for them.
    spec : TreeSpec
        The form of the tree.
    recorded : bool
        Whether the mode outside lets results keep a history.
    """

    __slots__ = ("given", "inside", "recorded", "spec")

    def __init__(self, tree: Any) -> None:
        self.recorded = is_grad_enabled() and not is_inference_mode_enabled()
        self.given, self.spec = flatten_arguments(tree)
        for leaf in self.given:
            if not isinstance(leaf, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        self.inside = [_argument_for(x, self.recorded) for x in self.given]

    def tree(self):
        """The tree for the function."""
        return self.spec.unflatten(self.inside)

    def check(self):
        """Refuse what the function did to its arguments, if no gradient can be told for them any more."""
        if all(map(_is_argument, self.inside, self.given)):
            return
        i = [*map(_is_argument, self.inside, self.given)].index(False)
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation: the function that is differentiated "
            f"changed its argument (tensor {i}, of shape {tuple(self.given[i].shape)}), gave it other memory (`.data =`) or "
            "called detach_() or requires_grad_() on it. Let it work on a clone() of the argument"
        )

    def finish(self):
        """The function has returned, and what goes out is known: the arguments mean nothing to anybody else."""
        _finish_arguments(self.inside)

    def counted(self, run, *args):
        """What `run` gives, while the arguments count as they did: a pass runs parts of the function again (checkpoints)."""
        _resume_arguments(self.inside)
        try:
            return run(*args)
        finally:
            _finish_arguments(self.inside)

    def result(self, leaf):
        """A result as the outside gets it."""
        if not isinstance(leaf, Tensor):
            return leaf
        for x, given in zip(self.inside, self.given, strict=True):
            if leaf is x:
                return given
        return _result_of(leaf, self.inside, self.recorded)

    def results(self, tree):
        """A tree of results as the outside gets it."""
        leaves, spec = flatten_arguments(tree)
        return spec.unflatten([self.result(leaf) for leaf in leaves])


def split_aux(output, what):
    """A pair (output, aux), which the function must have returned."""
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    if runs_as_torch():
        for leaf in flatten_arguments(output[1])[0]:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return output


def runs_as_torch() -> bool:
    """Whether programs written for torch run in this process, which get its refusals."""
    return switches.torch


def tensors_of(output, what, returned):
    """The tensors that a function returned, at least one, and the form of the tree."""
    leaves, spec = flatten_arguments(output)
    if not leaves or (len(leaves) == 1 and leaves[0] is None):
        raise RuntimeError(
            f"{what}: Expected f to be a function that has non-empty output (got output = {leaves})"
        )
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{what}: expected {returned} to return only tensors, got unsupported type {type(leaf)}"
            )
    return leaves, spec


def refuse_complex(name, what, tree):
    """Jacobians are of real functions."""
    for i, leaf in enumerate(flatten_arguments(tree)[0]):
        if isinstance(leaf, Tensor) and leaf.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}. Give the "
                f"real and the imaginary part ({switches.package}.view_as_real), or use vjp or jvp, which support complex numbers"
            )


def need_randomness(randomness) -> None:
    """Refuse an unknown value of `randomness`."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
