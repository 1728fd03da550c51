"""Distributions with a parameter `probs` or `logits`: either is given, and the other follows when it is asked for."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Any, Size, Tensor
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


class ProbsOrLogits:
    """Parameters `probs` and `logits`, of which one is given: log odds, for each element."""

    _set: Any

    _binary = True
    _carried: tuple = ("_given",)

    def _need_one(self, probs, logits):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._given = "logits" if probs is None else "probs"

    def _set_probs(self, validate_args, probs, logits, **others):
        self._need_one(probs, logits)
        self._set(validate_args, probs=probs, logits=logits, **others)

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def _param(self):
        return getattr(self, self._given)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.shape


class Choices(ProbsOrLogits):
    """Probabilities of alternatives along the last dimension: they are normalised."""

    _batch_shape: Any

    _binary = False

    def _set_choices(self, validate_args, probs, logits, of_vectors):
        self._need_one(probs, logits)
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        else:
            self.probs = probs / probs.sum(-1, keepdim=True)
        event = given.shape[-1:] if of_vectors else given.shape[:0]
        Distribution.__init__(self, given.shape[:-1], event, validate_args=validate_args)  # type: ignore[arg-type]

    @property
    def _num_events(self):
        return self._param.shape[-1]

    def _draw(self, shape):
        """Numbers of alternatives, of the shape, whose last dimensions are the batch's."""
        probs = self.probs.detach().reshape(-1, self._num_events)
        count = ad.Size(shape[: len(shape) - len(self._batch_shape)]).numel()
        if not count or not probs.shape[0]:
            return ad.zeros(shape, dtype=ad.int64, device=probs.device)
        return ad.multinomial(probs, count, True).T.reshape(shape)

    def _choice_entropy(self):
        logits = self.logits.clamp(min=ad.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)
