"""What reads elements, or makes tensors to go with given ones, where the elements are out of the host's reach (far_device.py).

Start reading at `PROGRAMS`: each gives the same on the CPU and there, and what it makes lies there.
"""

import io
import pickle

import far_device  # noqa: F401
import pytest

import adjoint as ad


def saved_and_loaded(x):
    file = io.BytesIO()
    ad.save({"x": x, "row": x[1], "bytes": x.view(ad.int32)}, file)
    file.seek(0)
    found = ad.load(file)
    assert found["row"].data_ptr() - found["x"].data_ptr() == 12
    return [*found.values()]


def derivatives(x):
    f = lambda t: (t.sin() * t).sum(1)
    every = [ad.func.jacrev(f)(x), ad.func.jacfwd(f)(x), ad.func.hessian(lambda t: f(t).sum())(x)]
    for options in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        every.append(ad.autograd.functional.jacobian(f, x, **options))
    every += ad.func.jacrev(lambda t: (t.sum(), t.detach(), t[:0]))(x)
    return every


def checked(x):
    x, modes = x.double().requires_grad_(), {"check_forward_ad": True, "check_batched_grad": True}
    f = lambda t: ad.complex((t * t).cos(), t)
    assert ad.autograd.gradcheck(f, x, **modes) and ad.autograd.gradcheck(f, x, fast_mode=True, **modes)
    assert ad.autograd.gradgradcheck(f, x)
    return []


def draws(x):
    d = ad.distributions
    positive = x + 1
    families = [d.Normal(x, 1.0), d.Normal(1.0, positive), d.Gamma(2, positive), d.Uniform(-1.0, positive)]
    families += [d.StudentT(positive), d.Laplace(x, 2), d.Beta(positive, 1.0), d.LogNormal(0.0, positive)]
    return [t for f in families for t in (f.rsample((2,)), f.log_prob(x.sigmoid()))]


def spectra(x):
    x = x.requires_grad_()
    y = ad.fft.irfft(ad.fft.rfft(x), 3)
    return [y.detach(), *ad.autograd.grad(y.square().sum(), x)]


PROGRAMS = [saved_and_loaded, derivatives, checked, draws, spectra]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_there_as_here(program):
    found = []
    for device in ("cpu", "far:1"):
        ad.manual_seed(0)
        found.append(program(ad.arange(6.0, device=device).reshape(2, 3)))
        assert all(str(t.device) == device for t in found[-1])
    for here, there in zip(*found, strict=True):
        ad.testing.assert_close(there.cpu(), here, rtol=0, atol=0, equal_nan=True)


def test_files_of_a_device_and_of_another():
    file = io.BytesIO()
    ad.save({"a": ad.arange(3.0, device="far:1")}, file)
    for location, device in (
        (None, "far:1"),
        ("cpu", "cpu"),
        ("far:0", "far:0"),
        ({"far:1": "far"}, "far:0"),
    ):
        file.seek(0)
        a = ad.load(file, map_location=location)["a"]
        assert str(a.device) == device and a.tolist() == [0, 1, 2]
    file.seek(0)
    with pytest.raises(
        RuntimeError, match="tagged with far:7.*: there is no such device here; use map_location='cpu'"
    ):
        ad.load(file, map_location="far:7")
    assert str(pickle.loads(pickle.dumps(a)).device) == "far:0"


def test_what_other_libraries_cannot_take():
    x = ad.ones(3, device="far:1")
    for take in (x.__dlpack__, x.__dlpack_device__):
        with pytest.raises(BufferError, match="Cannot pack tensors on far:1"):
            take()
