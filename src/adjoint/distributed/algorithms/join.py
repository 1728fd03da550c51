"""`Join`: ranks with different numbers of inputs. A rank that has run out shadows the collectives of the others.

Start reading at `Join.__exit__`.
"""

from __future__ import annotations

import warnings
from collections import namedtuple

import adjoint as ad
from adjoint.distributed import _functions as collectives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Join", "JoinHook", "Joinable"]

_JoinConfig = namedtuple("_JoinConfig", "enable throw_on_early_termination is_first_joinable")
_OFF = _JoinConfig(False, False, False)


class JoinHook:
    """What a rank without inputs does: `main_hook` for each step of the others, `post_hook` at the end."""

    def main_hook(self) -> None:
        """Take part in the collectives of one step."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once all ranks have run out of inputs."""


class Joinable:
    """The base of what can take part in `Join`; it calls `Join.notify_join_context` before the collectives of each step."""

    def __init__(self) -> None:
        object.__setattr__(self, "_join_config", _OFF)

    def join_hook(self, **kwargs) -> JoinHook:
        """The hook for a rank without inputs."""
        raise NotImplementedError

    @property
    def join_device(self):
        """The device of the messages."""
        raise NotImplementedError

    @property
    def join_process_group(self):
        """The process group."""
        raise NotImplementedError


class Join:
    """A context for ranks with different numbers of inputs.

    Parameters
    ----------
    joinables : list of Joinable
    enable : bool
        False: nothing is done.
    throw_on_early_termination : bool
        Whether all ranks raise as soon as one has no inputs.
    **kwargs
        For the hooks.
    """

    def __init__(
        self, joinables: Any, enable: Any = True, throw_on_early_termination: Any = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = {id(j.join_process_group) for j in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables, self._enable, self._throw = joinables, enable, throw_on_early_termination
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        self._group = joinables[0].join_process_group
        for i, j in enumerate(joinables):
            object.__setattr__(j, "_join_config", _JoinConfig(enable, throw_on_early_termination, i == 0))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        try:
            if not self._enable or kind is not None:
                return
            last, steps = True, 0
            while (left := self._count_others()) > 0:
                if self._throw:
                    self._raise()
                last = False
                for hook in self._hooks:
                    hook.main_hook()
                steps += 1
                if steps == 1000:
                    warnings.warn(
                        f"Detected uneven input skew of greater than 1000: {left} ranks have at least 1000 more inputs than this one",
                        stacklevel=2,
                    )
            for hook in self._hooks:
                hook.post_hook(last)
        finally:
            for j in self._joinables:
                object.__setattr__(j, "_join_config", _OFF)

    def _count_others(self):
        told = ad.zeros(1)
        collectives.all_reduce(told, group=self._group)
        if self._throw:
            # Those with inputs ask whether any has none.
            collectives.all_reduce(ad.ones(1), group=self._group)
        return int(told)

    def _raise(self):
        raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable):
        """Announce that this rank has inputs for one more step."""
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        group = joinable.join_process_group
        told = ad.ones(1)
        collectives.all_reduce(told, group=group)
        if config.throw_on_early_termination:
            without = ad.zeros(1)
            collectives.all_reduce(without, group=group)
            if float(without):
                raise RuntimeError(
                    f"Detected at least one rank that exhausted inputs: rank {group.rank()} still has some. Throwing across all ranks."
                )
        return None
