"""`autocast`: a context that casts each function's arguments to the dtype that suits it.

The state is the thread's, and the core converts (core/transforms/autocast.h): outside of these contexts calls cost nothing more.
Start reading at `autocast`.
"""

from __future__ import annotations

import threading
from typing import Any

import adjoint as ad
from adjoint import _C
from adjoint._switches import switches
from adjoint._types import Callable, DType
from adjoint.amp import _kinds  # noqa: F401 - declares what functions get

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

SUPPORTED = (ad.bfloat16, ad.float16)


class _OfThread(threading.local):
    dtype: Any = ad.bfloat16  # what a context has that names none
    cache = True
    depth = 0  # contexts that are open


_thread = _OfThread()


def settings():
    """(enabled, dtype, whether casts of leaves are kept) in this thread."""
    here = _C._autocast()
    return (False, _thread.dtype, _thread.cache) if here is None else here[:3]


def change(enabled=None, dtype=None, cache=None) -> None:
    """Change some of the settings of this thread."""
    new = [a if b is None else b for a, b in zip(settings(), (enabled, dtype, cache), strict=True)]
    enabled, _thread.dtype, _thread.cache = new
    _C._set_autocast(enabled or _thread.depth > 0, enabled, _thread.dtype, _thread.cache, None)


def nest(by) -> int:
    """Count one more context as open, or one less; how many are."""
    _thread.depth += by
    change()
    return _thread.depth


def check_device(device_type) -> str:
    """The name of a kind of device, which need not be there."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if device_type != "cuda":
        ad.device(device_type)
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast is there for a kind of device: "cpu".

    Parameters
    ----------
    device_type : str

    Returns
    -------
    bool

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.amp.is_autocast_available("cpu"), ad.amp.is_autocast_available("cuda")
    (True, False)
    """
    return check_device(device_type) == "cpu"


class autocast:
    """A context, or decorator, for mixed precision.

    Products, convolutions and attention get floating-point arguments in `dtype`; losses, norms of matrices and the like in
    float32; all other functions as they come. float64, complex numbers and integers are left as they are. Weights stay in
    float32 and are converted once in the outermost context (until they are written), so that their gradients are float32.

    Parameters
    ----------
    device_type : str
        "cpu". For other devices the context does nothing.
    dtype : dtype, optional
        bfloat16 or float16; by default that of the context around, or bfloat16.
    enabled : bool
        False switches it off in the scope.
    cache_enabled : bool, optional
        Whether converted weights are kept.

    Notes
    -----
    The backward pass belongs outside of the context; inside, it runs in the types of the forward pass too. Calls with
    ``out=`` and in place are done as they stand.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.ones(2, 2)
    >>> with ad.autocast("cpu"):
    ...     low = a @ a
    ...     with ad.autocast("cpu", enabled=False):
    ...         full = a @ a
    >>> low.dtype, full.dtype
    (adjoint.bfloat16, adjoint.float32)
    >>> @ad.autocast("cpu", dtype=ad.float16)
    ... def product(x):
    ...     return x @ x
    >>> product(a).dtype
    adjoint.float16
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = check_device(device_type)
        self.fast_dtype = settings()[1] if dtype is None else dtype
        self._cache_enabled = settings()[2] if cache_enabled is None else cache_enabled
        self._enabled = enabled
        self._before: list = []
        reason = None
        if self.device == "cuda":
            reason = "CUDA is not available or torch_xla is imported. Disabling autocast."
        elif self.device != "cpu":
            reason = f"{self.device} is not available: it is there for the CPU alone. Disabling autocast."
        elif self.fast_dtype not in SUPPORTED:
            reason = (
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"CPU Autocast only supports dtypes of {switches.package}.bfloat16, {switches.package}.float16 currently."
            )
        if enabled and reason:
            from warnings import warn

            warn(reason, UserWarning, stacklevel=2)
            self._enabled = False

    def __enter__(self) -> Any:
        if self.device == "cpu":
            self._before.append(_C._autocast())
            _thread.depth += 1
            _C._set_autocast(True, self._enabled, self.fast_dtype, self._cache_enabled, None)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.device == "cpu":
            before = self._before.pop()
            _thread.depth -= 1
            if before is None:
                _C._set_autocast(False, False, self.fast_dtype, True, None)
            else:
                _C._set_autocast(True, *before)

    def __call__(self, func: Callable[..., Any]) -> Any:
        from functools import wraps

        @wraps(func)
        def decorated(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return decorated


def _converted(value, dtype):
    if isinstance(value, ad.Tensor):
        wide = value.is_floating_point() and value.dtype != ad.float64
        return value.to(dtype) if wide else value
    if isinstance(value, dict):
        return {_converted(k, dtype): _converted(v, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_converted(v, dtype) for v in value]
        return made if isinstance(value, list) else tuple(made)
    return value


def custom_fwd(fwd: Any = None, *, device_type: Any, cast_inputs: Any = None) -> Any:
    """Decorate `forward` of a `Function`, so that `backward` under `custom_bwd` runs in the same autocast state.

    Parameters
    ----------
    fwd : callable
    device_type : str
    cast_inputs : dtype, optional
        Under autocast, convert floating-point tensors among the arguments to this type and run with autocast off.

    Returns
    -------
    callable
        The decorated function, or a decorator where `fwd` is left out.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Half(ad.autograd.Function):
    ...     @staticmethod
    ...     @ad.amp.custom_fwd(device_type="cpu", cast_inputs=ad.float32)
    ...     def forward(ctx, x):
    ...         return x * 0.5
    ...
    ...     @staticmethod
    ...     @ad.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, gradient):
    ...         return gradient * 0.5
    >>> with ad.autocast("cpu"):
    ...     Half.apply(ad.ones(2, dtype=ad.bfloat16)).dtype
    adjoint.float32
    """
    from functools import partial, wraps

    check_device(device_type)
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def decorated(*args, **kwargs):
        enabled, dtype, _ = settings()
        enabled = enabled and device_type == "cpu"
        args[0]._dtype = dtype
        if cast_inputs is None or not enabled:
            args[0]._fwd_used_autocast = enabled
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(*_converted(args, cast_inputs), **_converted(kwargs, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: Any) -> Any:
    """Decorate `backward` of a `Function` whose `forward` is under `custom_fwd`: it runs in the autocast state of `forward`.

    Parameters
    ----------
    bwd : callable
    device_type : str

    Returns
    -------
    callable
        The decorated function, or a decorator where `bwd` is left out.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Twice(ad.autograd.Function):
    ...     @staticmethod
    ...     @ad.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     @ad.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, gradient):
    ...         return 2 * gradient
    >>> x = ad.ones(2, requires_grad=True)
    >>> Twice.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    from functools import partial, wraps

    check_device(device_type)
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)

    @wraps(bwd)
    def decorated(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated
