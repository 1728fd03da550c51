"""Transforms over short times: `stft` and its inverse, over pieces of a signal that a window cuts out.

Pieces are views (`unfold`), and the inverse adds them up where they overlap, divided by the sum of the squared windows. Start
reading at `stft`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._publish.arguments import need_tensors
from adjoint.fft import fft, ifft, irfft, rfft

__all__ = ["istft", "stft"]


def _window(name, window, length, n_fft, dtype):
    """The window, continued by zeros on both sides to the length of a transform."""
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}(): expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is None:
        window = _C._full((length,), 1.0, dtype=dtype)
    before = (n_fft - length) // 2
    return window if length == n_fft else _C.constant_pad_nd(window, [before, n_fft - length - before])


def _real(dtype):
    return {_C.complex64: _C.float32, _C.complex128: _C.float64}.get(dtype, dtype)


def stft(
    input,
    n_fft,
    hop_length,
    win_length,
    window,
    center,
    pad_mode,
    normalized,
    onesided,
    return_complex,
    align_to_window,
):
    need_tensors("stft", input=input)
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    complex_ = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs: True for complex values, False for pairs "
                "of real and imaginary parts in a last dimension"
            )
        return_complex = True
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"stft(): expected a tensor of floating point or complex values, but got {input.dtype}"
        )
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft(): expected a 1D or 2D tensor, but got {input.ndim}D")
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if onesided is None:
        onesided = not complex_
    elif onesided and complex_:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise RuntimeError(
            f"stft(): expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )
    x = input if input.ndim == 2 else input[None]
    if center and n_fft > 0:
        from adjoint.nn.functional import pad

        x = pad(x[None], (n_fft // 2, n_fft // 2), pad_mode)[0]
    elif align_to_window:
        more = (n_fft - win_length) // 2
        x = _C.constant_pad_nd(x, [more, more])
    if not 0 < n_fft <= x.shape[1]:
        raise RuntimeError(f"stft(): expected 0 < n_fft < {x.shape[1]}, but got n_fft={n_fft}")
    if hop_length <= 0:
        raise RuntimeError(f"stft(): expected hop_length > 0, but got hop_length={hop_length}")
    weights = _window("stft", window, win_length, n_fft, _real(x.dtype))
    pieces = x.unfold(-1, n_fft, hop_length)
    if window is not None or win_length != n_fft:
        pieces = pieces * weights
    norm = "ortho" if normalized else "backward"
    found = (rfft if onesided else fft)(pieces, norm=norm).transpose(1, 2)
    found = found if input.ndim == 2 else found[0]
    return found if return_complex else _C.view_as_real(found)


def istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex):
    need_tensors("istft", input=input)
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"istft(): expected a tensor of 2 or 3 dimensions, frequencies before times, but got {input.ndim}"
        )
    if not input.numel():
        raise RuntimeError("istft(): input tensor cannot be empty.")
    if length is not None and length <= 0:
        raise RuntimeError(f"istft(): expected length > 0, but got length={length}")
    complex_window = window is not None and window.is_complex()
    if complex_window and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    count = input.shape[-2]
    if onesided is None:
        onesided = count != n_fft
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if onesided and count != n_fft // 2 + 1:
        raise RuntimeError(
            "istft(): expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when "
            f"onesided=True, but got {count}"
        )
    if not onesided and count != n_fft:
        raise RuntimeError(
            "istft(): expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when "
            f"onesided=False, but got {count}"
        )
    if not 0 < hop_length <= win_length:
        raise RuntimeError(f"istft(): expected 0 < hop_length <= win_length, but got hop_length={hop_length}")
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise RuntimeError("istft(): Invalid window shape. window has to be 1D and length of `win_length`")
    weights = _window("istft", window, win_length, n_fft, _real(input.dtype))
    x = (input if input.ndim == 3 else input[None]).transpose(1, 2)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        pieces = ifft(x, norm=norm)
    else:
        pieces = irfft(x if onesided else x[..., : n_fft // 2 + 1], n_fft, norm=norm)
    batch, frames = pieces.shape[:2]
    total = n_fft + hop_length * (frames - 1)

    def added(pieces):
        shape = [pieces.shape[0], total]
        return _C._put_strided(pieces.contiguous(), shape, [*pieces.shape], [total, hop_length, 1], 0)

    y = added(pieces * weights)
    envelope = added((weights * weights).expand(1, frames, n_fft))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    y, envelope = y[:, start:end], envelope[:, start:end]
    if not envelope.numel() or bool((envelope.detach().abs().min() < 1e-11).any()):
        raise RuntimeError(
            "istft(): window overlap add min: 1: where pieces overlap, their squared windows add up to nothing, so that the "
            "signal cannot be found; take a smaller hop_length, or another window"
        )
    y = y / envelope
    if end > total:
        from warnings import warn

        warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please "
            "check your center and hop_length settings",
            stacklevel=3,
        )
        y = _C.constant_pad_nd(y, [0, end - total])
    return y if input.ndim == 3 else y[0]
