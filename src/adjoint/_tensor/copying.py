"""Copies of tensors: shallow, deep, and through pickle.

`copy.copy` shares the memory. `copy.deepcopy` copies each storage once per call, so that views go on sharing it among
themselves. A pickle holds just the bytes that the elements span, as a buffer that travels out of band under protocol
5. Start reading at `Copying`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, extend
from adjoint._types import Any

_make_subclass = Tensor._make_subclass


@extend
class Copying(Members):
    def __copy__(self) -> Any:
        result = _as(type(self), self, self.requires_grad)
        result.__dict__.update(self.__dict__)
        _set_slots(result, _slots_of(self))
        return result

    def __deepcopy__(self, memo: Any) -> Any:
        known = memo.get(id(self))
        if known is not None:
            return known
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: "
                f"this one of shape {list(self.shape)}, {self.dtype.name}, is the result that {type(self.grad_fn).__name__} "
                "differentiates. Copy its values with .detach().clone(), or its history too with .clone()"
            )
        from copy import deepcopy

        if _C._batch_of(self) is not None:
            memo[id(self)] = result = self.detach().clone().requires_grad_(self.requires_grad)
            return result
        if self._layout_number:
            return _deep_sparse(self, memo)
        key = ("storage", _C._storage_id(self))
        bytes_ = memo.get(key)
        if bytes_ is None:
            whole = _C._storage_bytes(self)
            bytes_ = memo[key] = _C._copy_bytes(whole)
            # What tells it from others is the key for as long as the memory is held.
            memo.setdefault(id(memo), []).append(whole)
        result = _C._over(bytes_, self.dtype, self.shape, self.stride(), self.storage_offset())
        result = _as(type(self), result, self.requires_grad)
        memo[id(self)] = result
        gradient = self.grad
        if gradient is not None:
            result.grad = deepcopy(gradient, memo)
        if self.__dict__:
            result.__dict__.update(deepcopy(self.__dict__, memo))
        if type(self) is not Tensor:
            _set_slots(result, deepcopy(_slots_of(self), memo))
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._backward_hooks:
            from adjoint.utils.hooks import warn_if_has_hooks

            warn_if_has_hooks(self)
        cls = type(self)
        kind = None if cls is Tensor else cls
        if self._layout_number:
            return rebuild_sparse, (
                kind,
                *_C._sparse_parts(self),
                tuple(self.shape),
                self.requires_grad,
                _state_of(self),
            )
        if self._device_number:
            values = None if self.is_meta else self.detach().cpu()
            layout = (self.dtype, tuple(self.shape), self.stride(), self.requires_grad)
            return rebuild_elsewhere, (kind, self.device, values, *layout, _state_of(self))
        span = _C._span(self)
        if protocol >= 5:
            from pickle import PickleBuffer

            data: Any = PickleBuffer(span)
        else:
            data = bytes(memoryview(span))
        return rebuild, (
            # A file means Adjoint's Tensor wherever it is written: under as_torch() the class says "torch".
            kind,
            data,
            self.dtype,
            tuple(self.shape),
            self.stride(),
            self.requires_grad,
            _state_of(self),
        )


def _deep_sparse(self, memo):
    """A copy of indices and values, those that share them sharing copies."""
    from copy import deepcopy

    key = ("storage", _C._storage_id(self))
    plain = memo.get(key)
    if plain is None:
        plain = memo[key] = self.detach().clone()
        memo.setdefault(id(memo), []).append(self.detach())
    result = memo[id(self)] = _as(type(self), plain, self.requires_grad)
    if self.grad is not None:
        result.grad = deepcopy(self.grad, memo)
    if self.__dict__:
        result.__dict__.update(deepcopy(self.__dict__, memo))
    return result


def rebuild_sparse(cls, layout, coalesced, indices, others, values, size, requires_grad, attributes):
    """The sparse tensor that a pickle describes; its indices are checked."""
    from adjoint.sparse._making import checked_parts

    result = _as(cls, checked_parts(layout, coalesced, indices, others, values, size), requires_grad)
    _set_state(result, attributes)
    return result


def _state_of(tensor):
    """What a subclass says of its state, else its attributes; with slots, a pair of them and those."""
    own = getattr(type(tensor), "__getstate__", None)
    if own is not None and own is not getattr(object, "__getstate__", None):
        return own(tensor)
    slots = _slots_of(tensor)
    return (tensor.__dict__, slots) if slots else tensor.__dict__


def _slots_of(tensor):
    return {name: getattr(tensor, name) for name in _slot_names(type(tensor)) if hasattr(tensor, name)}


def rebuild(cls, data, dtype, size, stride, requires_grad, attributes):
    """The tensor that a pickle describes."""
    bytes_ = _C._from_buffer(data) if len(memoryview(data)) else _C._empty((0,), dtype=_C.uint8)
    if _C._is_readonly(bytes_) or bytes_.data_ptr() % 16:
        bytes_ = _C._copy_bytes(bytes_)
    result = _C._over(bytes_, dtype, size, stride, 0)
    result = _as(cls, result, requires_grad)
    _set_state(result, attributes)
    return result


def _set_state(result, attributes):
    if hasattr(type(result), "__setstate__"):
        result.__setstate__(attributes)
        return
    slots: dict[Any, Any] = {}
    if isinstance(attributes, tuple) and len(attributes) == 2 and isinstance(attributes[1], dict):
        attributes, slots = attributes
    set_attributes(result, attributes)
    _set_slots(result, slots)


def _set_slots(tensor, slots):
    for name in _slot_names(type(tensor)) & slots.keys():
        setattr(tensor, name, slots[name])


def _slot_names(cls):
    from copyreg import _slotnames  # type: ignore[attr-defined]

    return {*_slotnames(cls)}


def rebuild_elsewhere(cls, device, values, dtype, size, stride, requires_grad, attributes):
    """The tensor on another device that a pickle describes; of one on the meta device there are no values."""
    from adjoint._tensor.creation import empty_strided

    result = _as(cls, empty_strided(size, stride, dtype=dtype, device=device), requires_grad)
    if values is not None:
        result.data.copy_(values)
    _set_state(result, attributes)
    return result


def set_attributes(tensor, attributes):
    """Restore the attributes that a program set on a tensor, but none that would hide a member of Tensor."""
    for name in attributes or ():
        if not isinstance(name, str) or hasattr(type(tensor), name):
            raise ValueError(
                f"the data asks to set the attribute {name!r} of a {type(tensor).__name__}, which has one of its own: no tensor "
                "writes that, so the data was made or changed by something else"
            )
        tensor.__dict__[name] = attributes[name]


def _as(cls, tensor, requires_grad):
    if cls is Tensor or cls is None:
        return tensor.detach().requires_grad_(requires_grad) if requires_grad else tensor.detach()
    return _make_subclass(cls, tensor, requires_grad)
