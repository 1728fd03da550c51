"""How ``torch.utils._pytree`` takes dicts, lists and tuples apart, under the private names that libraries register with."""

from __future__ import annotations

from collections import namedtuple

from adjoint.utils._pytree import SUPPORTED_NODES, is_namedtuple_instance

__all__: list[str] = []


def _get_node_type(tree):
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


def _taken_apart(kind):
    node = SUPPORTED_NODES[kind]
    return node.flatten_fn, node.unflatten_fn, node.flatten_with_keys_fn


_dict_flatten, _dict_unflatten, _dict_flatten_with_keys = _taken_apart(dict)
_list_flatten, _list_unflatten, _list_flatten_with_keys = _taken_apart(list)
_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys = _taken_apart(tuple)
