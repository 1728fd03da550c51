"""The members of a module by dotted names, and walks over them: `Traversal`, one of the bases of `Module`."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Any, Iterable, Iterator
from adjoint.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint._C import ModuleMembers
    from adjoint.nn.module import Module
else:
    ModuleMembers = object

__all__ = ["Traversal"]


class Traversal(ModuleMembers):
    """`get_submodule` and its like; `modules`, `children`, `parameters`, `buffers`, with and without names."""

    # ---- access by dotted name ------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """Return the module called `target`, a dotted name; the empty name is this module.

        Raises
        ------
        AttributeError
            There is no such attribute, or it is not a Module.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> model.get_submodule("1")
        Tanh()
        """
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Traversal):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at the dotted name `target`; with `strict`, only over an existing module.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> model.set_submodule("1", ad.nn.ReLU())
        >>> model[1]
        ReLU()
        """
        parent, _, name = target.rpartition(".")
        if not name:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Traversal):
            raise ValueError(f"{type(module).__name__} is not an nn.Module")
        owner = self.get_submodule(parent)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        if hasattr(owner, name) and not isinstance(getattr(owner, name), Traversal):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter called `target`, a dotted name.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> model.get_parameter("0.bias").shape
        adjoint.Size([3])
        """
        found = self._get_member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> ad.Tensor:
        """Return the buffer called `target`, a dotted name.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.BatchNorm1d(2).get_buffer("running_mean")
        tensor([0., 0.])
        """
        found = self._get_member(target)
        prefix, _, name = target.rpartition(".")
        if name not in self.get_submodule(prefix)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _get_member(self, target):
        prefix, _, name = target.rpartition(".")
        module = self.get_submodule(prefix)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        return getattr(module, name)

    # ---- traversal ------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (dotted name, module) for this module and every descendant, each module once.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '1']
        """
        if memo is None:
            memo = set()
        this: Any = self
        if this in memo:
            return
        if remove_duplicate:
            memo.add(this)
        yield prefix, this
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yield this module and every descendant, each once.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> len(list(model.modules()))
        3
        """
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for the direct children, each once.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> dict(model.named_children())["1"]
        Tanh()
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the direct children, each once.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> [type(child).__name__ for child in model.children()]
        ['Linear', 'Tanh']
        """
        for _, module in self.named_children():
            yield module

    def _named_members(self, get_members, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules: Iterable[tuple[str, Any]]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = [(prefix, self)]
        for module_name, module in modules:
            for name, member in get_members(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield (f"{module_name}.{name}" if module_name else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (dotted name, parameter); a shared parameter comes once, under its first name.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> [name for name, _ in model.named_parameters()]
        ['0.weight', '0.bias']
        """
        return self._named_members(
            lambda module: list(module._parameters.items()), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield every parameter, each once: what an optimiser takes.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
        >>> sum(p.numel() for p in model.parameters())
        9
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, ad.Tensor]]:
        """Yield (dotted name, buffer), each buffer once.

        Examples
        --------
        >>> import adjoint as ad
        >>> [name for name, _ in ad.nn.BatchNorm1d(2).named_buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        return self._named_members(
            lambda module: list(module._buffers.items()), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[ad.Tensor]:
        """Yield every buffer, each once.

        Examples
        --------
        >>> import adjoint as ad
        >>> len(list(ad.nn.BatchNorm1d(2).buffers()))
        3
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer
