"""Modules that learn the size of their input from the first one: `LazyLinear`, `LazyConv2d` and so on.

Their parameters are `UninitializedParameter` until a forward pass, or a state dict, says how large they are; then the module becomes
an ordinary one. Start reading at `LazyModuleMixin`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Any, Device, DType, Tensor

from .convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from .linear import Linear
from .normalization.batch_norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint._C import ModuleMembers
else:
    ModuleMembers = object

__all__ = [
    "LazyLinear",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


_BATCH_NORMS = (BatchNorm1d, BatchNorm2d, BatchNorm3d)
_INSTANCE_NORMS = (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)


class LazyModuleMixin(ModuleMembers):
    """What makes a module lazy: its parameters get their sizes before its first forward pass.

    A class derives from this and from an ordinary module, names in `cls_to_become` the class that it is afterwards, and says in
    `initialize_parameters`, which takes the arguments of ``forward``, how large the parameters are.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.LazyLinear(2)
    >>> layer.has_uninitialized_params()
    True
    >>> _ = layer(ad.ones(4, 3))
    >>> type(layer).__name__, tuple(layer.weight.shape)
    ('Linear', (2, 3))
    """

    if TYPE_CHECKING:
        cls_to_become: Any
    else:
        cls_to_become = None
    _parameters: dict
    _buffers: dict

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._persistent_tensors():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        for name, tensor in list(self._persistent_tensors()):
            value = state_dict.get(prefix + name)
            if value is not None and is_lazy(tensor) and not is_lazy(value):
                tensor.materialize(value.shape)

    def _load_tensor(self, name, key, tensor, value, assign, error_msgs):
        # Both without a size: there is nothing to copy.
        if not (is_lazy(tensor) and is_lazy(value)):
            super()._load_tensor(name, key, tensor, value, assign, error_msgs)  # type: ignore[misc]  # of the module beside

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their sizes; every lazy class has its own."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no size yet."""
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` are those of the first input.

    Parameters
    ----------
    out_features : int
    bias : bool
    device, dtype : where and of which type the parameters are

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.nn.LazyLinear(2)(ad.ones(4, 3)).shape)
    (4, 2)
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Device | None = None, dtype: DType | None = None
    ) -> None:
        # No parameter is drawn before it has its size.
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Redraw weight and bias, once they have a size."""
        if self.in_features and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """The weight is (out_features, size of the input's last dimension)."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            weight: Any = self.weight
            bias: Any = self.bias
            weight.materialize((self.out_features, self.in_features))
            if bias is not None:
                bias.materialize((self.out_features,))
            self.reset_parameters()
        if not self.in_features:
            self.in_features = input.shape[-1]


class _LazyConvolution(LazyModuleMixin):
    def __init__(self, out_channels: int, *args: Any, **kwargs: Any) -> None:
        # After the channels come kernel size, stride, padding, one more, groups and then bias. No bias is drawn yet.
        given, position = list(args), 5
        if len(given) > position:
            bias, given[position] = given[position], False
        else:
            bias = kwargs.pop("bias", True)
            kwargs["bias"] = False
        where: dict[str, Any] = {name: kwargs.get(name) for name in ("device", "dtype")}
        super().__init__(0, 0, *given, **kwargs)
        if out_channels % self.groups:
            raise ValueError("out_channels must be divisible by groups")
        self.out_channels = out_channels
        self.weight = UninitializedParameter(**where)
        if bias:
            self.bias = UninitializedParameter(**where)

    def reset_parameters(self) -> None:
        """Redraw weight and bias, once they have a size."""
        if self.in_channels and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """The weight takes as many channels as the input has."""
        if self.has_uninitialized_params():
            n = self._n
            if input.dim() not in (n + 1, n + 2):
                raise RuntimeError(
                    f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of "
                    f"size: {input.shape}"
                )
            self.in_channels = input.shape[-n - 1]
            if self.in_channels % self.groups:
                raise ValueError("in_channels must be divisible by groups")
            first, second = self.out_channels, self.in_channels
            if self._transposed:
                first, second = second, first
            self.weight.materialize((first, second // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyNorm(LazyModuleMixin):
    num_features: int

    def __init__(
        self,
        eps: float = 1e-05,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**where)
            if bias:
                self.bias = UninitializedParameter(**where)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**where)
            self.running_var = UninitializedBuffer(**where)
            self.num_batches_tracked = ad.tensor(0, dtype=ad.int64, device=device)

    def reset_parameters(self) -> None:
        """Reset scale, shift and running statistics, once they have a size."""
        if self.num_features and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Scale, shift and statistics are as long as the input has channels."""
        if self.has_uninitialized_params() or not self.num_features:
            self._check_input_dim(input)
            usual = issubclass(self.cls_to_become, _BATCH_NORMS)
            self.num_features = input.shape[1 if usual or input.dim() == max(self._ranks) else 0]
            for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
                if is_lazy(tensor):
                    tensor.materialize((self.num_features,))
            self.reset_parameters()


def _says(kind: type) -> str:
    """The docstring of the lazy form of a layer."""
    size, more = "`in_channels`", ""
    if issubclass(kind, (*_BATCH_NORMS, *_INSTANCE_NORMS)):
        size, more = "`num_features`", "; it has scale, shift and running statistics unless told otherwise"
    return f"""`{kind.__name__}` whose channels are those of the first input.

    Parameters are those of `{kind.__name__}` without {size}{more}.
    """


class LazyConv1d(_LazyConvolution, Conv1d):
    cls_to_become = Conv1d
    __doc__ = _says(Conv1d)


class LazyConv2d(_LazyConvolution, Conv2d):
    cls_to_become = Conv2d
    __doc__ = _says(Conv2d)


class LazyConv3d(_LazyConvolution, Conv3d):
    cls_to_become = Conv3d
    __doc__ = _says(Conv3d)


class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d):
    cls_to_become = ConvTranspose1d
    __doc__ = _says(ConvTranspose1d)


class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d):
    cls_to_become = ConvTranspose2d
    __doc__ = _says(ConvTranspose2d)


class LazyConvTranspose3d(_LazyConvolution, ConvTranspose3d):
    cls_to_become = ConvTranspose3d
    __doc__ = _says(ConvTranspose3d)


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    cls_to_become = BatchNorm1d
    __doc__ = _says(BatchNorm1d)


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    cls_to_become = BatchNorm2d
    __doc__ = _says(BatchNorm2d)


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    cls_to_become = BatchNorm3d
    __doc__ = _says(BatchNorm3d)


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    cls_to_become = InstanceNorm1d
    __doc__ = _says(InstanceNorm1d)


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    cls_to_become = InstanceNorm2d
    __doc__ = _says(InstanceNorm2d)


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    cls_to_become = InstanceNorm3d
    __doc__ = _says(InstanceNorm3d)
