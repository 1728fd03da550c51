"""`GradScaler`: scale the loss so that small float16 gradients do not underflow.

Gradients are divided by the number before they are used; where one is infinite or NaN, that step is left out and the number
is made smaller. Start reading at `GradScaler.step`.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import adjoint as ad
from adjoint._switches import switches
from adjoint._types import StateDict, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint.optim.optimizer import Optimizer

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What has been done with an optimiser since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, and unscales gradients before an optimiser takes its step.

    Parameters
    ----------
    device : str
        "cpu"; for others there is nothing to scale, and the scaler is disabled.
    init_scale : float
    growth_factor, backoff_factor : float
        What the scale is multiplied by after `growth_interval` steps without an infinite gradient, and after one with.
    growth_interval : int
    enabled : bool
        False makes all of it do nothing: `step` calls the optimiser's.

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.nn.Linear(2, 1)
    >>> optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    >>> scaler = ad.amp.GradScaler("cpu", init_scale=1024.0)
    >>> with ad.autocast("cpu", dtype=ad.float16):
    ...     loss = model(ad.ones(3, 2)).pow(2).mean()
    >>> scaler.scale(loss).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> scaler.get_scale()
    1024.0
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device != "cpu":
            from warnings import warn

            name = device.upper() if device == "cuda" else device
            warn(
                f"{switches.package}.{device}.amp.GradScaler is enabled, but {name} is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if self._enabled:
            if not growth_factor > 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if not backoff_factor < 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Any = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Any = None
        self._per_optimizer_states: dict = {}

    def _check_scale(self, what):
        if self._scale is None:
            raise AssertionError(
                f"Attempted {what} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def _start(self):
        self._scale = ad.tensor(self._init_scale, dtype=ad.float32)
        self._growth_tracker = ad.tensor(self._init_growth_tracker, dtype=ad.int32)

    def _state_of(self, optimizer):
        return self._per_optimizer_states.setdefault(
            id(optimizer), {"stage": OptState.READY, "found_inf_per_device": {}}
        )

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or those in nested lists and tuples, by the scale.

        Parameters
        ----------
        outputs : Tensor, or container of Tensors

        Returns
        -------
        Tensor, or container of Tensors
        """
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._start()
        if isinstance(outputs, ad.Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            made = map(self.scale, outputs)
            return type(outputs)(made)
        try:
            iter(outputs)
        except TypeError:
            raise ValueError("outputs must be a Tensor or an iterable of Tensors") from None
        return map(self.scale, outputs)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, for instance to clip them.

        Raises
        ------
        RuntimeError
            It has been done already since the last `update`, or the step has been taken.
        ValueError
            Gradients are float16: the parameters should be float32.
        """
        if not self._enabled:
            return
        self._check_scale("unscale_")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state["found_inf_per_device"] = self._unscale(optimizer)
        state["stage"] = OptState.UNSCALED

    def _unscale(self, optimizer, allow_fp16=False):
        inverse = 1.0 / self._scale.item()
        found = None
        with ad.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    gradient = parameter.grad
                    if gradient is None:
                        continue
                    if gradient.dtype == ad.float16 and not allow_fp16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    gradient.mul_(inverse)
                    found = found or not bool(ad.isfinite(gradient).all())
        return {} if found is None else {ad.device("cpu"): ad.tensor(float(found))}

    def _found_inf(self, optimizer):
        return any(flag.item() for flag in self._state_of(optimizer)["found_inf_per_device"].values())

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Unscale unless that is done, and call ``optimizer.step`` unless a gradient is infinite or NaN.

        Parameters
        ----------
        *args, **kwargs
            What the optimiser's `step` is given.

        Returns
        -------
        What ``optimizer.step`` returns; None where it was not called.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if self._found_inf(optimizer) else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the scale: to `new_scale`, or by what the steps since the last update have found."""
        if not self._enabled:
            return
        self._check_scale("update")
        if new_scale is not None:
            if isinstance(new_scale, ad.Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
                raise AssertionError(
                    f"new_scale should be a float or a 1-element {switches.package}.FloatTensor "
                    "with requires_grad=False."
                )
            with ad.no_grad():
                self._scale.fill_(float(new_scale))
        else:
            found = [
                flag.item()
                for state in self._per_optimizer_states.values()
                for flag in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._grow(any(found))
        self._per_optimizer_states = {}

    def _grow(self, found_inf):
        scale, tracker = self._scale.item(), self._growth_tracker.item() + 1
        if found_inf:
            scale, tracker = scale * self._backoff_factor, 0
        elif tracker == self._growth_interval:
            # A scale that float32 cannot hold would make every gradient infinite.
            grown = scale * self._growth_factor
            scale, tracker = (grown if grown <= ad.finfo(ad.float32).max else scale), 0
        self._scale.fill_(scale)
        self._growth_tracker.fill_(tracker)

    def get_scale(self) -> float:
        """The scale; 1 where the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after `growth_interval` steps without infinities."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set `get_growth_factor`."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a step with infinities."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set `get_backoff_factor`."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many steps without infinities come before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set `get_growth_interval`."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict:
        """Scale, factors and counts; empty where the scaler is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._start()

    def __getstate__(self) -> Any:
        if self._per_optimizer_states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update()."
            )
        state = dict(vars(self))
        if self._enabled:
            state["_init_scale"], state["_init_growth_tracker"] = self.get_scale(), self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state
