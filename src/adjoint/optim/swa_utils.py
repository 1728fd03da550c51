"""Averaged models: stochastic weight averaging and exponential moving averages.

`AveragedModel` keeps the average, `SWALR` the rate of the optimiser meanwhile, and `update_bn` recomputes the
statistics of batch normalisation for it.
"""

from __future__ import annotations

import math
from copy import deepcopy

import adjoint as ad
from adjoint._publish.register import listing
from adjoint._types import Any, Callable, Device, Iterable, Sequence, Tensor
from adjoint.optim.optimizer import Optimizer

from ..nn.module import Module
from .lr_scheduler._base import LRScheduler, _each_group

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
__dir__ = listing(__name__)


def get_ema_avg_fn(decay: float = 0.999) -> Any:
    """The exponential moving average of one parameter: decay · average + (1 - decay) · parameter.

    Parameters
    ----------
    decay : float

    Returns
    -------
    callable
        Of the average, the parameter and the number of averages so far.

    Raises
    ------
    ValueError
        `decay` is outside [0, 1].

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optim.swa_utils.get_ema_avg_fn(0.75)(ad.tensor(1.0), ad.tensor(5.0), 1)
    tensor(2.)
    """
    _check_decay(decay)

    def ema_update(ema_param, current_param, num_averaged):
        with ad.no_grad():
            return ema_param * decay + current_param * (1 - decay)

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Any:
    """The exponential moving average of a list of parameters, in place.

    Parameters
    ----------
    decay : float

    Returns
    -------
    callable
        Of a list of averages, the list of parameters and the number of averages so far.

    Raises
    ------
    ValueError
        `decay` is outside [0, 1].

    Examples
    --------
    >>> import adjoint as ad
    >>> average = [ad.tensor([1.0])]
    >>> ad.optim.swa_utils.get_ema_multi_avg_fn(0.75)(average, [ad.tensor([5.0])], 1)
    >>> average[0].item()
    2.0
    """
    return _over_lists(get_ema_avg_fn(decay))


def get_swa_avg_fn() -> Any:
    """The mean of all values of one parameter so far.

    Returns
    -------
    callable
        Of the average, the parameter and the number of averages so far.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optim.swa_utils.get_swa_avg_fn()(ad.tensor(1.0), ad.tensor(5.0), 1)
    tensor(3.)
    """

    def swa_update(averaged_param, current_param, num_averaged):
        with ad.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn() -> Any:
    """The mean of all values of the parameters of a list so far, in place.

    Returns
    -------
    callable
        Of a list of averages, the list of parameters and the number of averages so far.

    Examples
    --------
    >>> import adjoint as ad
    >>> average = [ad.tensor(1.0)]
    >>> ad.optim.swa_utils.get_swa_multi_avg_fn()(average, [ad.tensor(5.0)], 1)
    >>> average
    [tensor(3.)]
    """
    return _over_lists(get_swa_avg_fn())


def _check_decay(decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _over_lists(average):
    def update(averaged_params, current_params, num_averaged):
        with ad.no_grad():
            for averaged, current in zip(averaged_params, current_params, strict=True):
                averaged.copy_(average(averaged, current, num_averaged))

    return update


class AveragedModel(Module):
    """A copy of a model that holds an average of its parameters.

    Parameters
    ----------
    model : Module
    device : device, optional
        Where the average is kept.
    avg_fn : callable (average, parameter, number of models averaged) → average, optional
        The mean of all models without it.
    multi_avg_fn : callable (averages, parameters, number) → None, optional
        The same for whole lists, in place.
    use_buffers : bool
        Average the buffers too; otherwise they are those of the last model.

    Raises
    ------
    AssertionError
        Both functions are given.

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.nn.Linear(1, 1, bias=False)
    >>> average = ad.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = model.weight.data.fill_(value)
    ...     average.update_parameters(model)
    >>> average.module.weight.item()
    3.0
    """

    def __init__(
        self,
        model: Module,
        device: Device | None = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ad.tensor(0, dtype=ad.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The averaged model's result."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of `model` into the average; the first time they are copied."""
        ours: list[Any] = list(self.module.parameters())
        theirs: list[Any] = list(model.parameters())
        buffers = list(zip(self.module.buffers(), model.buffers(), strict=True))
        if self.use_buffers:
            ours += [mine for mine, _ in buffers]
            theirs += [other for _, other in buffers]
        with ad.no_grad():
            theirs = [other.detach().to(mine.device) for mine, other in zip(ours, theirs, strict=True)]
            if self.n_averaged.item() == 0:
                for mine, other in zip(ours, theirs, strict=True):
                    mine.copy_(other)
            elif self.multi_avg_fn is None:
                _over_lists(self.avg_fn or get_swa_avg_fn())(ours, theirs, self.n_averaged)
            else:
                self.multi_avg_fn([mine.detach() for mine in ours], theirs, self.n_averaged)
            if not self.use_buffers:
                for mine, other in buffers:
                    mine.copy_(other)
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Device | None = None) -> None:
    """Recompute the running statistics of batch normalisation over one pass through the data.

    Parameters
    ----------
    loader : iterable of batches; of a list or tuple, the first item is the input
    model : Module
    device : device, optional
        Where the batches go.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optim.swa_utils.update_bn([ad.ones(2, 3)], ad.nn.Linear(3, 1))
    """
    layers = [
        layer
        for layer in model.modules()
        if getattr(layer, "running_mean", None) is not None and hasattr(layer, "reset_running_stats")
    ]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean of all batches
    with ad.no_grad():
        for batch in loader:
            if isinstance(batch, (list, tuple)):
                batch = batch[0]
            model(batch if device is None else batch.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the rate at the start to `swa_lr` within `anneal_epochs` epochs, then constant.

    Parameters
    ----------
    optimizer : Optimizer
    swa_lr : float, or a list of one for each group
    anneal_epochs : int
    anneal_strategy : 'cos' or 'linear'
    last_epoch : int

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0)
    >>> scheduler = ad.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.75]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, _each_group(optimizer, "swa_lr", swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step):
        """How much of `swa_lr` is in the rate after so many steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        self._check_within_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, self._rates(), strict=True):
            target = group["swa_lr"]
            start = target if before == 1 else (rate - before * target) / (1 - before)
            rates.append(now * target + (1 - now) * start)
        return rates
