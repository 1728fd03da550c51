"""Residual networks (He and others, 2015): each block computes what is to be added to its input.

Parameters and buffers have the names and the order that torchvision gives them. Start reading at `ResNet`; a function
such as `resnet18` says only which block is repeated how often.
"""

from __future__ import annotations

from adjoint import Tensor, flatten, nn
from adjoint._publish.register import listing
from adjoint._types import Any, Ints

__all__ = [
    "BasicBlock",
    "Bottleneck",
    "ResNet",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext50_32x4d",
    "wide_resnet50_2",
]
__dir__ = listing(__name__)


def _convolution(channels_in, channels_out, size, stride=1, groups=1):
    return nn.Conv2d(channels_in, channels_out, size, stride, padding=size // 2, groups=groups, bias=False)


def _projection(channels_in, channels_out, stride):
    """What the input passes to have the shape of what is added to it; None where it has."""
    if stride == 1 and channels_in == channels_out:
        return None
    return nn.Sequential(_convolution(channels_in, channels_out, 1, stride), nn.BatchNorm2d(channels_out))


class BasicBlock(nn.Module):
    """Two convolutions of 3×3; the first takes every `stride`-th pixel.

    Parameters
    ----------
    inplanes, planes : int
        Channels of the input and of the output.
    stride : int
    groups, base_width : int
        Only 1 and 64: parameters of `Bottleneck`.

    Raises
    ------
    ValueError
        `groups` or `base_width` is another.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.models.BasicBlock(8, 16, stride=2)(ad.ones(1, 8, 4, 4)).shape
    adjoint.Size([1, 16, 2, 2])
    """

    expansion = 1

    def __init__(
        self, inplanes: Any, planes: Any, stride: Ints = 1, groups: int = 1, base_width: int = 64
    ) -> None:
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        super().__init__()
        self.conv1 = _convolution(inplanes, planes, 3, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _convolution(planes, planes, 3)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _projection(inplanes, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        added = self.relu(self.bn1(self.conv1(x)))
        added = self.bn2(self.conv2(added))
        added += x if self.downsample is None else self.downsample(x)
        return self.relu(added)


class Bottleneck(nn.Module):
    """A convolution of 3×3 on few channels between two of 1×1; the middle one takes every `stride`-th pixel.

    Parameters
    ----------
    inplanes, planes : int
        Channels of the input, and a quarter of those of the output.
    stride, groups : int
    base_width : int
        Channels of the middle per group, for 64 planes.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.models.Bottleneck(8, 4)(ad.ones(1, 8, 4, 4)).shape
    adjoint.Size([1, 16, 4, 4])
    """

    expansion = 4

    def __init__(
        self, inplanes: Any, planes: Any, stride: Ints = 1, groups: int = 1, base_width: int = 64
    ) -> None:
        super().__init__()
        width = int(planes * base_width / 64) * groups
        self.conv1 = _convolution(inplanes, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _convolution(width, width, 3, stride, groups)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _convolution(width, planes * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _projection(inplanes, planes * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        added = self.relu(self.bn1(self.conv1(x)))
        added = self.relu(self.bn2(self.conv2(added)))
        added = self.bn3(self.conv3(added))
        added += x if self.downsample is None else self.downsample(x)
        return self.relu(added)


class ResNet(nn.Module):
    """A convolution, four stages of residual blocks at half the resolution each, the mean over pixels, a linear layer.

    Parameters
    ----------
    block : type
        `BasicBlock` or `Bottleneck`.
    layers : sequence of four int
        Blocks in each stage.
    num_classes : int
    zero_init_residual : bool
        Whether each block adds nothing at first.
    groups, width_per_group : int
        Of the middle convolutions of `Bottleneck`.

    Notes
    -----
    Input (batch, 3, height, width), output (batch, num_classes). Weights start normal, with the variance of He and
    others (2015) for the number of outputs.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.models import BasicBlock, ResNet
    >>> ResNet(BasicBlock, (1, 1, 1, 1), num_classes=5)(ad.zeros(2, 3, 32, 32)).shape
    adjoint.Size([2, 5])
    """

    def __init__(
        self,
        block: Any,
        layers: Any,
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        channels = 64
        for stage, count in enumerate(layers):
            planes = 64 << stage
            blocks = []
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(block(channels, planes, stride, groups, width_per_group))
                channels = planes * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(module, (BasicBlock, Bottleneck)):
                last = module.bn3 if isinstance(module, Bottleneck) else module.bn2
                nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(flatten(self.avgpool(x), 1))


def resnet18(**options: Any) -> ResNet:
    """A residual network of 18 layers.

    Parameters
    ----------
    **options
        Those of `ResNet`.

    Returns
    -------
    ResNet

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.models.resnet18(num_classes=10)
    >>> sum(p.numel() for p in model.parameters())
    11181642
    """
    return ResNet(BasicBlock, (2, 2, 2, 2), **options)


def resnet34(**options: Any) -> ResNet:
    """A residual network of 34 layers.

    Parameters
    ----------
    **options
        Those of `ResNet`.

    Returns
    -------
    ResNet

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.models.resnet34(num_classes=10)
    >>> len(list(model.parameters()))
    110
    """
    return ResNet(BasicBlock, (3, 4, 6, 3), **options)


def resnet50(**options: Any) -> ResNet:
    """A residual network of 50 layers.

    Parameters
    ----------
    **options
        Those of `ResNet`.

    Returns
    -------
    ResNet

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.models.resnet50(num_classes=10)
    >>> len(list(model.parameters()))
    161
    """
    return ResNet(Bottleneck, (3, 4, 6, 3), **options)


def resnet101(**options: Any) -> ResNet:
    """A residual network of 101 layers.

    Parameters
    ----------
    **options
        Those of `ResNet`.

    Returns
    -------
    ResNet

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.models.resnet101(num_classes=10)
    >>> len(list(model.parameters()))
    314
    """
    return ResNet(Bottleneck, (3, 4, 23, 3), **options)


def resnet152(**options: Any) -> ResNet:
    """A residual network of 152 layers.

    Parameters
    ----------
    **options
        Those of `ResNet`.

    Returns
    -------
    ResNet

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.models.resnet152(num_classes=10)
    >>> len(list(model.parameters()))
    467
    """
    return ResNet(Bottleneck, (3, 8, 36, 3), **options)


def resnext50_32x4d(**options: Any) -> ResNet:
    """`resnet50` with 32 groups of 4 channels in the middle (Xie and others, 2016).

    Parameters
    ----------
    **options
        Those of `ResNet`.

    Returns
    -------
    ResNet

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.models.resnext50_32x4d(num_classes=10)
    >>> model.layer1[0].conv2.groups
    32
    """
    return resnet50(**{"groups": 32, "width_per_group": 4, **options})


def wide_resnet50_2(**options: Any) -> ResNet:
    """`resnet50` with twice the channels in the middle (Zagoruyko and Komodakis, 2016).

    Parameters
    ----------
    **options
        Those of `ResNet`.

    Returns
    -------
    ResNet

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.models.wide_resnet50_2(num_classes=10)
    >>> model.layer1[0].conv2.out_channels
    128
    """
    return resnet50(**{"width_per_group": 128, **options})
