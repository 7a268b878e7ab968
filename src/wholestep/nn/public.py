"""The public names of `ws.nn`."""

from wholestep.nn import init as init, metrics as metrics, models as models
from wholestep.nn.activations import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    hardshrink as hardshrink,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    leaky_relu as leaky_relu,
    log_sigmoid as log_sigmoid,
    mish as mish,
    prelu as prelu,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softplus as softplus,
    softshrink as softshrink,
    softsign as softsign,
    squareplus as squareplus,
    tanh as tanh,
    tanhshrink as tanhshrink,
    threshold as threshold,
)
from wholestep.nn.adaptive_softmax import AdaptiveLogSoftmax as AdaptiveLogSoftmax
from wholestep.nn.annotations import buffer as buffer, frozen as frozen, no_decay as no_decay, tied as tied
from wholestep.nn.attention import (
    multi_head_attention as multi_head_attention,
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from wholestep.nn.attention_layer import MultiHeadAttention as MultiHeadAttention
from wholestep.nn.augmentations import (
    random_crop as random_crop,
    random_flip as random_flip,
    random_resized_crop as random_resized_crop,
)
from wholestep.nn.containers import (
    MLP as MLP,
    Flatten as Flatten,
    Identity as Identity,
    Lambda as Lambda,
    Sequential as Sequential,
)
from wholestep.nn.conv_layers import (
    Conv1d as Conv1d,
    Conv2d as Conv2d,
    Conv3d as Conv3d,
    ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d,
    ConvTranspose3d as ConvTranspose3d,
)
from wholestep.nn.convolution import conv1d as conv1d, conv2d as conv2d, conv3d as conv3d
from wholestep.nn.cross_entropies import (
    cross_entropy as cross_entropy,
    focal as focal,
    nll_loss as nll_loss,
    poly_cross_entropy as poly_cross_entropy,
)
from wholestep.nn.ctc import ctc_loss as ctc_loss
from wholestep.nn.distances import l2_normalize as l2_normalize, pairwise_distances as pairwise_distances
from wholestep.nn.dropouts import (
    AlphaDropout as AlphaDropout,
    ChannelDropout as ChannelDropout,
    Dropout as Dropout,
    alpha_dropout as alpha_dropout,
    channel_dropout as channel_dropout,
    dropout as dropout,
)
from wholestep.nn.embeddings import (
    Embedding as Embedding,
    EmbeddingBag as EmbeddingBag,
    embedding as embedding,
    embedding_bag as embedding_bag,
)
from wholestep.nn.encoder_decoder import Transformer as Transformer
from wholestep.nn.exponentials import (
    log_softmax as log_softmax,
    logmeanexp as logmeanexp,
    logsumexp as logsumexp,
    one_hot as one_hot,
    safe_log as safe_log,
    safe_sqrt as safe_sqrt,
    softmax as softmax,
)
from wholestep.nn.fractional_pooling import (
    FractionalMaxPool2d as FractionalMaxPool2d,
    FractionalMaxPool3d as FractionalMaxPool3d,
    fractional_max_pool2d as fractional_max_pool2d,
    fractional_max_pool3d as fractional_max_pool3d,
)
from wholestep.nn.gates import gated_act as gated_act, geglu as geglu, glu as glu, swiglu as swiglu
from wholestep.nn.generation import generate as generate
from wholestep.nn.grid_sampling import affine_grid as affine_grid, grid_sample as grid_sample
from wholestep.nn.initialization import initialized as initialized
from wholestep.nn.int8 import Int8Linear as Int8Linear, to_int8 as to_int8
from wholestep.nn.linears import (
    Bilinear as Bilinear,
    Linear as Linear,
    bilinear as bilinear,
    linear as linear,
)
from wholestep.nn.losses import (
    gaussian_nll as gaussian_nll,
    huber as huber,
    log_cosh as log_cosh,
    mae as mae,
    mse as mse,
    poisson_nll as poisson_nll,
    smooth_l1 as smooth_l1,
)
from wholestep.nn.low_rank import LoRA as LoRA
from wholestep.nn.margin_losses import (
    dice as dice,
    hinge_embedding as hinge_embedding,
    margin_ranking as margin_ranking,
    multilabel_margin as multilabel_margin,
    multilabel_soft_margin as multilabel_soft_margin,
    nt_xent as nt_xent,
    soft_margin as soft_margin,
)
from wholestep.nn.module import Module as Module
from wholestep.nn.norm_layers import (
    BatchNorm as BatchNorm,
    GroupNorm as GroupNorm,
    InstanceNorm as InstanceNorm,
    LayerNorm as LayerNorm,
    LocalResponseNorm as LocalResponseNorm,
    RMSNorm as RMSNorm,
)
from wholestep.nn.normalization import (
    batch_norm as batch_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    local_response_norm as local_response_norm,
    rms_norm as rms_norm,
)
from wholestep.nn.ordering import top_k as top_k
from wholestep.nn.parameters import (
    buffers as buffers,
    decay_flags as decay_flags,
    join as join,
    matching as matching,
    named_modules as named_modules,
    named_parameters as named_parameters,
    split as split,
    unfrozen as unfrozen,
)
from wholestep.nn.patches import fold as fold, unfold as unfold
from wholestep.nn.pool_layers import (
    AdaptiveAvgPool as AdaptiveAvgPool,
    AdaptiveMaxPool as AdaptiveMaxPool,
    AvgPool1d as AvgPool1d,
    AvgPool2d as AvgPool2d,
    AvgPool3d as AvgPool3d,
    LpPool1d as LpPool1d,
    LpPool2d as LpPool2d,
    LpPool3d as LpPool3d,
    MaxPool1d as MaxPool1d,
    MaxPool2d as MaxPool2d,
    MaxPool3d as MaxPool3d,
    MaxUnpool1d as MaxUnpool1d,
    MaxUnpool2d as MaxUnpool2d,
    MaxUnpool3d as MaxUnpool3d,
    Upsample as Upsample,
)
from wholestep.nn.pooling import (
    adaptive_avg_pool as adaptive_avg_pool,
    adaptive_max_pool as adaptive_max_pool,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    global_avg_pool as global_avg_pool,
    global_max_pool as global_max_pool,
    lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d,
    lp_pool3d as lp_pool3d,
    max_pool1d as max_pool1d,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
    smooth_max_pool as smooth_max_pool,
)
from wholestep.nn.positions import rope as rope, sinusoidal_positions as sinusoidal_positions
from wholestep.nn.probabilities import (
    bce as bce,
    bce_with_logits as bce_with_logits,
    binary_focal as binary_focal,
    kl_div as kl_div,
)
from wholestep.nn.random_slopes import RReLU as RReLU, rrelu as rrelu
from wholestep.nn.ranking_losses import (
    cosine_loss as cosine_loss,
    cosine_similarity as cosine_similarity,
    hinge as hinge,
    multiclass_hinge as multiclass_hinge,
    triplet as triplet,
)
from wholestep.nn.recurrent import (
    GRU as GRU,
    LSTM as LSTM,
    RNN as RNN,
    GRUCell as GRUCell,
    LSTMCell as LSTMCell,
    RNNCell as RNNCell,
)
from wholestep.nn.reparametrized import (
    Orthogonal as Orthogonal,
    SpectralNorm as SpectralNorm,
    WeightNorm as WeightNorm,
)
from wholestep.nn.resampling import (
    channel_shuffle as channel_shuffle,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    upsample as upsample,
)
from wholestep.nn.segments import (
    segment_max as segment_max,
    segment_mean as segment_mean,
    segment_min as segment_min,
    segment_prod as segment_prod,
    segment_softmax as segment_softmax,
    segment_sum as segment_sum,
)
from wholestep.nn.sparse_probabilities import gumbel_softmax as gumbel_softmax, sparsemax as sparsemax
from wholestep.nn.spectrograms import (
    mel_filterbank as mel_filterbank,
    mel_spectrogram as mel_spectrogram,
    mfcc as mfcc,
)
from wholestep.nn.stack import Stack as Stack
from wholestep.nn.streaming import (
    causal_conv1d as causal_conv1d,
    streaming_conv1d as streaming_conv1d,
    streaming_conv1d_init as streaming_conv1d_init,
    streaming_conv2d as streaming_conv2d,
    streaming_conv2d_init as streaming_conv2d_init,
    streaming_conv_transpose1d as streaming_conv_transpose1d,
    streaming_conv_transpose1d_init as streaming_conv_transpose1d_init,
)
from wholestep.nn.summaries import Summary as Summary, summary as summary
from wholestep.nn.transformer import (
    FeedForward as FeedForward,
    TransformerBlock as TransformerBlock,
    TransformerDecoderBlock as TransformerDecoderBlock,
)
from wholestep.nn.transposed import (
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
)
from wholestep.nn.unpooling import (
    max_unpool1d as max_unpool1d,
    max_unpool2d as max_unpool2d,
    max_unpool3d as max_unpool3d,
)
