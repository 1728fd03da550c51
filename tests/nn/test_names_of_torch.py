"""Every public name of torch.nn 2.13 is here, or on the page "Networks" among what is not.

The lists are facts about torch, written down; the page says why what is missing is missing.
"""

import pathlib
import re
import warnings

import pytest
from helpers import announced

import adjoint as ad
from adjoint import nn

MODULES = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d
AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d
Bilinear Buffer CELU CTCLoss ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d
Container Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss CosineSimilarity
CrossEntropyLoss CrossMapLRN2d DataParallel Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag FeatureAlphaDropout
Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU GRUCell GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid
Hardswish Hardtanh HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LPPool1d
LPPool2d LPPool3d LSTM LSTMCell LayerNorm LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d
LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear
LeakyReLU Linear LinearCrossEntropyLoss LinearCrossEntropyOptions LocalResponseNorm LogSigmoid LogSoftmax MSELoss
MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish Module ModuleDict ModuleList
MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss NLLLoss2d PReLU PairwiseDistance
Parameter ParameterDict ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss RMSNorm RNN RNNBase RNNCell RNNCellBase RReLU
ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU Sequential
SiLU Sigmoid SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign SyncBatchNorm Tanh Tanhshrink
Threshold Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss
TripletMarginWithDistanceLoss Unflatten Unfold UninitializedBuffer UninitializedParameter Upsample UpsamplingBilinear2d
UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d
"""
FUNCTIONS = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices
adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid
alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits celu
celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss
cosine_similarity cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu elu_ embedding embedding_bag
feature_alpha_dropout fold fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
fractional_max_pool3d_with_indices gaussian_nll_loss gelu glu grid_sample group_norm grouped_mm gumbel_softmax hardshrink
hardsigmoid hardswish hardtanh hardtanh_ hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm
leaky_relu leaky_relu_ linear linear_cross_entropy local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d lp_pool3d
margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices
max_unpool1d max_unpool2d max_unpool3d mish mse_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss
multilabel_soft_margin_loss native_channel_shuffle nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle
pixel_unshuffle poisson_nll_loss prelu relu relu6 relu_ rms_norm rrelu rrelu_ scaled_dot_product_attention scaled_grouped_mm
scaled_mm selu selu_ sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign tanh tanhshrink
threshold threshold_ triplet_margin_loss triplet_margin_with_distance_loss unfold upsample upsample_bilinear upsample_nearest
"""
INIT = """
calculate_gain constant constant_ dirac dirac_ eye eye_ kaiming_normal kaiming_normal_ kaiming_uniform kaiming_uniform_ normal
normal_ ones_ orthogonal orthogonal_ sparse sparse_ trunc_normal_ uniform uniform_ xavier_normal xavier_normal_ xavier_uniform
xavier_uniform_ zeros_
"""
UTILS = """
clip_grad_norm clip_grad_norm_ clip_grads_with_norm_ clip_grad_value_ convert_conv2d_weight_memory_format
convert_conv3d_weight_memory_format fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights
get_total_norm parameters_to_vector parametrizations parametrize remove_spectral_norm remove_weight_norm rnn skip_init
spectral_norm stateless vector_to_parameters weight_norm
"""
SUBMODULES = "attention common_types functional init parallel parameter utils grad intrinsic qat quantizable quantized backends cpp"
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "networks.md"


def missing_on_the_page():
    text = PAGE.read_text(encoding="utf-8").split("## What torch.nn has and Adjoint lacks")[1]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return {
        name.rpartition(".")[2].partition("(")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)
    }


@pytest.mark.parametrize(
    "place, names",
    [(nn, MODULES), (nn.functional, FUNCTIONS), (nn.init, INIT), (nn.utils, UTILS), (nn, SUBMODULES)],
)
def test_a_name_of_torch_is_here_or_on_the_page(place, names):
    def there(name):
        if hasattr(place, name):
            return True
        try:
            __import__(f"{place.__name__}.{name}")
        except ImportError:
            return False
        return True

    missing = {name for name in names.split() if not there(name)}
    assert missing <= missing_on_the_page()
    # What has come since is taken from the page.
    options = {"Embedding", "EmbeddingBag", "TransformerEncoder"}
    assert not {name for name in names.split() if there(name)} & (missing_on_the_page() - options)


def test_initialisations_by_their_old_names():
    weight = ad.zeros(2, 3)
    with announced(
        FutureWarning, match="`nn.init.constant` is now deprecated in favor of `nn.init.constant_`"
    ):
        assert nn.init.constant(weight, 2.0) is weight
    assert bool((weight == 2).all())
    assert not hasattr(nn.init, "ones") and not hasattr(nn.init, "calculate")


def test_compile_takes_torchs_options():
    module = nn.Linear(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert module.compile(fullgraph=True) is None
    assert tuple(module(ad.ones(1, 2)).shape) == (1, 3)
