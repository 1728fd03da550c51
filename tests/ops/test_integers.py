"""Integers that are no `int`: tensors without dimensions and NumPy's, wherever an int or a list of ints stands.

One converter, ``__index__``, reads them: in the core (core/bind/convert.h), in Python for what fails without it
(`adjoint._publish.arguments.whole`). Each call here has I(n) for its integers and must do with any kind what it does with `int`. Calls
in which a tensor means something else (``x.max(other)``, ``x.scatter(dim, index, src)``) are not here. Start reading at
`test_any_integer_is_as_good_as_an_int`.
"""

import copy

import numpy as np
import pytest
import samples

import adjoint as ad

FUNCTIONS = """
x.std(I(0)) x.var(I(0)) ad.std_mean(x,I(0)) ad.var_mean(x,I(1)) x.std((I(0),I(1))) x.sum(I(0))
x.sum((I(0),I(1))) x.mean(I(0)) x.any(I(0)) x.all(I(0)) x.amax(I(0)) x.amin(I(0)) ad.aminmax(x,dim=I(0))
x.prod(I(0)) x.nansum(I(0)) x.nanmean(I(0)) x.logsumexp(I(0)) x.norm(2,I(0)) x.norm(I(2))
x.count_nonzero(I(0)) x.view(I(2),3) x.view((I(2),I(3))) x.permute(I(1),I(0)) x.permute((I(1),I(0)))
x.roll(I(1),I(0)) x.roll((I(1),I(1)),(I(0),I(1))) x.expand(I(2),I(3)) x.expand((I(2),I(3)))
x.repeat(I(2),I(2)) x.repeat((I(2),I(2))) x.repeat(I(1),1,I(2)) x.reshape(I(3),I(2)) x.reshape((I(3),I(2)))
x.reshape(I(6)) x.flip(I(0)) x.flip((I(0),I(1))) x.movedim(I(0),I(1)) x.movedim((I(0),),(I(1),))
x[None].squeeze(I(0)) x[None].squeeze((I(0),)) x.unique(dim=I(0)) x.mode(I(0)) x.quantile(0.5,I(0))
x.nanquantile(0.5,I(0)) ad.trapezoid(x,dim=I(0)) ad.cumulative_trapezoid(x,dim=I(0)) ad.gradient(x,dim=I(0))
ad.gradient(x,spacing=I(2)) ad.gradient(x,dim=(I(0),I(1))) x.sum_to_size(I(1),I(3))
x.sum_to_size((I(1),I(3))) ad.linalg.matrix_power(sq,I(2)) sq.matrix_power(I(2))
ad.linalg.vector_norm(x,I(2)) ad.linalg.vector_norm(x,2,I(0)) ad.linalg.matrix_norm(x,I(1))
ad.linalg.matrix_norm(x,'fro',(I(0),I(1))) ad.linalg.norm(x,I(1),I(0)) ad.linalg.norm(x,None,I(0))
ad.linalg.cond(sq,I(1)) ad.tensor_split(x,I(2)) ad.tensor_split(x,I(2),I(1))
ad.tensor_split(x,(I(1),I(2)),1) ad.hsplit(x,I(3)) ad.vsplit(x,I(2)) ad.dsplit(x[None].expand(2,2,3),I(3))
ad.hsplit(x,(I(1),I(2))) ad.split(x,I(1)) ad.split(x,(I(1),I(1))) ad.split(x,I(1),I(1))
ad.chunk(x,I(2),I(0)) ad.unbind(x,I(1)) ad.split_with_sizes(x,(I(1),I(1)),I(0)) ad.unsafe_chunk(x,I(2))
ad.unsafe_split(x,I(1)) F.normalize(x,dim=I(1)) F.normalize(x,p=I(2)) F.adaptive_avg_pool1d(y,I(2))
F.adaptive_avg_pool2d(y,(I(2),I(2))) F.adaptive_avg_pool2d(y,I(2))
F.adaptive_avg_pool3d(y[None],(I(1),I(2),I(2))) F.adaptive_avg_pool3d(y[None],I(1))
F.adaptive_max_pool1d(y,I(2)) F.adaptive_max_pool2d(y,I(2)) F.adaptive_max_pool2d(y,(I(2),I(2)))
F.adaptive_max_pool3d(y[None],I(1)) F.avg_pool1d(y,I(2)) F.avg_pool1d(y,(I(2),))
F.avg_pool1d(y,I(2),stride=I(1),padding=I(1)) F.avg_pool2d(y,I(2))
F.avg_pool2d(y,(I(2),I(2)),I(1),I(1),divisor_override=I(3)) F.avg_pool3d(y[None],(I(1),I(2),I(2)))
F.avg_pool3d(y[None],I(1),I(1),I(0)) F.max_pool1d(y,I(2)) F.max_pool1d(y,I(2),I(1),I(1),I(1))
F.max_pool2d(y,I(2)) F.max_pool2d(y,(I(2),I(2)),(I(1),I(1)),I(1),I(1)) F.max_pool3d(y[None],I(1))
F.max_pool3d(y[None],(I(1),I(2),I(2)),I(1)) F.lp_pool1d(y,I(2),I(2)) F.lp_pool2d(y,2,(I(2),I(2)),I(1))
F.lp_pool3d(y[None],2,I(1)) F.max_pool2d_with_indices(y,I(2)) F.max_pool1d_with_indices(y,I(2))
F.max_unpool1d(u,v,I(2)) F.max_unpool1d(u,v,I(2),stride=I(2),padding=I(0)) F.max_unpool2d(u2,v2,I(2))
F.fractional_max_pool2d(y,I(2),output_size=I(1),_random_samples=rs)
F.fractional_max_pool2d(y,(I(2),I(2)),output_size=(I(1),I(1)),_random_samples=rs) F.conv1d(y,k1,stride=I(2))
F.conv1d(y,k1,None,I(1),I(1),I(1),I(1)) F.conv1d(y,k1,stride=(I(2),),padding=(I(1),),dilation=(I(1),))
F.conv2d(y,k2,stride=I(1),padding=I(1),dilation=I(1),groups=I(1))
F.conv2d(y,k2,stride=(I(1),I(1)),padding=(I(1),I(0))) F.conv3d(y[None],k3,stride=I(1),padding=I(1))
F.conv3d(y[None],k3,stride=(I(1),I(1),I(1)))
F.conv_transpose1d(y[:,:1],kt1,stride=I(2),padding=I(1),output_padding=I(1),dilation=I(1),groups=I(1))
F.conv_transpose2d(y,k2,stride=I(2),output_padding=I(1))
F.conv_transpose2d(y,k2,stride=(I(2),I(2)),padding=(I(1),I(1))) F.conv_transpose3d(y[None],k3,stride=I(1))
ad.conv2d(y,k2,stride=I(1)) F.unfold(y[None],I(2)) F.unfold(y[None],(I(2),I(2)),I(1),I(1),I(1))
F.fold(fo,(I(2),I(3)),I(2)) F.fold(fo,(I(2),I(3)),(I(2),I(2)),dilation=I(1),padding=I(0),stride=I(1))
F.interpolate(y,size=I(2)) F.interpolate(y[None],size=(I(4),I(4))) F.interpolate(y,scale_factor=I(2))
F.interpolate(y[None],scale_factor=(I(2),I(2))) F.interpolate(y[None],size=I(4),mode='bilinear')
F.upsample(y,I(2)) F.pad(x,(I(1),I(1))) F.pad(x,[I(1),I(1),I(0),I(0)]) F.pad(y,(I(1),I(1)),'reflect')
F.pad(x,(I(1),I(1)),value=I(2)) F.pixel_shuffle(ps,I(2)) F.pixel_unshuffle(ps2,I(2))
F.channel_shuffle(ps,I(2)) F.glu(x[:,:2],I(0)) F.softmax(x,I(0)) F.softmin(x,dim=I(0))
F.log_softmax(x,dim=I(0)) F.gumbel_softmax(x*1e4*big,dim=I(1),hard=True) F.cosine_similarity(x,x,I(0))
F.cosine_similarity(x,x,dim=I(0)) F.layer_norm(x,(I(3),)) F.rms_norm(x,(I(3),))
F.group_norm(y.reshape(1,2,3),I(2)) F.local_response_norm(y,I(2)) F.one_hot(ix,I(4))
F.embedding_bag(ix[None]%2,x,padding_idx=I(0)) F.affine_grid(th,(I(1),I(1),I(2),I(2))) F.pdist(x,I(2))
F.pairwise_distance(x,x+1,I(2)) F.cross_entropy(x,ix[:2],ignore_index=I(0))
F.nll_loss(x,ix[:2],ignore_index=I(0)) F.triplet_margin_loss(x,x+1,x+2,p=I(2))
F.multi_margin_loss(x,ix[:2],p=I(1)) F.ctc_loss(lp,ix[None,1:],(I(5),),(I(2),),blank=I(0))
ad.zeros(I(2),I(3)) ad.zeros((I(2),I(3))) ad.ones(I(2)) ad.ones(I(2),3) ad.full((I(2),),I(3))
ad.full(size=(I(2),),fill_value=1.) ad.eye(I(2)) ad.eye(I(2),I(3)) ad.arange(I(3)) ad.arange(I(1),I(5),I(2))
ad.linspace(0,1,I(3)) ad.logspace(0,1,I(3)) ad.empty(I(2)).zero_() ad.empty((I(2),)).zero_()
x.new_zeros(I(2),I(2)) x.new_zeros((I(2),)) x.new_ones(I(2)) x.new_full((I(2),),1)
x.new_empty((I(2),)).zero_() x.new_empty(I(2)).zero_() ad.tril_indices(I(3),I(3),I(0))
ad.triu_indices(I(3),I(3)) x.tril(I(1)) x.triu(I(1)) ad.diag(x,I(1)) ad.diagonal(x,I(0),I(0),I(1))
ad.diag_embed(x,I(1)) ad.diagflat(x,I(1)) ad.vander(x[0],I(2)) ad.hann_window(I(4)) ad.kaiser_window(I(4))
ad.bartlett_window(I(4)) ad.blackman_window(I(4)) ad.hamming_window(I(4))
ad.empty_strided((I(2),),(I(1),)).zero_() ad.rand(I(2)).zero_() ad.randn(I(2),I(2)).zero_()
ad.rand((I(2),)).zero_() ad.randint(I(5),(I(2),)).zero_() ad.randint(I(0),I(5),(I(2),)).zero_()
ad.randperm(I(1)) ad.normal(0.,1.,(I(2),)).zero_() ad.combinations(x[0],I(2)) x.unsqueeze(I(0))
x.select(I(0),I(1)) x.narrow(I(0),I(0),I(1)) x.transpose(I(0),I(1)) x.swapaxes(I(0),I(1))
x.swapdims(I(0),I(1)) x.flatten(I(0),I(1)) x.unflatten(I(1),(I(3),I(1))) x.unflatten(I(1),(3,-1))
x.unfold(I(1),I(2),I(1)) x.as_strided((I(2),),(I(1),),I(1)) x.repeat_interleave(I(2),I(0))
x.repeat_interleave(I(2)) x.tile(I(2)) x.tile((I(2),I(2))) ad.tile(x,(I(2),)) x.rot90(I(1),(I(0),I(1)))
ad.rot90(x,I(1)) x.broadcast_to((I(2),I(3))) ad.broadcast_to(x,(I(2),I(3))) ad.cat((x,x),I(0))
ad.stack((x,x),I(0)) ad.concat((x,x),dim=I(1)) x.cumsum(I(0)) x.cumprod(I(0)) x.cummax(I(0)) x.cummin(I(0))
x.logcumsumexp(I(0)) x.diff(I(1),I(0)) ad.diff(x,n=I(1)) x.sort(I(0)) x.argsort(I(0)) x.topk(I(1),I(0))
x.kthvalue(I(1),I(0)) x.median(I(0)) x.nanmedian(I(0)) x.argmax(I(0)) x.argmin(I(0))
x.gather(I(0),ix[None]%2) x.index_select(I(0),ix%2) x.index_add(I(0),ix[:2]%2,x) x.index_fill(I(0),ix%2,0.)
x.index_copy(I(0),ix[:2]%2,x) x.scatter_add(I(0),ix[None]%2,x) x.scatter_reduce(I(0),ix[None]%2,x,'sum')
ad.take_along_dim(x,ix[None]%2,I(0)) x.renorm(2,I(0),1.) ad.cross(x,x+1,dim=I(1))
ad.linalg.cross(x,x+1,dim=I(1)) ad.linalg.vecdot(x,x,dim=I(0)) ad.tensordot(x,x,I(2))
ad.tensordot(x,x,((I(0),),(I(0),))) ad.cdist(x,x+1,I(2)) ad.histc(x,I(3)) ad.bincount(ix,minlength=I(5))
ad.polygamma(I(1),x+1) x.mvlgamma(I(1)) x.unique_consecutive(dim=I(0)) ad.narrow_copy(x,I(0),I(0),I(1))
ad.select_scatter(x,x[0],I(0),I(0)) ad.slice_scatter(x,x[:1],I(0),I(0),I(1))
ad.diagonal_scatter(x,ad.zeros(2),I(0)) ad.channel_shuffle(ps,I(2)) ad.dist(x,x+1,I(2))
x.split_with_sizes((I(1),I(1))) ad.unravel_index(ix,(I(2),I(3))) ad.linalg.tensorinv(ti,I(1))
ad.linalg.vander(x[0],N=I(2)) ad.linalg.diagonal(x,offset=I(0)) ad.svd_lowrank(sq,I(1))[1]*0
ad.fft.fft(x,I(2),I(0)) ad.fft.rfft(x,n=I(2)) ad.fft.ifft(x,dim=I(0)) ad.fft.irfft(x,I(4))
ad.fft.fft2(x,(I(2),I(2))) ad.fft.fftn(x,(I(2),),(I(0),)) ad.fft.fftshift(x,I(0)) ad.fft.fftshift(x,(I(0),))
ad.fft.ifftshift(x,I(0)) ad.fft.fftfreq(I(4)) ad.fft.rfftfreq(I(4))
ad.stft(lng,I(8),I(4),I(8),return_complex=True) ad.stft(lng,n_fft=I(8),return_complex=True)
ad.istft(ad.stft(lng,8,return_complex=True),I(8),I(2)) ad.special.polygamma(I(1),x+1)
ad.special.multigammaln(x+3,I(1)) ad.special.softmax(x,I(0)) ad.special.log_softmax(x,I(0))
ad.special.logsumexp(x,I(0)) x.clone().resize_(I(2),I(3)) x.clone().resize_((I(2),I(3))) x.size(I(0))
x.stride(I(0)) x.clone().fill_diagonal_(I(2)) x[I(0)] x[I(0),I(1)] x[I(0):I(2)] x[:,I(0):I(2)]
x.expand(I(-1),3) ad.Size((I(2),I(3))) x.t().contiguous().view(-1,I(2)) x.addcmul(x,x,value=I(2))
x.add(x,alpha=I(2)) x.clamp(I(1),I(3)) x.pow(I(2)) x*I(2) x.masked_fill(x>1,I(2)) x.fill_(I(1))*0
"""
LAYERS = """
nn.Conv1d(I(1),I(2),I(3)) nn.Conv2d(1,2,I(3)) nn.Conv2d(I(1),I(2),(I(3),I(3)),I(1),I(1),I(1),I(1))
nn.Conv3d(1,2,I(1),stride=I(1)) nn.ConvTranspose1d(I(1),I(2),I(3),I(1),I(1),I(0),I(1))
nn.ConvTranspose2d(1,2,I(3),output_padding=I(0)) nn.LayerNorm(I(3))(x) nn.LayerNorm((I(3),))(x)
nn.RMSNorm(I(3))(x) nn.MaxPool1d(I(2))(y) nn.MaxPool2d(I(2))(y) nn.MaxPool2d((I(2),I(2)),I(1),I(1))(y)
nn.MaxPool3d(I(1))(y[None]) nn.AvgPool1d(I(2))(y) nn.AvgPool2d(I(2))(y) nn.AvgPool3d(I(1))(y[None])
nn.AdaptiveAvgPool1d(I(2))(y) nn.AdaptiveAvgPool2d(I(2))(y) nn.AdaptiveAvgPool2d((I(2),None))(y)
nn.AdaptiveMaxPool2d((I(2),I(1)))(y) nn.LPPool1d(2,I(2))(y) nn.LPPool2d(2,I(2))(y) nn.Linear(I(3),I(2))
nn.Bilinear(I(3),I(3),I(2)) nn.Embedding(I(3),I(2)) nn.Embedding(I(3),I(2),padding_idx=I(0))
nn.EmbeddingBag(I(3),I(2)) nn.BatchNorm1d(I(3))(x) nn.BatchNorm2d(I(2)) nn.GroupNorm(I(1),I(2))
nn.InstanceNorm1d(I(2)) nn.LSTMCell(I(3),I(2)) nn.MultiheadAttention(I(4),I(2))
nn.TransformerEncoderLayer(I(4),I(2),I(8)) nn.Flatten(I(0),I(1))(x) nn.Unfold(I(2))(y[None])
nn.Fold((I(2),I(3)),I(2))(fo) nn.Upsample(size=I(2))(y) nn.Upsample(scale_factor=I(2))(y)
nn.UpsamplingNearest2d(I(4))(y[None]) nn.ZeroPad2d(I(1))(y) nn.ConstantPad1d(I(1),0.)(y)
nn.ConstantPad2d((I(1),I(1),I(0),I(0)),1.)(y) nn.ReflectionPad1d(I(1))(y) nn.ReplicationPad2d(I(1))(y)
nn.CircularPad1d(I(1))(y) nn.PixelShuffle(I(2))(ps) nn.PixelUnshuffle(I(2))(ps2) nn.ChannelShuffle(I(2))(ps)
nn.Softmax(I(0))(x) nn.Softmax(dim=I(0))(x) nn.LogSoftmax(I(0))(x) nn.GLU(I(0))(x[:,:2])
nn.CosineSimilarity(I(0))(x,x) nn.PairwiseDistance(I(2))(x,x+1) nn.MaxUnpool1d(I(2))(u,v) nn.PReLU(I(3))(x)
nn.LocalResponseNorm(I(2))(y) nn.CrossEntropyLoss(ignore_index=I(0))(x,ix[:2])
nn.NLLLoss(ignore_index=I(0))(x,ix[:2]) nn.FractionalMaxPool2d(I(2),output_size=I(1),_random_samples=rs)(y)
nn.init.dirac_(ad.zeros(2,1,1),I(1))
"""
KINDS = {"tensor": ad.tensor, "NumPy": np.int64, "NumPy's bytes": np.int8}


def names():
    F = ad.nn.functional
    x = ad.arange(6.0).view(2, 3)
    u, v = F.max_pool1d(ad.arange(8.0).view(1, 1, 8), 2, return_indices=True)
    u2, v2 = F.max_pool2d(ad.arange(24.0).view(1, 1, 4, 6), 2, return_indices=True)
    return {
        **{"ad": ad, "F": F, "nn": ad.nn, "x": x, "y": x[None], "sq": ad.tensor([[2.0, 1], [0, 3]])},
        **{"ix": ad.tensor([0, 1, 2]), "u": u, "v": v, "u2": u2, "v2": v2, "rs": ad.tensor([[[0.5, 0.5]]])},
        **{"k1": ad.ones(1, 2, 2), "k2": ad.ones(1, 1, 1, 2), "k3": ad.ones(1, 1, 1, 1, 1)},
        **{"kt1": ad.ones(1, 1, 3), "fo": ad.ones(1, 4, 2), "th": ad.ones(1, 2, 3)},
        **{"ps": ad.arange(16.0).view(1, 4, 2, 2), "ps2": ad.arange(16.0).view(1, 1, 4, 4)},
        **{"lp": ad.zeros(5, 1, 4).log_softmax(-1), "big": ad.tensor([[0.0, 1, 2]])},
        **{"ti": ad.eye(4).view(4, 2, 2), "lng": ad.arange(32.0)},
    }


def plain(result):
    """What can be compared of a result: shapes and elements, or how a layer is shown."""
    if isinstance(result, ad.Tensor):
        return tuple(result.shape), result.tolist()
    if isinstance(result, ad.nn.Module):
        return repr(result), [tuple(p.shape) for p in result.parameters()]
    if isinstance(result, (tuple, list)):
        return [plain(r) for r in result]
    return repr(result)


def outcome(call, kind):
    ad.manual_seed(0)
    return plain(eval(call, {**names(), "I": kind}))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("calls", ["FUNCTIONS", "LAYERS"])
def test_any_integer_is_as_good_as_an_int(calls, kind):
    wrong = []
    for call in globals()[calls].split():
        expected = outcome(call, int)
        try:
            found = outcome(call, KINDS[kind])
        except Exception as error:
            wrong.append(f"{call}: {type(error).__name__} {error}")
            continue
        if found != expected:
            wrong.append(f"{call}: {found} for {expected}")
    assert not wrong, "\n".join(wrong)


def of_kind(value, form, kind):
    """An argument of a row with integers of another kind, where it has that form."""
    if form in ("int", "int | None") and type(value) is int:
        return KINDS[kind](value)
    if form is not None and form.startswith("int | Seq") and isinstance(value, (list, tuple)):
        return [KINDS[kind](v) if type(v) is int else v for v in value]
    if form is not None and form.startswith("int | Seq") and type(value) is int:
        return KINDS[kind](value)
    return value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_take_any_integers(kind):
    """Every sample of every row of the table that has arguments of integers."""
    seen = set()
    for row, args, kwargs in samples.samples():
        forms = dict(zip(row["arguments"], row["kinds"]))
        others = [of_kind(v, f, kind) for v, f in zip(args, forms.values())]
        named = {k: of_kind(v, forms.get(k), kind) for k, v in kwargs.items()}
        if all(a is b for a, b in zip(others, args)) and all(named[k] is kwargs[k] for k in kwargs):
            continue
        f = samples.function_of(row)
        outcomes = []
        for xs, more in ((args, kwargs), (others, named)):
            ad.manual_seed(0)
            try:
                outcomes.append(plain(f(*copy.deepcopy(xs), **more)))  # some are written
            except (RuntimeError, IndexError, ValueError) as error:
                outcomes.append(str(error))
        assert repr(outcomes[0]) == repr(outcomes[1]), row["name"]
        seen.add(row["name"])
    assert len(seen) > 60


def test_data_is_not_taken_for_an_integer():
    x = ad.arange(6.0).view(2, 3)
    assert ad.equal(x.max(ad.tensor(3)), x.clamp(min=3))
    for wrong in (ad.tensor(1.0), ad.tensor(True), ad.tensor([0, 1]), np.float64(1)):
        with pytest.raises(TypeError):
            x.sum(wrong)
    with pytest.raises((TypeError, ValueError)):
        ad.nn.functional.binary_cross_entropy(x, ad.tensor(1))
