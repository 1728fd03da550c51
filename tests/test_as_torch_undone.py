"""What `as_torch` changes in a process can be taken back, so that tests of it need no process of their own."""

import sys

import pytest

import adjoint as ad


def test_it_can_be_taken_back():
    """All that it changes: modules, types and their members, warnings, refusals, random numbers, and what processes start with."""

    def state():
        generator = ad.Generator()
        x = ad.ones(3)
        return {
            "paths": list(sys.meta_path),
            "modules": {n for n in sys.modules if n.partition(".")[0] in ("torch", "functorch")},
            "texts": [repr(v) for v in (ad.float32, x.shape, ad.strided, x.max(0), x.type())],
            "members": {n: id(v) for n, v in vars(ad.Tensor).items()},
            "names": [
                (kind.__module__, kind.__name__) for kind in (ad.Tensor, ad.nn.Parameter, ad.nn.Buffer)
            ],
            "draws": [generator.stream, ad._C._default_generator().stream],
            "packages": {
                m: [id(vars(sys.modules[m]).get(name)) for name in ("__path__", "__getattr__")]
                for m in ("adjoint.nn", "adjoint.optim")
            },
        }

    before = state()
    torch = ad.as_torch()
    import torch.nn.functional as F  # type: ignore[import-not-found]

    assert F is ad.nn.functional and torch.Tensor is ad.Tensor and repr(torch.float32) == "torch.float32"
    changed = state()
    assert all(changed[key] != before[key] for key in before)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        x = ad.ones(3)
        x[1:].add_(x[:-1])
    ad.as_torch.undo()
    assert state() == before
    x = ad.ones(3)
    assert x[1:].add_(x[:-1]).tolist() == [2.0, 2.0]
    with pytest.raises(ImportError), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [])
        import torch  # noqa: F811
