"""torch.library's `Library` and the functions that name operators by text: `define`, `impl`, `get_op`. Start reading at `Library`."""

from __future__ import annotations

from adjoint._publish.arguments import ignores
from adjoint._switches import switches
from adjoint._types import Any, Callable, Sequence
from adjoint.library._custom import CustomOpDef, find, forget, later, place
from adjoint.library._registration import known
from adjoint.library._schemas import Schema

__all__ = ["Library", "define", "fallthrough_kernel", "get_op", "impl"]

#: The dispatch keys of torch that name a device, and those that stand for all.
_DEVICES = {"CPU": "cpu", "CUDA": "cuda", "MPS": "mps", "XPU": "xpu"}
_EVERYWHERE = ("", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "default")


def fallthrough_kernel() -> None:
    """Stands for the absence of a kernel; it is never called.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> callable(library.fallthrough_kernel)
    True
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """A namespace in which operators are defined, or get kernels.

    Parameters
    ----------
    ns : str
        The namespace.
    kind : {"DEF", "FRAGMENT", "IMPL"}
        Whether it is new, or there may be others of its name; IMPL: it adds kernels only.
    dispatch_key : str
        What `impl` is for unless it says so: "CPU", "Meta", "Autograd", "CompositeImplicitAutograd" …

    Examples
    --------
    >>> import adjoint as ad
    >>> lib = ad.library.Library("example_lib", "DEF")
    >>> lib.define("twice(Tensor x) -> Tensor")
    'twice'
    >>> lib.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
    >>> ad.library.get_op("example_lib::twice")(ad.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("aten", "prim", "prims"):
            raise ValueError(
                f"{ns} is a reserved namespace: its operators are the library's own, and cannot be given others"
            )
        if kind == "DEF" and _libraries.get(ns):
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your definitions in a "
                'single TORCH_LIBRARY block, or use kind="FRAGMENT"'
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list = []
        if kind == "DEF":
            _libraries[ns] = self

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    @ignores("alias_analysis", "tags", why="they are notes for compilers", warns=False)
    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare an operator: ``"name(Tensor x) -> Tensor"``.

        Parameters
        ----------
        schema : str
        alias_analysis, tags
            Without effect.

        Returns
        -------
        str
            Its name.
        """
        if self.kind == "IMPL":
            raise RuntimeError(
                f"{self.ns}: a library of kind IMPL defines no operators; it adds kernels to those that are there"
            )
        read = Schema(schema)
        name = f"{self.ns}::{read.name}"
        read.name, read.text = name, f"{self.ns}::{read.text}"
        if find(name) is not None:
            raise RuntimeError(
                f"Tried to register an operator ({read}) with the same name and overload name multiple times. Each overload's "
                "schema should only be registered with a single call to def()."
            )
        op = CustomOpDef(name, read, opaque=False)
        place(op)
        self._defined.append(op)
        return name.partition("::")[2]

    @ignores("allow_override", why="the last one counts in any case", warns=False)
    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Add a function that computes an operator, for a dispatch key.

        Parameters
        ----------
        op_name : str or OpOverload
        fn : callable
        dispatch_key : str
            That of the library if left out.
        with_keyset : bool
            Only False.
        allow_override : bool
            Without effect: the last one counts.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        op = op_name if isinstance(op_name, str) else op_name.name()
        op = op if "::" in op else f"{self.ns}::{op}"
        if with_keyset:
            raise NotImplementedError("impl(): kernels take no set of dispatch keys")
        if fn is not fallthrough_kernel:
            _add(op, dispatch_key or self.dispatch_key, fn)

    def _destroy(self):
        """Take back what it defined."""
        for op in self._defined:
            forget(op)
        self._defined.clear()
        if _libraries.get(self.ns) is self:
            del _libraries[self.ns]


#: The library of kind DEF of each namespace.
_libraries: dict = {}


def _add(name, key, fn):
    """A kernel for a dispatch key, now or when its operator is defined."""
    what: tuple[Any, ...]
    if key == "Meta":
        what = ("register_fake", fn)
    elif key.startswith("Autograd"):
        what = ("register_autograd_kernel", fn)
    elif key in _EVERYWHERE or key in _DEVICES or key in _DEVICES.values():
        what = ("register_kernel", None if key in _EVERYWHERE else _DEVICES.get(key, key), fn)
    elif key in ("Autocast", "AutocastCPU"):
        raise NotImplementedError(
            f"{name}: no kernel is called for {key}; say what type arguments take by register_autocast()"
        )
    else:
        return  # a backend that is not there never asks
    op = find(name)
    if op is None:
        later(name, *what)
    else:
        getattr(op, what[0])(*what[1:])


@ignores("tags", why="they are notes for compilers", warns=False)
def define(
    qualname: str | Library,
    schema: str,
    alias_analysis: str = "",
    *,
    lib: Library | None = None,
    tags: Any = (),
) -> Any:
    """Declare an operator: ``define("ns::name", "(Tensor x) -> Tensor")``; with a Library first, a decorator of its kernel.

    Parameters
    ----------
    qualname : str or Library
        ``namespace::name``; or a Library, and the next argument is the name with the schema.
    schema : str
        ``(Tensor x, int n=1) -> Tensor``.
    alias_analysis : str
        Without effect.
    lib : Library, optional
    tags
        Without effect.

    Returns
    -------
    None, or a decorator

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> library.define("doc_define::twice", "(Tensor x) -> Tensor")
    >>> _ = library.register_kernel("doc_define::twice", "cpu", lambda x: x * 2)
    >>> library.get_op("doc_define::twice")(ad.ones(2)).tolist()
    [2.0, 2.0]
    """
    if isinstance(qualname, Library):

        def wrap(f):
            name = qualname.define(schema, alias_analysis)
            qualname.impl(name, f)
            return f

        return wrap
    namespace, colons, name = qualname.partition("::")
    if not colons:
        raise ValueError(
            f"{switches.package}.library.define(qualname, ...): expected qualname to be of the form ns::name, but got {qualname}"
        )
    (lib or Library(namespace, "FRAGMENT")).define(name + schema)
    return None


def impl(
    qualname: str | Library,
    types: str | Sequence[str],
    func: Any = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Add a function that computes an operator for devices ("cpu", "default" …), or for one of torch's dispatch keys.

    Parameters
    ----------
    qualname : str
    types : str or sequence of str
        Devices, or dispatch keys such as "CPU".
    func : callable, optional
        Left out, a decorator is returned.
    lib : Library, optional
        Without effect.

    Returns
    -------
    callable, or None

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> _ = library.define("doc_impl::twice", "(Tensor x) -> Tensor")
    >>> _ = library.impl("doc_impl::twice", "CPU", lambda x: x * 2)
    >>> library.get_op("doc_impl::twice")(ad.ones(2)).tolist()
    [2.0, 2.0]
    """
    if isinstance(qualname, Library):
        key = func or ""

        def wrap(f):
            qualname.impl(types, f, key)
            return f

        return wrap
    if func is None:
        return lambda f: impl(qualname, types, f, lib=lib)
    for key in (types,) if isinstance(types, str) else types:
        _add(qualname, key, func)
    return func


def get_op(qualname: str) -> CustomOpDef:
    """The operator of a name, ``ns::name``.

    Parameters
    ----------
    qualname : str

    Returns
    -------
    CustomOpDef

    Raises
    ------
    RuntimeError
        It is not defined.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_get::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> library.get_op("doc_get::twice")(ad.ones(2)).tolist()
    [2.0, 2.0]
    """
    return known(qualname, "get_op")
