"""Members and conversions of modules as torch's own tests ask for them."""

import pytest

import adjoint as ad
from adjoint import nn


def test_a_buffer_object_takes_no_other_attribute_s_name():
    m = nn.Module()
    m.plain = 5
    with pytest.raises(KeyError, match="already exists"):
        m.plain = nn.Buffer(ad.zeros(1))
    m.register_parameter("weight", nn.Parameter(ad.zeros(1)))
    with pytest.raises(TypeError, match="as parameter 'weight'"):
        m.weight = nn.Buffer(ad.zeros(1))


def test_whether_a_buffer_is_saved_changes_with_the_object_and_stays_for_a_tensor():
    m = nn.Module()
    for persistent in (False, True, False):
        m.b = nn.Buffer(ad.zeros(2), persistent=persistent)
        assert ("b" in m.state_dict()) is persistent
    m.b = None
    m.b = ad.ones(1)
    assert "b" not in m.state_dict() and [*dict(m.named_buffers())] == ["b"]


def test_subclasses_whose_register_buffer_takes_two_arguments():
    class Old(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    m = Old()
    m.b = nn.Buffer(ad.zeros(1))
    assert list(m.state_dict()) == ["b"]


@pytest.mark.parametrize(
    "args, keywords",
    [
        ((ad.device("cpu"), True), {}),
        ((None, True), {}),
        ((ad.float64, ad.device("cpu")), {}),
        ((ad.device("cpu"), ad.float64, 1), {}),
        (([],), {}),
        (({},), {"non_blocking": True}),
        ((ad.tensor(3),), {}),
        (("cpu", ad.tensor(3)), {}),
        ((ad.int64,), {}),
        (("cpu",), {"dtype": ad.int64}),
    ],
)
def test_arguments_that_to_refuses(args, keywords):
    with pytest.raises(TypeError):
        nn.Linear(1, 1).to(*args, **keywords)


def test_to_does_not_copy():
    with pytest.raises(RuntimeError, match="does not accept copy argument"):
        nn.Linear(1, 1).to("cpu", copy=True)
    assert nn.Linear(1, 1).to("cpu", ad.float64, False).weight.dtype == ad.float64


def test_another_layout_makes_other_parameters():
    m = nn.Linear(2, 3, bias=False)
    m.weight.grad = ad.ones(3, 2)
    before = m.weight
    m._apply(lambda t: t.to_sparse())
    assert m.weight is not before and isinstance(m.weight, nn.Parameter)
    assert m.weight.layout == m.weight.grad.layout == ad.sparse_coo
    assert before.layout == ad.strided


def test_conversions_may_make_other_parameters(monkeypatch):
    from adjoint.nn import conversion

    monkeypatch.setattr(conversion, "overwrites", True)
    m = nn.Linear(2, 2)
    m.weight.grad = ad.ones(2, 2)
    before, grad = m.weight, m.weight.grad
    m.double()
    assert before.dtype == grad.dtype == ad.float32
    assert m.weight.dtype == m.weight.grad.dtype == ad.float64 and m.weight.requires_grad


def test_a_replica_has_no_parameters_of_its_own():
    for m in (nn.Linear(2, 2), nn.ParameterList([ad.ones(1)]), nn.ParameterDict({"a": ad.ones(1)})):
        replica = m._replicate_for_data_parallel()
        assert type(replica) is type(m) and not list(replica.parameters())
        for name, p in m.named_parameters():
            setattr(replica, name, p.view_as(p))
            assert getattr(replica, name)._base is p
        assert len(list(m.parameters())) > 0
