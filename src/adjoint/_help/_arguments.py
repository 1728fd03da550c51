"""What arguments mean that many functions share: a type, where the row or the annotation does not give one, and a sentence.

Start reading at `described`.
"""

from __future__ import annotations

__all__ = ["described", "type_of_kind"]

#: By name: what kind of thing, and what it does.
ARGUMENTS = {
    "self": ("Tensor", "The input; as a keyword, `input`."),
    "input": ("Tensor", "The input."),
    "other": ("Tensor or number", "The second operand; it is broadcast with `{first}`."),
    "dim": ("int", "The dimension; a negative one counts from the last."),
    "dims": ("sequence of ints", "The dimensions; negative ones count from the last."),
    "dim0": ("int", "The one dimension."),
    "dim1": ("int", "The first of the two dimensions."),
    "dim2": ("int", "The second of the two dimensions."),
    "keepdim": ("bool", "Keep the reduced dimensions, with size 1."),
    "dtype": (
        "dtype, optional",
        "The dtype of the result; if left out, that of the input, or the default dtype where there is none.",
    ),
    "outs": (
        "tuple of Tensors, optional",
        "Write the results to these tensors, which are resized if they have other shapes, and return them.",
    ),
    "out": (
        "Tensor, optional",
        "Write the result to this tensor, which is resized if it has another shape, and return it.",
    ),
    "alpha": ("number", "A factor."),
    "beta": ("number", "The factor of `{first}`; with 0 it is ignored, NaN included."),
    "correction": (
        "float, optional",
        "What is subtracted from the number of elements in the divisor: 1 for the sample variance, 0 for the population's.",
    ),
    "unbiased": ("bool", "`correction` 1 where true, 0 where false."),
    "descending": ("bool", "Largest first."),
    "stable": ("bool", "Keep the order of equal elements."),
    "offset": ("int", "Which diagonal: 0 is the main one, positive ones lie above it."),
    "diagonal": ("int", "Which diagonal: 0 is the main one, positive ones lie above it."),
    "reduction": ("'mean', 'sum' or 'none'", "Return the mean of the losses, their sum, or all of them."),
    "size_average": (
        "bool, optional",
        "torch's legacy form of `reduction`; with `reduce`, it takes precedence.",
    ),
    "reduce": ("bool, optional", "torch's legacy form of `reduction`: false means 'none'."),
    "eps": ("float", "A small number that keeps a denominator away from zero."),
    "inplace": ("bool", "Write the result to `{first}`."),
    "device": ("device, str or int, optional", "Where the tensor is made; the default device if left out."),
    "layout": ("layout, optional", "`adjoint.strided`, or a sparse layout."),
    "requires_grad": ("bool", "Record operations on the result, so that it gets a gradient."),
    "pin_memory": ("bool", "Only False: there is no pinned memory."),
    "memory_format": ("memory_format", "The order of the dimensions in memory."),
    "generator": ("Generator, optional", "The source of random numbers; the default generator if left out."),
    "size": ("int or sequence of ints", "The shape; separate integers or one sequence."),
    "tensors": ("sequence of Tensors", "The inputs."),
    "mask": ("bool Tensor", "True where an element is chosen; it is broadcast with `{first}`."),
    "rounding_mode": (
        "None, 'trunc' or 'floor'",
        "Round the quotient towards zero or down; None leaves it exact.",
    ),
    "bias": ("Tensor, optional", "What is added to each output channel."),
    "args": (None, "Further arguments, as described here."),
    "kwargs": (None, "The same by name."),
    "keywords": (None, "Further keywords of functions that make tensors."),
    "values": ("Tensor", "The values."),
    "cache_size": ("int", "With 1 the last value and its inverse are kept, with 0 nothing."),
    # Options of optimisers.
    "params": (
        "iterable of Tensors, of pairs (name, Tensor), or of dicts",
        "The parameters, or groups of them with options.",
    ),
    "lr": ("float", "The learning rate: the factor of each step."),
    "betas": ("(float, float)", "The decay rates of the running moments, each in [0, 1)."),
    "weight_decay": (
        "float",
        "What times the parameter is added to the gradient, or shrinks it where decoupled.",
    ),
    "decoupled_weight_decay": (
        "bool",
        "Shrink the parameter by 1 - lr · weight_decay instead of adding to the gradient.",
    ),
    "maximize": ("bool", "Maximise the objective instead of minimising it."),
    "differentiable": ("bool", "Record the step, so that it can be differentiated itself."),
    "foreach": ("bool, optional", "Kept in the groups for state dicts: there is one implementation."),
    "capturable": ("bool", "Kept in the groups for state dicts: there is one implementation."),
    "fused": ("bool, optional", "Kept in the groups for state dicts: there is one implementation."),
    "optimizer": ("Optimizer", "The optimiser whose learning rates are set."),
    "last_epoch": ("int", "The last epoch of a run that is resumed; -1 starts anew."),
    "non_blocking": ("bool", "Accepted and without effect."),
    "upper": ("bool", "Use the upper triangle, the adjoint of the lower one."),
    "check_errors": ("bool", "Raise where `info` is not 0."),
    "as_tuple": ("bool", "Return a vector of indices per dimension."),
    "validate_args": (
        "bool, optional",
        "Check arguments and values; by default as `Distribution.set_default_validate_args` says.",
    ),
    "min": ("Tensor or number, optional", "The lower bound; none if left out."),
    "max": ("Tensor or number, optional", "The upper bound; none if left out."),
}

_KINDS = {
    "Tensor | Number": "Tensor or number",
    "Number | Tensor": "number",
    "int | Sequence[int]": "int or sequence of ints",
    "Sequence[Tensor]": "sequence of Tensors",
}


def type_of_kind(kind: str) -> str:
    """What users read for the kind of an argument as its row states it."""
    kind, optional, _ = kind.partition(" | None")
    return _KINDS.get(kind, kind) + ", optional" * bool(optional)


def described(name, text, first, kind=None, default=None, shown_as=None):
    """The lines of one argument: what the text of the function says of it, else what all functions share.

    Parameters
    ----------
    name : str
    text : Text
        What is said of this function alone.
    first : str
        The name of the first argument, to which sentences refer.
    kind : str, optional
        The type that the row or the annotation states; it goes before that of the table.
    default : str, optional
        The default as it is written.
    shown_as : str, optional
        The name that is shown, where that of the table is another.
    """
    shared_type, sentence = ARGUMENTS.get(name.lstrip("*"), (None, ""))
    own_type, own = text.arguments.get(name.lstrip("*"), (None, None))
    name = shown_as or name
    shown = [own_type or kind or shared_type or ""]
    sentence = (own or sentence).format(first=first)
    if not (shown[0] or sentence):
        return [name]
    if default not in (None, "None") and "optional" not in shown[0]:
        shown.append(f"default {default}")
    elif default == "None" and "optional" not in shown[0] and "None" not in shown[0]:
        shown.append("optional")
    kinds = ", ".join(filter(None, shown))
    return [f"{name} : {kinds}" if kinds else name, *([f"    {sentence}"] if sentence else [])]
