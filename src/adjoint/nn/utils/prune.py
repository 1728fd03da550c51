"""Pruning: parts of a parameter held at 0 by a mask.

The parameter `name` becomes ``name_orig``, the mask the buffer ``name_mask``; their product is put in the parameter's place before
each forward pass, by a hook that is an instance of a `BasePruningMethod`. Pruning what is pruned puts several methods into a
`PruningContainer`. Start reading at `BasePruningMethod.apply`.
"""

# mypy: disable-error-code="override"
from __future__ import annotations

import abc
import numbers
from collections.abc import Iterable

import adjoint as ad
from adjoint._publish.register import listing
from adjoint._types import Any, Iterator, Tensor
from adjoint.nn.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]
__dir__ = listing(__name__)


def _methods_of(module: Module) -> Iterator[tuple[int, BasePruningMethod]]:
    """The pruning methods among a module's hooks, by key."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod):
            yield key, hook


class BasePruningMethod(abc.ABC):
    """Base class of pruning methods; a subclass computes the mask in `compute_mask`.

    Attributes
    ----------
    PRUNING_TYPE : 'unstructured', 'structured' or 'global'
        Whether single elements, whole slices along `dim`, or anything goes: what a method in a container gets to see.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Positive(ad.nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t > 0)
    >>> layer = ad.nn.Linear(3, 2)
    >>> method = Positive.apply(layer, "weight")
    >>> bool((layer.weight >= 0).all()), sorted(layer.state_dict())
    (True, ['bias', 'weight_mask', 'weight_orig'])
    """

    _tensor_name: str
    PRUNING_TYPE = "unstructured"

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abc.abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for scores `t`, given the mask so far: 1 for what stays."""

    def apply_mask(self, module: Module) -> Tensor:
        """The original times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune the parameter `name` of a module by this method, made of the further arguments.

        Parameters
        ----------
        module : Module
        name : str
        importance_scores : Tensor of the parameter's shape, optional
            What the method looks at; the parameter itself by default.

        Returns
        -------
        BasePruningMethod
            The hook.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        earlier = [(key, hook) for key, hook in _methods_of(module) if hook._tensor_name == name]
        if len(earlier) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
            )
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got {scores.shape} vs "
                f"{original.shape}"
            )
        if earlier:
            container = earlier[0][1]
            if not isinstance(container, PruningContainer):
                container = PruningContainer(container)
            container.add_pruning_method(method)
            method = container
            default = getattr(module, name + "_mask").detach().clone()
        else:
            default = ad.ones_like(original)
        mask = method.compute_mask(scores.detach(), default)
        # From here on nothing fails that would leave the module half pruned.
        if earlier:
            del module._forward_pre_hooks[earlier[0][0]]
        else:
            parameter = module._parameters[name]
            delattr(module, name)
            module.register_parameter(name + "_orig", parameter)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Any = None, importance_scores: Any = None) -> Tensor:
        """A tensor pruned by this method, without a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        default_mask = ad.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter; the hook stays (see the function `remove`)."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module).detach()
        parameter: Any = module._parameters[name + "_orig"]
        for which in (name, name + "_orig", name + "_mask"):
            delattr(module, which)
        parameter.data = weight
        setattr(module, name, parameter)


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter: each prunes what those before it left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last method's mask within what the mask so far leaves."""
        method, mask = self._pruning_methods[-1], default_mask.to(t.dtype).clone()
        kind = method.PRUNING_TYPE
        part: Any
        if kind == "global":
            part = (slice(None),) * t.dim()
        elif kind == "unstructured":
            part = mask == 1
        elif kind == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            if not -t.dim() <= method.dim < t.dim():
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
            dim = method.dim % t.dim()
            kept = mask.sum([d for d in range(t.dim()) if d != dim]) != 0
            part = (slice(None),) * dim + (kept,)
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        mask[part] = method.compute_mask(t[part], default_mask=mask[part]).to(mask.dtype)
        return mask


def _check_amount(amount: float) -> float:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= amount <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )
    return amount


def _count(amount: float, tensor_size: int) -> int:
    """How many of `tensor_size` to prune: an int as it is, a float as a share."""
    if isinstance(amount, numbers.Integral):
        if amount > tensor_size:
            raise ValueError(
                f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}"
            )
        return amount
    return round(amount * tensor_size)


def _check_slices(t: Tensor, dim: int) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {t.dim()} dims"
        )
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _norms(t: Tensor, n: Any, dim: int) -> Tensor:
    """The n-norm of each slice along `dim`."""
    return ad.norm(t, p=n, dim=[d for d in range(t.dim()) if d != dim % t.dim()])


def _without(mask: Tensor, scores: Tensor, count: int) -> Tensor:
    """The mask with the elements of the `count` least scores at 0."""
    mask = mask.clone(memory_format=ad.contiguous_format)
    if count:
        mask.view(-1)[ad.topk(scores.reshape(-1), count, largest=False).indices] = 0
    return mask


def _slices(t: Tensor, dim: int, scores: Tensor, count: int) -> Tensor:
    """A mask with the slices along `dim` of the `count` least scores at 0."""
    kept = _without(ad.ones(t.shape[dim], dtype=t.dtype), scores, count)
    shape = [1] * t.dim()
    shape[dim] = -1
    return kept.reshape(shape)


class Identity(BasePruningMethod):
    """Prunes nothing, but lays out mask and original."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements drawn at random: `amount` of them, or that share where it is a float."""

    def __init__(self, amount: float) -> None:
        self.amount = _check_amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        # As torch, those of which the greatest numbers are drawn.
        return _without(default_mask, -ad.rand(t.shape), _count(self.amount, t.numel()))

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Any:
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of least size: `amount` of them, or that share where it is a float."""

    def __init__(self, amount: float) -> None:
        self.amount = _check_amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, t.abs(), _count(self.amount, t.numel()))

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Any:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes slices along `dim`, drawn at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        self.amount = _check_amount(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _check_slices(t, self.dim)
        size = t.shape[self.dim]
        return default_mask * _slices(t, self.dim, ad.rand(size), _count(self.amount, size))

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> Any:
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the slices along `dim` whose n-norm is least."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        self.amount = _check_amount(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _check_slices(t, self.dim)
        norms = _norms(t, self.n, self.dim)
        return default_mask * _slices(t, self.dim, norms, _count(self.amount, t.shape[self.dim]))

    @classmethod
    def apply(
        cls, module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
    ) -> Any:
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Any:
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """Lay out mask and original without pruning anything; return the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements drawn at random; return the module.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.prune.random_unstructured(ad.nn.Linear(3, 2), name="weight", amount=1)
    >>> int((layer.weight_mask == 0).sum())
    1
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Any = None) -> Module:
    """Prune the elements of least size; return the module.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.prune.l1_unstructured(ad.nn.Linear(4, 2), "weight", amount=0.25)
    >>> sorted(layer.state_dict()), int((layer.weight == 0).sum())
    (['bias', 'weight_mask', 'weight_orig'], 2)
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices along `dim`, drawn at random; return the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices along `dim` whose n-norm is least; return the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune what a mask of the parameter's shape has at 0; return the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters together, so that the least of all elements go.

    Parameters
    ----------
    parameters : iterable of (Module, str)
    pruning_method : class of `BasePruningMethod`, unstructured
    importance_scores : dict from (Module, str) to Tensor, optional
    **kwargs
        The arguments of `pruning_method`.

    Examples
    --------
    >>> import adjoint as ad
    >>> prune, model = ad.nn.utils.prune, ad.nn.Sequential(ad.nn.Linear(4, 2), ad.nn.Linear(2, 1))
    >>> parts = [(model[0], "weight"), (model[1], "weight")]
    >>> prune.global_unstructured(parts, prune.L1Unstructured, amount=0.5)
    >>> sum(int((module.weight == 0).sum()) for module, _ in parts)
    5
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
            f"{method.PRUNING_TYPE}"
        )
    present = [getattr(module, name) for module, name in parameters]
    scores = [importance_scores.get(pair, tensor) for pair, tensor in zip(parameters, present)]
    masks = [
        getattr(module, name + "_mask", ad.ones_like(t)) for (module, name), t in zip(parameters, present)
    ]
    container = PruningContainer(method)
    flat = [ad.cat([t.detach().reshape(-1) for t in group]) for group in (scores, masks)]
    mask = container.compute_mask(*flat)
    for (module, name), tensor, part in zip(parameters, present, mask.split([t.numel() for t in present])):
        custom_from_mask(module, name, part.reshape(tensor.shape))


def remove(module: Module, name: str) -> Module:
    """Make the pruned tensor an ordinary parameter again; return the module.

    Raises
    ------
    ValueError
        The parameter is not pruned.
    """
    for key, hook in _methods_of(module):
        if hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    return any(True for part in module.modules() for _ in _methods_of(part))
