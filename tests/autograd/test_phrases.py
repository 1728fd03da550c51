"""Each refusal says torch's phrase, word for word, and then what torch leaves out: operator, shapes, source, remedy.

Users search for the phrase; the rest tells them what to change. A row is a small program, the phrase, and what else the
message must hold. Start reading at `CASES`; programs of more than a line are in refused_programs.py.
"""

import copy

import pytest
from helpers import leaf
from refused_programs import (
    FirstRow,
    Forgets,
    Itself,
    SavesSecond,
    freed,
    freed_attribute,
    freed_in_a_function,
    halve,
    hook_returns,
    inference_tensor,
    inference_view,
    matrix,
    multiple_views_base_written,
    mutated_in_a_function,
    mutated_input,
    mutated_result,
    mutated_with_lines,
    nan_found,
    no_grad_view,
    no_grad_view_base_written,
    once_twice,
    returns,
)

import adjoint as ad
from adjoint.autograd import grad
from adjoint.autograd.anomaly_mode import is_anomaly_enabled

# --- rows: name, program, phrase, what else ------------------------------------------------------------------------------

NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"
SCALARS = "grad can be implicitly created only for scalar outputs"
SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad()"
)
SECOND_TIME_REMEDY = (
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)
MUTATED = "one of the variables needed for gradient computation has been modified by an inplace operation: ["
REMEDY = ["clone()", "out-of-place"]
LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"
MULTIPLE = (
    "is a view and is being modified inplace. This view is the output of a function that returns multiple views. Such "
    "functions do not allow the output views to be modified inplace. You should replace the inplace operation by an "
    "out-of-place one."
)
MULTIPLE_BASE = MULTIPLE.replace(
    "is being modified inplace", "its base or another view of its base has been modified inplace"
)
AMBIGUOUS = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the "
    "view and the inplace either both inside the {} block (if you don't want the inplace to be tracked) or both outside "
    "(if you want the inplace to be tracked)."
)
NO_GRAD = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled."
    + AMBIGUOUS.format("no_grad")
)
NO_GRAD_BASE = NO_GRAD.replace(
    "is being modified inplace", "its base or another view of its base has been modified inplace"
)
INFERENCE = (
    "A view was created in inference mode and is being modified inplace in normal mode."
    + AMBIGUOUS.format("inference_mode")
)
IN_FUNCTION = (
    "is a view and is being modified inplace. This view was created inside a custom Function (or because an input was "
    "returned as-is) and the autograd logic to handle view+inplace would override the custom backward associated with the "
    "custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output "
    "of the custom Function."
)
ONE_PLACE = "more than one element of the written-to tensor refers to a single memory location"
SAVED_INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation "
    "tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd"
)
INTEGERS = "Tensors of floating point and complex dtype can require gradients"
FLAGS = (
    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that "
    "doesn't require differentiation use var_no_grad = var.detach()."
)
UNUSED = "appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
NUMPY = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."

CASES = [
    ("an untracked root", lambda: ad.ones(2).sum().backward(), NO_GRAPH, ["[]", "requires_grad=True"]),
    (
        "an untracked root of grad",
        lambda: grad(ad.ones(2, 3), matrix(), ad.ones(2, 3)),
        NO_GRAPH,
        ["[2, 3]"],
    ),
    ("a non-scalar", lambda: (matrix() * 2).backward(), SCALARS, ["[2, 3]", ".sum()"]),
    ("a non-scalar of grad", lambda: grad(matrix() * 2, matrix()), SCALARS, ["[2, 3]", ".sum()"]),
    ("freed", freed, SECOND_TIME, ["PowBackward0", SECOND_TIME_REMEDY]),
    ("freed attribute", freed_attribute, SECOND_TIME, ["SinBackward0", SECOND_TIME_REMEDY]),
    ("freed in a Function", freed_in_a_function, SECOND_TIME, ["SquareBackward", SECOND_TIME_REMEDY]),
    (
        "mutated input",
        mutated_input,
        MUTATED,
        ["float32 [2, 3]", "MulBackward0", "is at version 1; expected version 0 instead", "add_()", *REMEDY],
    ),
    ("mutated input says how", mutated_input, MUTATED, ["adjoint.autograd.graph.set_record_lines(True)"]),
    (
        "mutated result",
        mutated_result,
        MUTATED,
        ["float32 [2, 3]", "ExpBackward0", "is at version 1; expected version 0 instead", "mul_()", *REMEDY],
    ),
    (
        "mutated in a Function",
        mutated_in_a_function,
        MUTATED,
        [
            "float32 [2, 3]",
            "SquareBackward",
            "is at version 1; expected version 0 instead",
            "zero_()",
            *REMEDY,
        ],
    ),
    ("mutated, with lines", mutated_with_lines, MUTATED, ["refused_programs.py:", "in mutated_input"]),
    ("a leaf", lambda: matrix().add_(1), LEAF, ["add_()", "[2, 3]", "float32", "no_grad()", "clone()"]),
    ("a leaf filled", lambda: matrix().uniform_(), LEAF, ["uniform_()", "[2, 3]", "no_grad()"]),
    (
        "a view of a leaf",
        lambda: matrix()[1].mul_(2),
        VIEW_OF_LEAF,
        ["mul_()", "[3]", "no_grad()", "clone()"],
    ),
    ("a view of a view of a leaf", lambda: matrix().T[1:].zero_(), VIEW_OF_LEAF, ["zero_()", "[2, 2]"]),
    (
        "multiple views: unbind",
        lambda: (matrix() * 1).unbind()[1].add_(1),
        "Output 1 of Unbind " + MULTIPLE,
        ["[3]", "add_()"],
    ),
    ("multiple views: split", lambda: (matrix() * 1).split(1)[1].mul_(2), MULTIPLE, ["[1, 3]", "mul_()"]),
    ("multiple views: chunk", lambda: (matrix() * 1).chunk(2)[0].exp_(), MULTIPLE, ["[1, 3]", "exp_()"]),
    (
        "multiple views: the base written",
        multiple_views_base_written,
        "Output 1 of Unbind " + MULTIPLE_BASE,
        ["[3]"],
    ),
    ("a view of no_grad", lambda: no_grad_view(lambda y: y[0])[1].add_(1), NO_GRAD, ["[3]", "add_()"]),
    ("a view of no_grad: the base written", no_grad_view_base_written, NO_GRAD_BASE, ["[3]"]),
    ("a view of inference mode", inference_view, INFERENCE, ["[3]", "add_()"]),
    (
        "a view made by a Function",
        lambda: FirstRow.apply(matrix() * 1).add_(1),
        "Output 0 of FirstRow " + IN_FUNCTION,
        ["[3]", "add_()"],
    ),
    (
        "an input that a Function returned",
        lambda: Itself.apply(matrix() * 1).sin_(),
        "Output 0 of Itself " + IN_FUNCTION,
        ["[2, 3]", "sin_()"],
    ),
    (
        "one place",
        lambda: ad.zeros(3).expand(2, 3).add_(1),
        ONE_PLACE,
        ["add_()", "[2, 3]", "strides [0, 1]", "Please clone() the tensor before performing the operation."],
    ),
    (
        "one place: copied to",
        lambda: ad.zeros(3).expand(2, 3).copy_(ad.ones(3)),
        ONE_PLACE,
        ["copy_()", "[2, 3]"],
    ),
    (
        "inference tensor saved",
        lambda: matrix() * inference_tensor(),
        SAVED_INFERENCE,
        ["no_grad()", "[2, 3]"],
    ),
    (
        "inference tensor saved by a Function",
        lambda: SavesSecond.apply(matrix(), inference_tensor()),
        SAVED_INFERENCE,
        ["no_grad()", "float32", "[2, 3]"],
    ),
    (
        "inference tensor written",
        lambda: inference_tensor().add_(1),
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
        "tensor before doing inplace update.",
        ["add_()", "[2, 3]"],
    ),
    (
        "inference tensor's flag",
        lambda: inference_tensor().requires_grad_(),
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
        ["[2, 3]", "clone()"],
    ),
    (
        "inference tensor's version",
        lambda: inference_tensor()._version,
        "Inference tensors do not track version counter.",
        [],
    ),
    ("integers", lambda: ad.tensor([1, 2], requires_grad=True), INTEGERS, ["int64", "[2]", ".to(float32)"]),
    (
        "integers made",
        lambda: ad.zeros(2, 3, dtype=ad.uint8, requires_grad=True),
        INTEGERS,
        ["uint8", "[2, 3]"],
    ),
    ("a flag of a result", lambda: setattr(matrix() * 2, "requires_grad", False), FLAGS, []),
    ("a flag of a result, called", lambda: (matrix() * 2).requires_grad_(False), FLAGS, []),
    ("unused", lambda: grad((matrix() * 2).sum(), matrix()), UNUSED, ["input 0", "[2, 3]"]),
    (
        "unused, the second",
        lambda: (lambda x: grad((x * 2).sum(), (x, leaf(1.0, 2.0))))(matrix()),
        UNUSED,
        ["input 1", "[2]"],
    ),
    (
        "not tracked",
        lambda: grad((matrix() * 2).sum(), ad.ones(2)),
        "One of the differentiated Tensors does not require grad",
        ["input 0", "[2]"],
    ),
    (
        "cotangent",
        lambda: (matrix() * 2).backward(ad.ones(3)),
        "Mismatch in shape: grad_output[0] has a shape of ",
        [" and output[0] has a shape of ", "[3]", "[2, 3]"],
    ),
    (
        "cotangent of grad",
        lambda: (lambda x: grad((x.sum(), x * 2), x, (None, ad.ones(2, 2))))(matrix()),
        "Mismatch in shape: grad_output[1] has a shape of ",
        [" and output[1] has a shape of ", "[2, 2]", "[2, 3]"],
    ),
    (
        "cotangents missing",
        lambda: ad.autograd.backward([matrix() * 1, matrix() * 2], [ad.ones(2, 3)]),
        "got 2 tensors and 1 gradients",
        ["one gradient per tensor, or None"],
    ),
    (
        "too many gradients",
        lambda: returns((ad.ones(2, 3), None, ad.ones(1))),
        "function WrongBackward returned an incorrect number of gradients (expected 2, got 3)",
        ["one gradient, or None, for each argument of forward"],
    ),
    (
        "too few gradients",
        lambda: returns(ad.ones(2, 3)),
        "function WrongBackward returned an incorrect number of gradients (expected 2, got 1)",
        ["one gradient, or None, for each argument of forward"],
    ),
    (
        "invalid gradient",
        lambda: returns((ad.ones(2, 2), None)),
        "unction WrongBackward returned an invalid gradient at index 0 - got [2, 2] but expected shape compatible with "
        "[2, 3]",
        [],
    ),
    (
        "gradient of another kind",
        lambda: returns((1.0, None)),
        "expected Variable or None (got float)",
        ["WrongBackward", "position 1"],
    ),
    (
        "dirty",
        lambda: Forgets.apply(matrix() * 1, ad.ones(2)),
        "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
        "inplace must all be outputs of the Function.",
        ["number 0", "Forgets"],
    ),
    (
        "once differentiable",
        once_twice,
        "trying to differentiate twice a function that was marked with @once_differentiable",
        ["Once"],
    ),
    (
        "hook changes size",
        lambda: hook_returns(halve),
        "hook 'halve' has changed the size of value",
        ["from [2, 3] to [1, 3]", "Return a gradient of the same shape"],
    ),
    (
        "hook of a leaf changes size",
        lambda: hook_returns(halve, True),
        "hook 'halve' has changed the size of value",
        ["from [2, 3] to [1, 3]"],
    ),
    (
        "hook changes type",
        lambda: hook_returns(lambda g: g.double()),
        "hook '<lambda>' has changed the type of value (was ",
        ["float32", "float64", "Return a gradient of the same dtype"],
    ),
    ("numpy of a leaf", lambda: matrix().numpy(), NUMPY, ["a leaf", "[2, 3]", "float32"]),
    ("numpy of a result", lambda: matrix().sin().numpy(), NUMPY, ["SinBackward0", "[2, 3]", "float32"]),
    (
        "NaN",
        nan_found,
        "Function 'SqrtBackward0' returned nan values in its 0th output.",
        ["refused_programs.py", "# the root"],
    ),
    (
        "deepcopy",
        lambda: copy.deepcopy(matrix().tanh()),
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment",
        ["[2, 3]", "float32", "TanhBackward0", ".detach().clone()"],
    ),
]


def check(program, phrase, rest):
    """The program is refused with the phrase, and beside the phrase the message holds all of the rest."""
    with pytest.raises((RuntimeError, TypeError)) as caught:
        program()
    before, found, after = str(caught.value).partition(phrase)
    assert found, f"{phrase!r} is not in {str(caught.value)!r}"
    for part in rest:
        assert part in before + after, f"{part!r} is not beside the phrase in {str(caught.value)!r}"


@pytest.mark.filterwarnings("ignore:(Anomaly|Error detected)")
@pytest.mark.parametrize("program, phrase, rest", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_phrase(program, phrase, rest):
    check(program, phrase, rest)


@pytest.mark.filterwarnings("ignore:(Anomaly|Error detected)")
def test_nothing_is_left_switched_after_an_error():
    for _, program, _, _ in CASES:
        with pytest.raises((RuntimeError, TypeError)):
            program()
        assert ad.is_grad_enabled() and not ad.is_inference_mode_enabled()
        assert not is_anomaly_enabled()
    x = leaf(3.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_deepcopy_says_what_helps():
    """Both remedies that the message names work, and what torch's users try first does not."""
    x = matrix()
    y = x * 2
    with ad.no_grad(), pytest.raises(RuntimeError, match="deepcopy protocol"):
        copy.deepcopy(y)
    values, tracked = y.detach().clone(), y.clone()
    assert copy.deepcopy(values).tolist() == y.tolist() and not values.requires_grad
    tracked.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
