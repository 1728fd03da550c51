"""Adjoint: tensors, operations that record what is done to them, and a reverse-mode engine, with torch's interface.

    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> y = x**2 + 2 * x + 1
    >>> y.backward()
    >>> x.grad
    tensor(8.)

The operators come from the core as they are declared there; what Python composes of them is in `ops`, by family. `nn`,
`optim`, `linalg` and the other subpackages are imported when they are first used.
"""

# ruff: noqa: F401 - what is imported here is published.
# Importing this file is on the clock: what not every program needs is imported later.
from math import e, inf, nan, pi

try:
    from adjoint import _C
except ImportError as error:
    if getattr(error, "name", "") == "adjoint" and "partially initialized" in str(error):
        raise ImportError(
            f"the compiled core of Adjoint is not in {__path__[0]}: run `pip install .` in the folder that holds src/ "
            "(or see CONTRIBUTING for a build in place)",
            name="adjoint._C",
        ) from None
    raise
from adjoint._C import (
    Generator,
    OutOfMemoryError,
    Size,
    Tensor,
    can_cast,
    dtype,
    empty_cache,
    get_default_dtype,
    get_num_threads,
    is_grad_enabled,
    is_inference_mode_enabled,
    memory_statistics,
    promote_types,
    reset_peak_memory_statistics,
    set_default_dtype,
    set_memory_limit,
    set_num_threads,
)
from adjoint._version import __version__

newaxis = None

# Every operator that the core declares, and every element type.
globals().update(
    (name, value)
    for name, value in vars(_C).items()
    if isinstance(value, (_C.Operator, dtype)) and not name.startswith("_")
)

from adjoint import _blas, _moved, _tensor, ops  # noqa: E402
from adjoint import _types as _annotations  # noqa: E402  # before others: _device and it need each other
from adjoint._publish import register as _register  # noqa: E402
from adjoint._tensor.device import (  # noqa: E402
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    get_default_device,
    layout,
    memory_format,
    preserve_format,
    set_default_device,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from adjoint._tensor.dtypes import finfo, iinfo  # noqa: E402
from adjoint.autograd.grad_mode import (  # noqa: E402
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)

for _module in (_tensor.data, _tensor.creation, _tensor.random):
    globals().update((name, getattr(_module, name)) for name in _module.__all__)
globals().update(_register.functions)
globals().update(_tensor.dtypes.ALIASES)
legacy_contiguous_format = contiguous_format  # torch's older name
del _module

_LAZY = (
    "amp",
    "array_api",
    "as_torch",
    "autograd",
    "distributed",
    "distributions",
    "fft",
    "func",
    "fx",
    "hub",
    "library",
    "linalg",
    "masked",
    "models",
    "multiprocessing",
    "nn",
    "optim",
    "overrides",
    "quasirandom",
    "random",
    "return_types",
    "safetensors",
    "scipy",
    "serialization",
    "signal",
    "sparse",
    "special",
    "testing",
    "tree",
    "utils",
)


#: Functions whose modules are imported when they are first asked for.
_LATER = {
    "autocast": "adjoint.amp",
    "bug_report": "adjoint._report",
    "jit": "adjoint._replay",
    "load": "adjoint.serialization",
    "save": "adjoint.serialization",
    "set_printoptions": "adjoint._tensor.printing",
    "show_config": "adjoint._report",
    "vmap": "adjoint.func",
    "is_anomaly_enabled": "adjoint.autograd.anomaly_mode",
    "is_anomaly_check_nan_enabled": "adjoint.autograd.anomaly_mode",
}
for _names, _home in (
    (
        "adaptive_avg_pool1d alpha_dropout avg_pool1d bilinear channel_shuffle cosine_similarity "
        "feature_alpha_dropout max_pool1d max_pool1d_with_indices max_pool2d max_pool3d pairwise_distance pdist pixel_shuffle "
        "pixel_unshuffle prelu rms_norm rrelu rrelu_",
        "nn.functional",
    ),
    ("gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell", "nn.rnn.functions"),
    (
        "adaptive_max_pool1d alpha_dropout_ batch_norm cosine_embedding_loss ctc_loss dropout_ feature_alpha_dropout_ "
        "group_norm hinge_embedding_loss instance_norm kl_div margin_ranking_loss poisson_nll_loss triplet_margin_loss",
        "as_torch.past.toplevel",
    ),
    (
        "dsmm hspmm hsmm smm sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor spmm",
        "sparse._toplevel",
    ),
    ("bartlett_window blackman_window hamming_window hann_window kaiser_window", "signal._periodic"),
):
    _LATER.update(dict.fromkeys(_names.split(), "adjoint." + _home))
del _names, _home


def __getattr__(name):
    if name in _LATER:
        return getattr(_moved.import_module(_LATER[name]), name)
    if name.endswith("Tensor"):
        from adjoint.as_torch._legacy import TYPES

        if name in TYPES:
            return TYPES[name]
    plain = globals().get(name[:-1]) if name.endswith("_") else None
    if isinstance(plain, (_C.Operator, _C.Composition)) and hasattr(Tensor, name):
        # Every in-place form as a function: relu_(x).
        return getattr(Tensor, name)
    if name in _LAZY:
        try:
            return _moved.import_module("adjoint." + name)
        except ModuleNotFoundError as error:
            if error.name != "adjoint." + name:
                raise
    raise AttributeError(f"module 'adjoint' has no attribute {name!r}")


def __dir__():
    here = (
        name for name, value in globals().items() if not name.startswith("_") and type(value) is not type(_C)
    )
    return sorted({*here, *_LAZY, *_LATER, "__version__"})
