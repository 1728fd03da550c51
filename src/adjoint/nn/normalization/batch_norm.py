"""Normalisation with statistics of a batch, an instance or groups, as modules. Start reading at `_Statistics`."""

from __future__ import annotations

import warnings

import adjoint as ad
from adjoint._types import Any, Device, DType, Tensor
from adjoint.nn import functional, init
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LocalResponseNorm",
    "SyncBatchNorm",
]


class _Statistics(Module):
    """Scale, shift and running statistics of channels, which may be absent."""

    _ranks: tuple[int, ...] = ()
    #: torch's, since states have num_batches_tracked.
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float,
        affine: bool,
        track_running_stats: bool,
        device: Device | None,
        dtype: DType | None,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ad.empty(num_features, **made)) if affine else None)
        self.register_parameter(
            "bias", Parameter(ad.empty(num_features, **made)) if affine and bias else None
        )
        track = track_running_stats
        self.register_buffer("running_mean", ad.zeros(num_features, **made) if track else None)
        self.register_buffer("running_var", ad.ones(num_features, **made) if track else None)
        self.register_buffer(
            "num_batches_tracked", ad.tensor(0, dtype=ad.int64, device=device) if track else None
        )
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1 and the count of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the scale to 1, the shift to 0, and the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input):
        if input.ndim not in self._ranks:
            expected = " or ".join(f"{r}D" for r in self._ranks)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
        # States of before version 2 have no count of batches: it stays, or is 0 where there is none yet.
        count, key = self.num_batches_tracked, prefix + "num_batches_tracked"
        if (local_metadata.get("version") or 0) < 2 and self.track_running_stats and key not in state_dict:
            known = count is not None and not count.is_meta
            state_dict[key] = count if known else ad.tensor(0, dtype=ad.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Statistics):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        counts = self.training and self.track_running_stats
        if counts and self.momentum is None and not input.is_meta:
            momentum = 1 / (self.num_batches_tracked.item() + 1)
        tracked = self.running_mean is not None and self.running_var is not None
        training = self.training or not tracked
        keep = tracked and (not self.training or self.track_running_stats)
        result = functional.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            training,
            momentum,
            self.eps,
        )
        if counts:
            self.num_batches_tracked.add_(1)
        return result


class _InstanceNorm(_Statistics):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def _get_no_batch_dim(self):
        return self._ranks[0]

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        batched = input.ndim == self._ranks[-1]
        channels = input.shape[1 if batched else 0]
        if channels != self.num_features:
            at = f"input's size at dim={1 if batched else 0}"
            if self.affine:
                raise ValueError(
                    f"expected {at} to match num_features ({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"{at} does not match num_features. You can silence this warning by not passing in num_features, which is not "
                "used because affine=False",
                stacklevel=2,
            )
        result = functional.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result if batched else result.squeeze(0)


_BATCH = """Standardise each channel over the batch and all positions, then scale and shift.

    Source: Ioffe and Szegedy (2015). In evaluation mode running statistics take the place of the batch's.

    Parameters
    ----------
    num_features : int
        The channels.
    eps : float
    momentum : float or None
        The share of a new batch in the running statistics; None takes the plain mean over batches.
    affine : bool
        Whether there are a learned scale, starting at 1, and shift, starting at 0.
    track_running_stats : bool
        Without them the batch's are used in evaluation mode too.
    device, dtype : where and of which type parameters and buffers are
    bias : bool
        Whether there is a shift.

    Notes
    -----
    Input and output have shape {shape}; another number of dimensions raises ValueError.
    """
_INSTANCE = """Standardise each channel of each image, then scale and shift.

    Source: Ulyanov, Vedaldi and Lempitsky (2016).

    Parameters
    ----------
    num_features : int
        The channels.
    eps, momentum : float
    affine : bool
        Whether there are a learned scale, starting at 1, and shift, starting at 0.
    track_running_stats : bool
        Whether running statistics are kept, and used in evaluation mode.
    device, dtype : where and of which type parameters and buffers are
    bias : bool

    Notes
    -----
    Input and output have shape {shape}, or without N; another number of dimensions raises ValueError.
    """


class BatchNorm1d(_BatchNorm):
    _ranks = (2, 3)
    __doc__ = _BATCH.format(shape="(N, C) or (N, C, L)")


class BatchNorm2d(_BatchNorm):
    _ranks = (4,)
    __doc__ = _BATCH.format(shape="(N, C, H, W)")


class BatchNorm3d(_BatchNorm):
    _ranks = (5,)
    __doc__ = _BATCH.format(shape="(N, C, D, H, W)")


class SyncBatchNorm(_BatchNorm):
    """`BatchNorm1d` to `3d` with the statistics of all ranks of a process group.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        Like those of `BatchNorm1d`.
    process_group : ProcessGroup, optional
        The default group, where there is one; a module in a single process is a `BatchNorm1d` to `3d`.

    Notes
    -----
    Input and output have shape (N, C, …); N may differ between ranks. All ranks must call it, in training mode.

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.BatchNorm1d(4))
    >>> type(ad.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]).__name__
    'SyncBatchNorm'
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device | None = None,
        dtype: DType | None = None,
        bias: bool = True,
    ) -> None:
        if process_group is not None and not hasattr(process_group, "allreduce"):
            raise TypeError(
                f"SyncBatchNorm(): process_group must be a ProcessGroup, as distributed.new_group() makes, or None, found {process_group!r}"
            )
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    def _group(self):
        """The group whose statistics count; None where this process is alone."""
        import sys

        if self.process_group is None and "adjoint.distributed" not in sys.modules:
            return None
        from adjoint import distributed

        group = self.process_group or distributed.group.WORLD
        return group if group is not None and group.size() > 1 else None

    def forward(self, input: Tensor) -> Tensor:
        tracked = self.running_mean is not None and self.running_var is not None
        group = self._group() if self.training or not tracked else None
        if group is None:
            return super().forward(input)
        self._check_input_dim(input)
        # All ranks' sums by two messages: the count and the mean, then the variance around it, which loses no digits.
        others = [d for d in range(input.ndim) if d != 1]
        shape = [1, -1] + [1] * (input.ndim - 2)
        count = ad.full((1,), input.numel() // max(input.shape[1], 1), dtype=input.dtype)
        sums = group.sum(ad.cat([input.sum(others), count]))
        count = sums[-1].detach()
        if int(count) < 2:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {input.shape} on every rank"
            )
        mean = sums[:-1] / count
        centred = input - mean.view(shape)
        variance = group.sum((centred * centred).sum(others)) / count
        if self.training and self.track_running_stats:
            with ad.no_grad():
                self.num_batches_tracked.add_(1)
                share = self.momentum if self.momentum is not None else 1 / self.num_batches_tracked.item()
                self.running_mean.lerp_(mean.detach().to(self.running_mean.dtype), share)
                unbiased = variance.detach() * (count / (count - 1))
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            result = result * self.weight.view(shape)
        return result if self.bias is None else result + self.bias.view(shape)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch normalisation in it replaced by one of this class, which keeps its tensors.

        Parameters
        ----------
        module : Module
        process_group : ProcessGroup, optional

        Returns
        -------
        Module
        """
        result = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            for name in ("weight", "bias"):
                result._parameters[name] = module._parameters[name]
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                result._buffers[name] = module._buffers[name]
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class InstanceNorm1d(_InstanceNorm):
    _ranks = (2, 3)
    __doc__ = _INSTANCE.format(shape="(N, C, L)")


class InstanceNorm2d(_InstanceNorm):
    _ranks = (3, 4)
    __doc__ = _INSTANCE.format(shape="(N, C, H, W)")


class InstanceNorm3d(_InstanceNorm):
    _ranks = (4, 5)
    __doc__ = _INSTANCE.format(shape="(N, C, D, H, W)")


class GroupNorm(Module):
    """Standardise groups of channels of each image, then scale and shift each channel.

    Source: Wu and He (2018).

    Parameters
    ----------
    num_groups : int, a divisor of num_channels
    num_channels : int
    eps : float
    affine : bool
        Whether there are a learned scale, starting at 1, and shift, starting at 0.
    device, dtype : where and of which type the parameters are
    bias : bool
        Whether there is a shift.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-05,
        affine: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ad.empty(num_channels, **made)) if affine else None)
        self.register_parameter(
            "bias", Parameter(ad.empty(num_channels, **made)) if affine and bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to 1 and the shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divide by (k + alpha · mean of squares of `size` neighbouring channels)^beta.

    Parameters
    ----------
    size : int
    alpha, beta, k : float
    """

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
