"""Tests that are written once for all devices and types, made for those that are there: the CPU, and the types asked for.

A test of a class that `instantiate_device_type_tests` gets takes a device, and with `dtypes` a dtype. Start reading there.
"""

from __future__ import annotations

import unittest
from enum import Enum
from functools import wraps
from inspect import signature

from adjoint.as_torch.standins.testing._internal._names import chosen_by, identity, name
from adjoint.as_torch.standins.testing._internal.common_utils import bound, variants

__all__ = ["deviceCountAtLeast", "dtypes", "instantiate_device_type_tests", "onlyCPU", "ops"]

onlyCPU = onlyNativeDeviceTypes = onlyNativeDeviceTypesAnd = identity


class OpDTypes(Enum):
    """Of which types of an operator tests are made."""

    (
        supported,
        unsupported,
        supported_backward,
        unsupported_backward,
        any_one,
        any_common_cpu_cuda_one,
        none,
    ) = range(7)


def instantiate_device_type_tests(
    generic_test_class,
    scope,
    except_for=None,
    only_for=None,
    include_lazy=False,
    allow_mps=False,
    allow_xpu=False,
):
    """Put into `scope`, in place of a class of tests that take a device, the class of these tests for the CPU."""
    scope.pop(generic_test_class.__name__, None)
    if (except_for and "cpu" in _names(except_for)) or (only_for and "cpu" not in _names(only_for)):
        return
    members = {"device_type": "cpu", "__module__": generic_test_class.__module__}
    for attribute in dir(generic_test_class):
        test = getattr(generic_test_class, attribute)
        if not attribute.startswith("test") or not callable(test):
            continue
        members[attribute] = None  # what takes a device is no test by itself
        for suffix, given, around in variants(test):
            for dtype in getattr(test, "dtypes", (None,)):
                label = attribute + suffix + "_cpu" + ("" if dtype is None else "_" + dtype.name)
                members[label] = _on_cpu(test, label, given, around, dtype)
    made = type(generic_test_class.__name__ + "CPU", (generic_test_class,), members)
    scope[made.__name__] = made


def _names(devices):
    return (devices,) if isinstance(devices, str) else tuple(devices)


def _on_cpu(test, label, given, around, dtype):
    takes = signature(test).parameters
    fixed = dict(given)
    if "device" in takes:
        fixed["device"] = "cpu"
    if "devices" in takes:
        fixed["devices"] = ["cpu"]
    if dtype is not None:
        fixed["dtype"] = dtype
    return bound(test, label, fixed, around)


def dtypes(*given):
    """Make a test for each of these types."""
    given = tuple(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else given

    def decorate(test):
        test.dtypes = given
        return test

    return decorate


def deviceCountAtLeast(number):
    """Leave a test out where there are fewer devices."""
    return chosen_by(number <= 1, f"fewer than {number} devices")


class ops:
    """Make a test for each operator of a list, which here is empty where it is torch's own table."""

    def __init__(self, op_list, *, dtypes=None, allowed_dtypes=None, skip_if_dynamo=True):
        self.op_list = tuple(op_list)

    def __call__(self, test):
        if not self.op_list:

            @wraps(test)
            def none(self, *args, **keywords):
                raise unittest.SkipTest("torch's table of operators is not here")

            none.dtypes = (None,)
            none.parametrized = [("", {}, [])]
            del none.__wrapped__
            return none
        raise NotImplementedError("Adjoint does not have torch's OpInfo")


def get_all_device_types():
    return ["cpu"]


def get_desired_device_type_test_bases(*args, **keywords):
    return []


class tol:
    """How close values are to be."""

    def __init__(self, atol, rtol):
        self.atol, self.rtol = atol, rtol


def __getattr__(wanted):
    if wanted.startswith("dtypesIf"):
        return lambda *given: identity
    return name("common_device_type", wanted)
