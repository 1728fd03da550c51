"""How tensors are written: in columns, like nested lists, shortened when they are long.

The values to show are first taken out as nested Python lists (`_edges`), a `_Column` finds one format for all of them,
and `_layout` sets them. Start reading at `text_of`.
"""

from __future__ import annotations

from math import ceil, inf, isfinite

from adjoint import _C
from adjoint._types import Any, Callable, Tensor

__all__ = ["set_printoptions", "text_of"]


class _Options:
    __slots__ = ("edgeitems", "linewidth", "precision", "sci_mode", "threshold")
    edgeitems: int
    linewidth: int
    precision: int
    sci_mode: bool | None
    threshold: float


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": inf, "edgeitems": 3, "linewidth": 80},
}
_options = _Options()
_options.sci_mode = None


def set_printoptions(
    precision: Any = None,
    threshold: float | None = None,
    edgeitems: Any = None,
    linewidth: Any = None,
    profile: Any = None,
    sci_mode: Any = None,
) -> Any:
    """Set how tensors are printed.

    Parameters
    ----------
    precision : int, 4 at first
        Digits after the point.
    threshold : int, 1000 at first
        Elements from which a tensor is shortened.
    edgeitems : int, 3 at first
        Elements shown at either end of a shortened dimension.
    linewidth : int, 80 at first
        Characters per line.
    profile : 'default', 'short' or 'full', optional
        Sets all of these; the arguments given beside it win.
    sci_mode : bool, optional
        Always or never write powers of ten; None decides by the values.

    Returns
    -------
    None

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.set_printoptions(precision=2)
    >>> ad.tensor([1.23456])
    tensor([1.23])
    >>> ad.set_printoptions(profile="default")
    """
    _C._tell_recorders("it sets how tensors are printed")
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions(): profile must be one of {sorted(_PROFILES)}, but got {profile!r}"
            )
        for name, value in _PROFILES[profile].items():
            setattr(_options, name, value)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(_options, name, value)
    _options.sci_mode = sci_mode


set_printoptions(profile="default")


def text_of(tensor: Tensor, contents: Any = None) -> Any:
    """What `repr` gives for a tensor."""
    _C._tell_recorders("it writes a tensor as text, and how may be set")
    batch = _C._batch_of(tensor)
    if batch is not None:
        # All samples, since no one of them is what the tensor stands for.
        inner = text_of(batch[0]).replace("\n", "\n    ")
        carried = "".join([f", {suffix}" for suffix in _carried(tensor)])
        depth = _C._batching_depth(batch[1])
        return f"BatchedTensor(lvl={depth or 'closed'}, bdim=0, value=\n    {inner}\n{carried})"
    prefix = ("tensor" if type(tensor) is _C.Tensor else type(tensor).__name__) + "("
    plain, dtype, default = tensor.detach(), tensor.dtype, _C.get_default_dtype()
    suffixes = []
    if tensor._device_number:
        suffixes.append(f"device='{tensor.device}'")
    number = plain._layout_number
    if number:
        text = _sparse_text(plain, prefix)
        suffixes += [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
        if dtype not in (default, default.to_complex(), _C.int64, _C.bool):
            suffixes.append(f"dtype={dtype}")
        suffixes.append(f"layout={tensor.layout}")
    elif tensor.is_meta:
        suffixes.append(f"size={tuple(tensor.shape)}")
        if dtype is not default:
            suffixes.append(f"dtype={dtype}")
        text = "..."
    elif tensor.numel() == 0:
        if tensor.ndim != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if dtype is not default:
            suffixes.append(f"dtype={dtype}")
        text = "[]"
    else:
        if dtype not in (default, default.to_complex(), _C.int64, _C.bool):
            suffixes.append(f"dtype={dtype}")
        shorten = plain.numel() > _options.threshold
        values = _edges(plain) if shorten else plain.tolist()
        text = contents or _layout(
            values, tuple(plain.shape), len(prefix), shorten, _format_for(values, plain)
        )
    suffixes += _carried(tensor)
    pieces = [prefix + text]
    length = len(pieces[0]) - pieces[0].rfind("\n") + 1
    for i, suffix in enumerate(suffixes):
        if length + len(suffix) + 2 > _options.linewidth or (number == 1 and i == 0):
            pieces.append(",\n" + " " * len(prefix) + suffix)
            length = len(prefix) + len(suffix)
        else:
            pieces.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(pieces) + ")"


def _sparse_text(plain, prefix):
    """Indices and values, each on lines of its own."""
    number, _, indices, others, values = _C._sparse_parts(plain)
    names = (("indices",), ("crow_indices", "col_indices"), ("ccol_indices", "row_indices"))[number]
    lines = []
    for name, part in zip((*names, "values"), (indices, others, values) if number else (indices, values)):
        start = f"{name}=tensor("
        if part.numel() == 0:
            lines.append(f"{start}[], size={tuple(part.shape)})")
            continue
        shorten = part.numel() > _options.threshold
        shown = _edges(part) if shorten else part.tolist()
        indent = len(prefix) + len(start)
        lines.append(
            start + _layout(shown, tuple(part.shape), indent, shorten, _format_for(shown, part)) + ")"
        )
    return (",\n" + " " * len(prefix)).join(lines)


def _carried(tensor):
    """What a tensor has beside its values: its history, or that it is to have one, and its tangent."""
    suffixes = []
    try:
        node = tensor.grad_fn
        name = node and type(node).__name__
    except RuntimeError:
        # A view whose history cannot be told any more is an error to use, not to look at.
        name = "Invalid"
    if name is not None:
        suffixes.append(f"grad_fn=<{name}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    tangent = _C._tangent(tensor)
    if tangent is not None:
        suffixes.append(f"tangent={tangent!r}")
    return suffixes


def _edges(t):
    """The elements at the ends of every long dimension, as nested lists."""
    edge = _options.edgeitems
    if t.ndim == 0:
        return t.item()
    size = t.shape[0]
    if t.ndim == 1:
        if size <= 2 * edge:
            return t.tolist()
        return t.narrow(0, 0, edge).tolist() + t.narrow(0, size - edge, edge).tolist()
    rows = [*range(edge), *range(size - edge, size)] if size > 2 * edge else range(size)
    return [_edges(t.select(0, i)) for i in rows]


def _flat(values):
    if isinstance(values, list):
        for v in values:
            yield from _flat(v)
    else:
        yield values


def _format_for(values, tensor):
    flat = list(_flat(values))
    if not tensor.is_complex():
        return _Column(flat, tensor.is_floating_point())
    return _Complex(_Column([v.real for v in flat], True), _Column([v.imag for v in flat], True))


class _Column:
    """One format for all values: whole numbers, a fixed number of digits, or powers of ten."""

    __slots__ = ("form", "width")

    def __init__(self, values: Any, floating: Any) -> None:
        precision = _options.precision
        self.width = 1
        if not floating:
            self.form: Callable[[Any], str] = str
            self.width = max(map(len, map(str, values)), default=1)
            return
        finite = [v for v in values if v != 0 and isfinite(v)]
        whole = all(v == ceil(v) for v in finite)
        scientific = False
        if finite:
            largest, smallest = max(map(abs, finite)), min(map(abs, finite))
            scientific = largest / smallest > 1000 or largest > 1e8 or (not whole and smallest < 1e-4)
            if _options.sci_mode is not None:
                scientific = _options.sci_mode
        if scientific:
            self.form = f"{{:.{precision}e}}".format
        elif whole:
            self.form = lambda v: f"{v:.0f}." if isfinite(v) else f"{v:.0f}"
        else:
            self.form = f"{{:.{precision}f}}".format
        self.width = max((len(self.form(v)) for v in finite), default=1)

    def __call__(self, value: Any) -> Any:
        return self.form(value).rjust(self.width)


class _Complex:
    """Two columns with a sign between them."""

    __slots__ = ("imag", "real", "width")

    def __init__(self, real: Any, imag: Any) -> None:
        self.real, self.imag = real, imag
        self.width = real.width + 1 + imag.width

    def __call__(self, value: Any) -> Any:
        imag = self.imag(value.imag).lstrip() + "j"
        return self.real(value.real) + (imag if imag[0] in "+-" else "+" + imag)


def _layout(values, sizes, indent, shorten, form):
    if not sizes:
        return form(values).strip() if isinstance(form, _Column) else form(values)
    edge = _options.edgeitems
    shorten_here = shorten and sizes[0] > 2 * edge
    if len(sizes) > 1:
        rows = [_layout(v, sizes[1:], indent + 1, shorten, form) for v in values]
        if shorten_here:
            rows.insert(edge, "...")
        return "[" + ("," + "\n" * (len(sizes) - 1) + " " * (indent + 1)).join(rows) + "]"
    cells = [form(v) for v in values]
    if shorten_here:
        cells.insert(edge, " ...")
    per_line = max(1, (_options.linewidth - indent) // (form.width + 2))
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
