"""Short-time Fourier transforms, as functions and methods. What they do is in adjoint.fft, imported when they are first called."""

from __future__ import annotations

from adjoint._C import Tensor
from adjoint._publish.register import composition

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


@composition
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: Tensor | None = None,
) -> Tensor:
    """The short-time Fourier transform: the spectra of overlapping frames of a signal.

    Parameters
    ----------
    input : Tensor, (T,) or (B, T)
        A signal, or a batch of them; real or complex.
    n_fft : int
        The length of a piece.
    hop_length : int, optional
        From the start of one piece to the next; a quarter of `n_fft` unless given.
    win_length, window : int, Tensor, optional
        The weights of a piece, in the middle of it where they are fewer; ones unless given.
    center : bool
        Whether piece t is around place t · hop_length: the signal is continued at both ends, as `pad_mode` says.
    normalized : bool
        Whether transforms are divided by √n_fft.
    onesided : bool, optional
        Whether the half of the spectrum is left out that is the conjugate of the rest; so for real signals, unless given.
    return_complex : bool
        To be given for real signals; False returns the real and imaginary parts as a last dimension.
    align_to_window : bool, optional
        Without `center`: whether the first piece's window, not the piece, begins at the start.

    Returns
    -------
    Tensor, (frequencies, pieces) or (B, frequencies, pieces)

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.stft(ad.ones(8), 4, window=ad.hann_window(4), return_complex=True).abs()[:, 0]
    tensor([2., 1., 0.])
    """
    from adjoint.fft import _short_time

    return _short_time.stft(
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
    )


@composition
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The inverse short-time Fourier transform, in the sense of least squares.

    Parameters are those of `stft`; `length` is that of the signal, which need not be a multiple of `hop_length`.

    Raises
    ------
    RuntimeError
        Where the windows leave a gap between them.
    """
    from adjoint.fft import _short_time

    return _short_time.istft(
        input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
    )
