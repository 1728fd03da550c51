"""`__constants__` of the layers: the attributes that torch's script compiler takes for constants.

Programs read them and extend them: ``__constants__ = nn.Linear.__constants__ + ["scale"]``. Start reading at `of`.
"""

from __future__ import annotations

__all__ = ["of"]

#: Names of attributes, and the layers that have these.
_CONSTANTS = {
    "alpha inplace": "CELU ELU",
    "approximate": "GELU",
    "dim": "GLU LogSoftmax Softmax Softmin",
    "lambd": "Hardshrink Softshrink",
    "inplace": "Hardsigmoid Hardswish Mish ReLU SELU SiLU",
    "min_val max_val inplace": "Hardtanh ReLU6",
    "inplace negative_slope": "LeakyReLU",
    "num_parameters": "PReLU",
    "lower upper inplace": "RReLU",
    "beta threshold": "Softplus",
    "threshold value inplace": "Threshold",
    "track_running_stats momentum eps num_features affine": (
        "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d SyncBatchNorm "
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d"
    ),
    "num_groups num_channels eps affine": "GroupNorm",
    "size alpha beta k": "LocalResponseNorm",
    "stride padding dilation groups padding_mode output_padding in_channels out_channels kernel_size": (
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d "
        "LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
    ),
    "p inplace": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "in_features out_features": "LazyLinear Linear",
    "reduction": (
        "BCELoss KLDivLoss L1Loss MSELoss SmoothL1Loss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
        "SoftMarginLoss"
    ),
    "ignore_index reduction label_smoothing": "CrossEntropyLoss",
    "reduction delta": "HuberLoss",
    "ignore_index reduction": "NLLLoss NLLLoss2d",
    "blank reduction": "CTCLoss",
    "margin reduction": "CosineEmbeddingLoss HingeEmbeddingLoss MarginRankingLoss",
    "full eps reduction": "GaussianNLLLoss",
    "num_classes out_features reduction ignore_index label_smoothing": "LinearCrossEntropyLoss",
    "p margin reduction": "MultiMarginLoss",
    "log_input full eps reduction": "PoissonNLLLoss",
    "margin p eps swap reduction": "TripletMarginLoss",
    "margin swap reduction": "TripletMarginWithDistanceLoss",
    "padding": (
        "CircularPad1d CircularPad2d CircularPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d "
        "ReplicationPad1d ReplicationPad2d ReplicationPad3d"
    ),
    "padding value": "ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
    "output_size": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d",
    "output_size return_indices": "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d",
    "kernel_size stride padding ceil_mode count_include_pad": "AvgPool1d",
    "kernel_size stride padding ceil_mode count_include_pad divisor_override": "AvgPool2d AvgPool3d",
    "kernel_size return_indices output_size output_ratio": "FractionalMaxPool2d FractionalMaxPool3d",
    "norm_type kernel_size stride ceil_mode": "LPPool1d LPPool2d LPPool3d",
    "kernel_size stride padding dilation return_indices ceil_mode": "MaxPool1d MaxPool2d MaxPool3d",
    "groups": "ChannelShuffle",
    "output_size kernel_size dilation padding stride": "Fold",
    "upscale_factor": "PixelShuffle",
    "downscale_factor": "PixelUnshuffle",
    "kernel_size dilation padding stride": "Unfold",
    "size scale_factor mode align_corners name recompute_scale_factor": (
        "Upsample UpsamplingBilinear2d UpsamplingNearest2d"
    ),
    "mode input_size hidden_size num_layers bias batch_first dropout bidirectional proj_size": (
        "GRU LSTM RNN RNNBase"
    ),
    "input_size hidden_size bias": "GRUCell LSTMCell RNNCellBase",
    "input_size hidden_size bias nonlinearity": "RNNCell",
    "norm": "TransformerDecoder TransformerEncoder",
    "norm_first": "TransformerDecoderLayer TransformerEncoderLayer",
    "in1_features in2_features out_features": "Bilinear",
    "dim eps": "CosineSimilarity",
    "num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq sparse": "Embedding",
    "num_embeddings embedding_dim max_norm norm_type scale_grad_by_freq mode sparse include_last_offset padding_idx": (
        "EmbeddingBag"
    ),
    "start_dim end_dim": "Flatten",
    "normalized_shape eps elementwise_affine": "LayerNorm RMSNorm",
    "batch_first": "MultiheadAttention",
    "norm eps keepdim": "PairwiseDistance",
    "dim unflattened_size": "Unflatten",
}


#: By the name of a layer.
_BY_LAYER = {layer: names.split() for names, layers in _CONSTANTS.items() for layer in layers.split()}


def of(cls: type) -> list[str] | None:
    """The list of a layer, or of the layer that a class is derived from; None for other modules."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith(("adjoint.nn.", "adjoint.as_torch."))]
    return next((_BY_LAYER[base.__name__] for base in bases if base.__name__ in _BY_LAYER), None)
