"""Finding where a NaN or an error of the backward pass comes from: `detect_anomaly`, `set_detect_anomaly`."""

from __future__ import annotations

from adjoint import _C
from adjoint._publish.register import listing
from adjoint._types import Any

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]
__dir__ = listing(__name__)


class set_detect_anomaly:
    """Look for anomalies from now on, or not; as a context manager, until it is left.

    Parameters
    ----------
    mode : bool
    check_nan : bool
        Raise when a backward function returns NaN.

    See Also
    --------
    detect_anomaly

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.autograd.set_detect_anomaly(True):
    ...     ad.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        from adjoint.autograd import _lines

        self.before = (*_C._detect_anomaly(), _C._is_recording_lines(), _lines.whole_stack)
        _lines.whole_stack = bool(mode)
        _C._set_record_lines(bool(mode), _lines.where)
        _C._set_detect_anomaly(bool(mode), bool(check_nan))

    def __enter__(self) -> Any:
        return None

    def __exit__(self, *exception: Any) -> None:
        from adjoint.autograd import _lines

        mode, check_nan, recording, _lines.whole_stack = self.before
        _C._set_record_lines(recording, None)
        _C._set_detect_anomaly(mode, check_nan)


class detect_anomaly:
    """While this context is open, an error or a NaN in a backward pass names the backward function, and a warning shows
    the traceback of the forward call that it belongs to. Slow: for debugging.

    Parameters
    ----------
    check_nan : bool
        Raise a RuntimeError when a backward function returns NaN.

    Examples
    --------
    >>> import warnings
    >>> import adjoint as ad
    >>> x = ad.zeros(1, requires_grad=True)
    >>> with warnings.catch_warnings(), ad.autograd.detect_anomaly():
    ...     warnings.simplefilter("ignore")
    ...     try:
    ...         (ad.sqrt(x) * 0).sum().backward()
    ...     except RuntimeError as error:
    ...         print(str(error)[:44])
    Function 'SqrtBackward0' returned nan values
    """

    def __init__(self, check_nan: bool = True) -> None:
        from warnings import warn

        self.check_nan = check_nan
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> Any:
        self.setting = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *exception: Any) -> None:
        self.setting.__exit__(*exception)


def is_anomaly_enabled() -> bool:
    """Whether backward passes detect anomalies; see `detect_anomaly`.

    Returns
    -------
    bool

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.is_anomaly_enabled()
    False
    """
    return _C._detect_anomaly()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection, where enabled, raises for NaN gradients.

    Returns
    -------
    bool

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.is_anomaly_check_nan_enabled()
    True
    """
    return _C._detect_anomaly()[1]
