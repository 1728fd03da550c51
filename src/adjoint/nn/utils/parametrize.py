"""Parameters that are functions of other parameters: ``module.weight`` is computed each time it is read.

`register_parametrization` gives the module a class of its own, whose property `weight` runs the modules of a
`ParametrizationList` over what it keeps, the original. Start there.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager

import adjoint as ad
from adjoint._publish.register import listing
from adjoint._types import Any, Tensor
from adjoint.nn.module import Module
from adjoint.nn.module.containers import ModuleDict, ModuleList

from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
__dir__ = listing(__name__)

_cache: dict = {}
_cached_depth = 0


@contextmanager
def cached() -> Any:
    """Compute each parametrised tensor once within the block.

    Yields
    ------
    None

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.nn.utils.parametrize.cached():
    ...     pass
    """
    global _cached_depth
    _cached_depth += 1
    try:
        yield
    finally:
        _cached_depth -= 1
        if not _cached_depth:
            _cache.clear()


def _keep(module, name, tensor):
    """Register a tensor as the parameter or the buffer that it is."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """The modules that compute a tensor, in order, and the original tensor, or the originals.

    Parameters
    ----------
    modules : list of Module
        Each may have `right_inverse`, which gives the original for a value.
    original : Tensor or Parameter
    unsafe : bool
        Do not check shapes and dtypes.

    Raises
    ------
    ValueError
        The value computed has another shape or dtype than the tensor it stands for.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils import parametrize
    >>> class Positive(ad.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = parametrize.register_parametrization(ad.nn.Linear(2, 2), "weight", Positive())
    >>> type(layer.parametrizations.weight).__name__, len(layer.parametrizations.weight)
    ('ParametrizationList', 1)
    """

    def __init__(self, modules: Any, original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with ad.no_grad():
            new = self._inverse(original, strict=False)
        self.is_tensor = isinstance(new, ad.Tensor)
        if not self.is_tensor and not isinstance(new, (list, tuple)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            if isinstance(original, Parameter):
                if new is not original:
                    original.data = new.detach()  # the optimisers that hold it go on
                new = original
            _keep(self, "original", new)
        else:
            self.ntensors = len(new)
            for i, tensor in enumerate(new):
                if not isinstance(tensor, ad.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {type(tensor).__name__}."
                    )
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor.detach(), original.requires_grad)
                _keep(self, f"original{i}", tensor)
        if not unsafe:
            _check_alike(self(), shape, dtype)

    def _originals(self):
        if self.is_tensor:
            return (self.original,)
        return tuple(getattr(self, f"original{i}") for i in range(self.ntensors))

    def _inverse(self, value, strict=True):
        # Where the first value is sought, a module without an inverse counts as the identity.
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                continue
            try:
                value = module.right_inverse(value)
            except NotImplementedError:
                if strict:
                    raise
        return value

    def right_inverse(self, value: Any) -> None:
        """Change the originals so that the value computed becomes `value`.

        Parameters
        ----------
        value : Tensor
        """
        for module in self:
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(
                    f"parametrization {type(module).__name__} does not implement right_inverse."
                )
        with ad.no_grad():
            new = self._inverse(value)
            self._check_originals(new)
            for original, tensor in zip(self._originals(), (new,) if self.is_tensor else new, strict=True):
                original.copy_(tensor)

    def _check_originals(self, new):
        if self.is_tensor:
            if not isinstance(new, ad.Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
            if new.dtype != self.original.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {new.dtype} while `original` has dtype "
                    f"{self.original.dtype}"
                )
            return
        if not isinstance(new, (list, tuple)):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(new).__name__}.")
        if len(new) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length "
                f"{len(new)}."
            )
        for i, (original, tensor) in enumerate(zip(self._originals(), new, strict=True)):
            if not isinstance(tensor, ad.Tensor):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got element {i} of type {type(tensor).__name__}"
                )
            if tensor.dtype != original.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while `original{i}` has dtype "
                    f"{original.dtype}"
                )

    def forward(self) -> Tensor:
        """The value of the tensor."""
        if not len(self):
            raise RuntimeError("ParametrizationList has no modules")
        first, *rest = list(self)
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _check_alike(value, shape, dtype):
    """That a computed value is a tensor like the one whose place it takes."""
    if not isinstance(value, ad.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for name, before, after in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {name} of the tensor, unless `unsafe` flag is enabled.\n"
                f"unparametrized {name}: {before}\nparametrized {name}: {after}"
            )


def _check_inverse(parametrization, result, tensor_name, value):
    """That a parametrisation of a computed value goes back to a tensor like that one."""
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(back, ad.Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for name in ("dtype", "shape"):
        before, after = getattr(value, name), getattr(back, name)
        if before != after:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {name} as module.{tensor_name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{tensor_name}.{name}: {before}\nreturned {name}: {after}"
            )


def _own_class(module):
    """Give the module a class of its own, which can have properties, under the old class."""
    base = type(module)

    def reduce(self, protocol):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See: "
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        )

    def deepcopy(self, memo):
        # A new instance of the same class: the class is only read after this.
        kind: Any = type(self)
        new = kind.__new__(kind)
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    members = {"__reduce_ex__": reduce, "__deepcopy__": deepcopy, "__module__": base.__module__}
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), members)


def _own_property(module, name):
    def read(self):
        if not _cached_depth:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _cache:
            # The module is kept as well, so that no other one gets its id.
            _cache[key] = self, self.parametrizations[name]()
        return _cache[key][1]

    def write(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Any:
    """Let a parameter or buffer of a module be computed by another module.

    Parameters
    ----------
    module : Module
    tensor_name : str
    parametrization : Module
        Its `forward` takes the original and gives the value; its `right_inverse`, if it has one, gives the original
        (or several) for a value, and is asked for the present one. A second parametrisation works on the first's value.
    unsafe : bool
        Do not check that shape and dtype stay.

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        The module has no such parameter or buffer, or the value has another shape or dtype.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Symmetric(ad.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = ad.nn.utils.parametrize.register_parametrization(ad.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all())
    True
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain = module.parametrizations[tensor_name]
        if not unsafe:
            value = getattr(module, tensor_name)
            result = parametrization(value)
            _check_alike(result, value.shape, value.dtype)
            _check_inverse(parametrization, result, tensor_name, value)
        chain.append(parametrization)
        chain.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized element with "
            f"name '{tensor_name}'"
        )
    chain = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module)
        module.parametrizations = ModuleDict()
    _own_property(module, tensor_name)
    module.parametrizations[tensor_name] = chain
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or the one named, is parametrised.

    Parameters
    ----------
    module : Module
    tensor_name : str, optional

    Returns
    -------
    bool

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils import parametrize
    >>> class Positive(ad.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = parametrize.register_parametrization(ad.nn.Linear(2, 2), "weight", Positive())
    >>> parametrize.is_parametrized(layer, "weight"), parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor an ordinary one again, with its present value, or with that of the original.

    Parameters
    ----------
    module : Module
    tensor_name : str
    leave_parametrized : bool
        Keep the value computed; otherwise the original comes back, of which there must be one.

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        The tensor is not parametrised, or there are several originals to come back.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.parametrizations.weight_norm(ad.nn.Linear(3, 2))
    >>> layer = ad.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> type(layer).__name__, sorted(layer.state_dict())
    ('Linear', ['bias', 'weight'])
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {type(module).__name__} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if chain.is_tensor:
        tensor = chain.original
        if leave_parametrized:
            with ad.no_grad():
                value = getattr(module, tensor_name).detach()
            if isinstance(tensor, Parameter):
                tensor.data = value
            else:
                tensor = value
    elif leave_parametrized:
        value = getattr(module, tensor_name).detach()
        learned = any(original.requires_grad for original in chain._originals())
        tensor = Parameter(value) if learned else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _keep(module, tensor_name, tensor)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it was parametrised.

    Parameters
    ----------
    module : Module

    Returns
    -------
    type

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils import parametrize
    >>> class Positive(ad.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = parametrize.register_parametrization(ad.nn.Linear(2, 2), "weight", Positive())
    >>> type(layer).__name__, parametrize.type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Any:
    """Give `to_module` the parametrisations of `from_module`, of one tensor or of all, with their tensors.

    Parameters
    ----------
    from_module, to_module : Module
    tensor_name : str, optional
        All tensors if left out.

    Returns
    -------
    Module
        `to_module`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils import parametrize
    >>> class Positive(ad.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = parametrize.register_parametrization(ad.nn.Linear(2, 2), "weight", Positive())
    >>> other = parametrize.transfer_parametrizations_and_params(layer, ad.nn.Linear(2, 2))
    >>> other.weight.equal(layer.weight)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        source = from_module.parametrizations[name]
        for part in source:
            register_parametrization(to_module, name, part, unsafe=source.unsafe)
        target = to_module.parametrizations[name]
        with ad.no_grad():
            for mine, theirs in zip(target._originals(), source._originals(), strict=True):
                mine.copy_(theirs)
    return to_module
