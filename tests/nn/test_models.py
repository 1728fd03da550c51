"""adjoint.models: torchvision's names and sizes, so that its files of weights load."""

import pytest
from helpers import array, assert_close

import adjoint as ad
from adjoint import models


@pytest.mark.parametrize(
    "name, parameters, tensors",
    [  # as torchvision's documentation gives them; the tensors of its state dicts
        ("resnet18", 11_689_512, 122),
        ("resnet34", 21_797_672, 218),
        ("resnet50", 25_557_032, 320),
        ("resnext50_32x4d", 25_028_904, 320),
        ("wide_resnet50_2", 68_883_240, 320),
    ],
)
def test_sizes(name, parameters, tensors):
    model = getattr(models, name)()
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert len(model.state_dict()) == tensors


def test_names_and_their_order():
    names = list(models.resnet18().state_dict())
    statistics = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert names[:6] == ["conv1.weight", *(f"bn1.{s}" for s in statistics)]
    block = [
        "conv1.weight", *(f"bn1.{s}" for s in statistics), "conv2.weight", *(f"bn2.{s}" for s in statistics),
        "downsample.0.weight", *(f"downsample.1.{s}" for s in statistics),
    ]  # fmt: skip
    start = names.index("layer2.0.conv1.weight")
    assert names[start : start + len(block)] == ["layer2.0." + n for n in block]
    assert names[-2:] == ["fc.weight", "fc.bias"]
    wide = list(models.resnet50().state_dict())
    assert [n for n in wide if n.startswith("layer1.0.") and n.endswith("weight")] == [
        f"layer1.0.{n}.weight" for n in ("conv1 bn1 conv2 bn2 conv3 bn3 downsample.0 downsample.1".split())
    ]


def test_a_block_adds_to_its_input():
    block = models.resnet.BasicBlock(4, 4).eval()
    ad.nn.init.zeros_(block.bn2.weight)
    x = ad.rand(2, 4, 5, 5)
    assert_close(block(x), array(x))
    block = models.resnet.Bottleneck(16, 4).eval()
    ad.nn.init.zeros_(block.bn3.weight)
    x = ad.rand(2, 16, 5, 5)
    assert_close(block(x), array(x))


def test_a_basic_block_has_no_groups():
    with pytest.raises(ValueError, match="BasicBlock only supports groups=1"):
        models.resnet.BasicBlock(4, 4, groups=2)


def test_blocks_that_start_as_identities():
    model = models.resnet18(zero_init_residual=True)
    assert all(not block.bn2.weight.any() for block in model.layer3)


def test_a_file_of_weights_and_a_gradient(tmp_path):
    ad.manual_seed(0)
    model = models.resnet18(num_classes=3)
    ad.save(model.state_dict(), tmp_path / "weights.pth")
    other = models.resnet18(num_classes=3)
    other.load_state_dict(ad.load(tmp_path / "weights.pth"))
    x = ad.rand(3, 3, 33, 33)
    model.eval(), other.eval()
    assert_close(other(x), array(model(x)))
    # Along one direction, the gradient is the difference quotient: of a step so short that it passes no kink of relu.
    model.double().train()
    x = x.double().requires_grad_()
    model(x).pow(2).sum().backward()
    step = ad.randn_like(x)
    with ad.no_grad():
        values = [model(x + h * step).pow(2).sum().item() for h in (1e-8, -1e-8)]
    assert_close((x.grad * step).sum(), (values[0] - values[1]) / 2e-8, rtol=1e-5)


def test_training_with_a_frozen_base_keeps_no_activations():
    model = models.resnet18(num_classes=3).eval()
    x = ad.rand(2, 3, 32, 32)

    def kept():
        before = ad.memory_statistics()["allocated_bytes"]
        y = model(x)
        after = ad.memory_statistics()["allocated_bytes"]
        del y
        return after - before

    learning = kept()
    model.requires_grad_(False)
    model.fc.requires_grad_(True)
    assert kept() < learning / 100
