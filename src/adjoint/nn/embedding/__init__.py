"""`Embedding` and `EmbeddingBag`: a table of learned rows, picked by index, or added up over bags of indices."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Device, DType, Self, Tensor
from adjoint.nn import functional, init
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Rows(Module):
    """A table of rows, one of which may be padding: what `Embedding` and `EmbeddingBag` share."""

    def _make_rows(self, name, num_embeddings, embedding_dim, padding_idx, weight, frozen, device, dtype):
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"{name} must be within num_embeddings: got {padding_idx}, rows {num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        drawn = weight is None
        if drawn:
            weight = ad.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
        elif tuple(weight.shape) != (num_embeddings, embedding_dim):
            raise ValueError(
                f"Shape of weight does not match num_embeddings and embedding_dim: {tuple(weight.shape)}"
            )
        self.weight = Parameter(weight, requires_grad=not frozen)
        if drawn:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw the rows, and set that of `padding_idx` to 0."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with ad.no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Rows):
    """A learned vector for each of `num_embeddings` indices; rows start normal with deviation 1.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
    padding_idx : int, optional
        This row starts at 0 and gets no gradient; negative counts from the end.
    max_norm, norm_type, scale_grad_by_freq, sparse
        Like those of `adjoint.nn.functional.embedding`.
    device, dtype : where and of which type the weight is

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)

    Raises
    ------
    ValueError
        `padding_idx` is outside of the rows.

    Examples
    --------
    >>> import adjoint as ad
    >>> table = ad.nn.Embedding(10, 3)
    >>> tuple(table(ad.tensor([[1, 2, 4, 5], [4, 3, 2, 9]])).shape)
    (2, 4, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_rows(
            "Padding_idx", num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        return functional.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An Embedding over given rows, which are frozen unless asked otherwise.

        Examples
        --------
        >>> import adjoint as ad
        >>> table = ad.nn.Embedding.from_pretrained(ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> table(ad.tensor([1])).tolist()
        [[3.0, 4.0]]
        """
        if embeddings.dim() != 2:
            raise ValueError("Embeddings parameter is expected to be 2-dimensional")
        rows, features = embeddings.shape
        return cls(
            rows,
            features,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse:
            text += ", sparse=True"
        return text


class EmbeddingBag(_Rows):
    """Sums, means or maxima of learned rows over bags of indices; rows start normal with deviation 1.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
    max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx
        Like those of `adjoint.nn.functional.embedding_bag`.
    device, dtype : where and of which type the weight is

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)

    Examples
    --------
    >>> import adjoint as ad
    >>> table = ad.nn.EmbeddingBag(10, 3, mode="sum")
    >>> tuple(table(ad.tensor([1, 2, 4, 5, 4]), ad.tensor([0, 3])).shape)
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._make_rows(
            "padding_idx", num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype
        )

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """An EmbeddingBag over given rows, which are frozen unless asked otherwise."""
        if embeddings.dim() != 2:
            raise ValueError("Embeddings parameter is expected to be 2-dimensional")
        rows, features = embeddings.shape
        bag = cls(
            rows,
            features,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad_(not freeze)
        return bag

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text
