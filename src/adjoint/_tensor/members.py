"""What a Tensor is to Python: a sequence, a text, a type with subclasses.

The type itself is made in C++ (core/bind/object.cpp). What Python adds is where its subject is: gradients in `gradients`,
NumPy and DLPack in `data`, conversions in `dtypes`, copying and pickling in `copying`, printing in `printing`, random
values in `random`, compositions of operators in `ops`. Start reading at `Sequence`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, composition, extend
from adjoint._types import Any, Iterator


@extend
class Sequence(Members):
    """A tensor as a sequence along its first dimension, and as text."""

    names = property(
        lambda self: (None,) * self.ndim, doc="Names of the dimensions, which are not supported."
    )

    _grad = property(
        lambda self: self.grad, lambda self, grad: setattr(self, "grad", grad), doc="The gradient."
    )

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: object) -> bool:
        if not isinstance(element, (Tensor, float, int, bool, complex)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((self == element).any())  # type: ignore[attr-defined]

    def __reversed__(self) -> Iterator[Any]:
        return self.flip(0) if self.ndim else self

    def __format__(self, spec: str) -> str:
        if (
            self.ndim == 0
            and type(self) is Tensor
            and not self.is_meta
            and (spec or not _C._is_batched(self))
        ):
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from adjoint._tensor.printing import text_of

        text = text_of(self, tensor_contents)
        return f"Parameter({text})" if getattr(self, "_is_param", False) else text

    def _repr_html_(self) -> str:
        from adjoint._tensor.html import html_of

        return html_of(self)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self)} - {"volatile"})

    def _fix_weakref(self) -> None:
        """Nothing to fix: what a weak reference gave keeps the tensor."""

    def is_same_size(self, other: Tensor) -> bool:
        """Whether the shapes are equal."""
        return self.shape == other.shape

    def as_subclass(self, cls) -> Any:
        """The same memory and history as an instance of a subclass of Tensor: a view.

        Parameters
        ----------
        cls : type
            A subclass of Tensor.

        Returns
        -------
        Tensor
            Of type `cls`.

        Examples
        --------
        >>> import adjoint as ad
        >>> class Metres(ad.Tensor):
        ...     pass
        >>> x = ad.ones(2).as_subclass(Metres)
        >>> type(x * 2).__name__
        'Metres'
        """
        return _C._as_subclass(cls, self)

    @staticmethod
    def _make_wrapper_subclass(cls, size, **properties):
        raise NotImplementedError(
            f"_make_wrapper_subclass(): a {cls.__name__} without memory of its own needs a __torch_dispatch__, which types do not "
            "have here (see TorchDispatchMode); keep the tensor that it wraps as an attribute and define __torch_function__"
        )


@composition(method=False, consults=False)
def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor."""
    return isinstance(obj, Tensor)


@composition(method=False)
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in `inference_mode`: it counts no writes and can be saved for no backward pass.

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.inference_mode():
    ...     ad.is_inference(ad.ones(2))
    True
    """
    return input.is_inference()


@composition(method=False)
def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()
