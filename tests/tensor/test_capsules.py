"""Capsules of DLPack that say what no tensor is: refused by name, and never released, since they were not taken."""

import ctypes
import gc

import pytest

import adjoint as ad


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Managed(ctypes.Structure):
    """A DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
NAME = b"dltensor"


class Producer:
    """Eight float32 numbers, described otherwise where it is said."""

    def __init__(self, shape=(3,), strides=None, **other):
        self.numbers = (ctypes.c_float * 8)(*range(8))
        self.released = 0
        m = self.managed = Managed(
            ctypes.addressof(self.numbers), Device(1, 0), len(shape or ()), DataType(2, 32, 1)
        )
        self.shape = shape and (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        if shape:
            m.shape = self.shape
        if strides:
            m.strides = self.strides
        self.deleter = m.deleter = type(m.deleter)(self.release)
        for name, value in other.items():
            setattr(m, name, value)

    def release(self, _):
        self.released += 1

    def capsule(self):
        return new_capsule(ctypes.addressof(self.managed), NAME, None)


def test_a_capsule_is_released_once():
    for given in ({}, {"shape": (2, 3), "strides": (1, 2)}, {"shape": (0,), "data": None}, {"shape": None}):
        p = Producer(**given)
        x = ad.from_dlpack(p.capsule())
        y = x[..., :1] if x.ndim else x
        del x
        gc.collect()
        assert p.released == 0
        del y
        gc.collect()
        assert p.released == 1


@pytest.mark.parametrize(
    "given, words",
    (
        ({"data": None}, "no memory"),
        ({"ndim": -1}, "-1 dimensions"),
        ({"ndim": 65}, "65 dimensions"),
        ({"shape": None, "ndim": 1}, "no sizes"),
        ({"shape": (-1,)}, "negative dimension"),
        ({"shape": (2**40, 2**40)}, "overflow"),
        ({"shape": (0, 2**62)}, "overflow"),
        ({"strides": (2**62,)}, "overflow"),
        ({"strides": (-1,)}, "negative strides"),
        ({"device": Device(2, 0)}, "device type 2"),
        ({"dtype": DataType(2, 32, 4)}, "4 lanes"),
        ({"dtype": DataType(9, 32, 1)}, "code 9"),
    ),
)
def test_what_no_tensor_is(given, words):
    p = Producer(**given)
    capsule = p.capsule()
    for _ in range(2):
        with pytest.raises((ValueError, RuntimeError, TypeError), match=words):
            ad.from_dlpack(capsule)
    assert p.released == 0


@pytest.mark.parametrize("thing", (None, 3, object()))
def test_what_is_no_capsule(thing):
    with pytest.raises(TypeError, match="expected an object with __dlpack__, or a capsule, but found"):
        ad.from_dlpack(thing)
