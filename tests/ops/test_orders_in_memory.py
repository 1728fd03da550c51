"""How results lie in memory, given images with channels innermost, a transposed and an expanded tensor: torch 2.13's strides.

Each line of the table is a call of `x`, or of `x` and `y`, which lie alike, and the strides of its results from the three
inputs below: `.` along a dimension of size 1, where they mean nothing, `-` for a call that torch refuses.
"""

import pytest

import adjoint as ad

F = ad.nn.functional


def numbers(*shape):
    n = 1
    for size in shape:
        n *= size
    return ad.sin(ad.arange(n, dtype=ad.float32) * 0.7).reshape(shape)


INPUTS = {
    "channels innermost": lambda: numbers(2, 4, 6, 6).contiguous(memory_format=ad.channels_last),
    "transposed": lambda: numbers(3, 6, 4).permute(1, 2, 0),
    "expanded": lambda: numbers(2, 1, 6, 4).expand(2, 4, 6, 4),
}

TABLE = """
ad.abs(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.acos(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.asin(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.atan(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.ceil(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.floor(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.round(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.trunc(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.frac(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.exp(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.exp2(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.expm1(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.log1p(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.sigmoid(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.sin(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.cos(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.tan(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.sinh(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.cosh(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.tanh(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.asinh(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.sqrt(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.rsqrt(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
x.square() | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.neg(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.sign(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.sgn(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.positive(x) | 144 1 24 4 | 4 1 24 | 24 0 4 1
ad.reciprocal(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.erf(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.erfc(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.erfinv(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.relu(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.isnan(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.isinf(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.isfinite(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.logical_not(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.signbit(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.digamma(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.lgamma(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.logit(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.deg2rad(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.rad2deg(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.angle(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.conj(x) | 144 1 24 4 | 4 1 24 | 24 0 4 1
ad.real(x) | 144 1 24 4 | 4 1 24 | 24 0 4 1
ad.nan_to_num(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.clone(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.zeros_like(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.ones_like(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.empty_like(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
x+y | 144 1 24 4 | 4 1 24 | 96 24 4 1
x*ad.ones(x.shape) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.ones(x.shape)*x | 144 36 6 1 | 12 3 1 | 96 24 4 1
x*ad.tensor(2.) | 144 1 24 4 | 4 1 24 | 96 24 4 1
x*ad.ones(x.shape[1],*[1]*(x.ndim-2)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
1-x | 144 1 24 4 | 4 1 24 | 96 24 4 1
x.abs()**2 | 144 1 24 4 | 4 1 24 | 96 24 4 1
x.abs()**y | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.atan2(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.maximum(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.lerp(x,y,.3) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.addcmul(x,y,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.where(x>0,x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.where(x>0,x,0.) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.where(ad.ones(x.shape)>0,x,y) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.clamp(-1,1) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.clamp(x,y,y+1) | 144 1 24 4 | 4 1 24 | 96 24 4 1
x<y | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.logical_and(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.remainder(x,2.) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.fmod(x,2.) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.hypot(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.copysign(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.nextafter(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
x.softmax(1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.softmax(-1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.log_softmax(1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.log_softmax(-1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
F.softmin(x,1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.softmax(1,dtype=ad.float64) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.logsumexp(0) | 36 6 1 | 3 1 | 24 4 1
F.layer_norm(x,x.shape[-1:]) | 144 36 6 1 | 12 3 1 | 96 24 4 1
F.layer_norm(x,x.shape[1:]) | 144 36 6 1 | 12 3 1 | 96 24 4 1
F.layer_norm(x,x.shape[-1:],ad.ones(x.shape[-1]),ad.ones(x.shape[-1])) | 144 36 6 1 | 12 3 1 | 96 24 4 1
F.rms_norm(x,x.shape[-1:]) | 144 1 24 4 | 12 3 1 | 96 24 4 1
F.group_norm(x,2) | 144 1 24 4 | 12 3 1 | 96 24 4 1
F.batch_norm(x,None,None,training=True) | 144 1 24 4 | 12 3 1 | 96 24 4 1
F.batch_norm(x,ad.zeros(x.shape[1]),ad.ones(x.shape[1])) | 144 1 24 4 | 12 3 1 | 96 24 4 1
F.instance_norm(x) | 144 36 6 1 | 12 3 1 | 96 24 4 1
F.local_response_norm(x,2) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.normalize(x,dim=1) | 144 1 24 4 | 4 1 24 | 96 24 4 1
x.masked_fill(x>0,1.) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.masked_fill(ad.ones(x.shape)>0,1.) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.masked_fill(ad.ones(x.shape[1],*[1]*(x.ndim-2))>0,1.) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.masked_scatter(x>-9,y) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.stack([x,y]) | 288 144 1 24 4 | 72 12 3 1 | 192 96 24 4 1
ad.stack([x,y],1) | 288 4 1 48 8 | 24 12 3 1 | 192 96 24 4 1
ad.stack([x,y],-1) | 288 72 12 2 1 | 24 6 2 1 | 192 48 8 2 1
ad.cat([x,y]) | 144 1 24 4 | 12 3 1 | 96 24 4 1
ad.cat([x,y],1) | 288 1 48 8 | 24 3 1 | 192 24 4 1
ad.cat([x,y],-1) | 288 1 48 4 | 24 6 1 | 192 48 8 1
ad.cat([x,ad.ones(x.shape)],1) | 288 36 6 1 | 24 3 1 | 192 24 4 1
ad.cat([ad.ones(x.shape),x],1) | 288 36 6 1 | 24 3 1 | 192 24 4 1
ad.cat([x],1) | 144 1 24 4 | 12 3 1 | 96 24 4 1
ad.hstack([x,y]) | 288 1 48 8 | 24 3 1 | 192 24 4 1
ad.vstack([x,y]) | 144 1 24 4 | 12 3 1 | 96 24 4 1
ad.dstack([x,y]) | 288 1 24 4 | 24 6 1 | 192 48 4 1
ad.roll(x,1,1) | 144 1 24 4 | 12 3 1 | 96 24 4 1
ad.roll(x,(1,2),(0,-1)) | 144 1 24 4 | 12 3 1 | 96 24 4 1
ad.roll(x,1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.sort(x,1) | 144 1 24 4; 144 1 24 4 | 4 1 24; 4 1 24 | 96 24 4 1; 96 24 4 1
ad.sort(x,-1) | 144 1 24 4; 144 1 24 4 | 4 1 24; 4 1 24 | 96 24 4 1; 96 24 4 1
ad.sort(x,dim=1,stable=True) | 144 1 24 4; 144 1 24 4 | 4 1 24; 4 1 24 | 96 24 4 1; 96 24 4 1
ad.argsort(x,1) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.msort(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.topk(x,2,1) | 72 36 6 1; 72 36 6 1 | 6 3 1; 6 3 1 | 48 24 4 1; 48 24 4 1
ad.topk(x,2,-1) | 48 12 2 1; 48 12 2 1 | 8 2 1; 8 2 1 | 48 12 2 1; 48 12 2 1
ad.kthvalue(x,2,1) | 36 6 1; 36 6 1 | 3 1; 3 1 | 24 4 1; 24 4 1
ad.kthvalue(x,2,1,keepdim=True) | 36 . 6 1; 36 . 6 1 | 3 . 1; 3 . 1 | 24 . 4 1; 24 . 4 1
ad.median(x,1) | 36 6 1; 36 6 1 | 3 1; 3 1 | 24 4 1; 24 4 1
ad.mode(x,1) | 36 6 1; 36 6 1 | 3 1; 3 1 | 24 4 1; 24 4 1
ad.flip(x,(1,)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.flip(x,(-1,0)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.fliplr(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.rot90(x,1,(0,1)) | 1 144 24 4 | 1 4 24 | 24 96 4 1
ad.rot90(x,2,(-1,-2)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.pad(x,(1,1)) | 192 1 32 4 | 20 5 1 | 144 36 6 1
F.pad(x,(1,1,1,1)) | 256 1 32 4 | 30 5 1 | 192 48 6 1
F.pad(x,(1,1),mode='reflect') | - | 20 5 1 | -
F.pad(x,(1,1,1,1),mode='reflect') | 256 1 32 4 | 30 5 1 | 192 48 6 1
F.pad(x,(1,1,1,1),mode='replicate') | 256 1 32 4 | 30 5 1 | 192 48 6 1
F.pad(x,(1,1,1,1),mode='circular') | 256 64 8 1 | 30 5 1 | 192 48 6 1
F.pad(x,(-1,0)) | 120 1 20 4 | 4 1 24 | 72 18 3 1
F.pad(x,(0,0)*(x.ndim-2)+(1,1)) | 216 1 36 6 | 18 3 1 | 144 24 4 1
F.pad(x,(0,0)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.constant_pad_nd(x,(1,1)) | 192 1 32 4 | 20 5 1 | 144 36 6 1
F.pixel_shuffle(x,2) | 144 . 12 1 | - | 96 . 8 1
F.pixel_unshuffle(x,2) | 144 1 48 16 | - | 96 6 2 1
F.channel_shuffle(x,2) | 144 1 24 4 | 12 3 1 | 96 24 4 1
x[[0,1]] | 144 1 24 4 | 12 1 4 | 96 24 4 1
x[:,[0,1]] | 72 36 6 1 | 1 6 12 | 48 24 4 1
x[...,[0,1]] | 48 2 8 1 | 8 2 1 | 48 12 2 1
x[:,[0,1],[1,2]] | 12 6 1 | 2 1 | 8 4 1
x[[0,1],:,[0,1]] | 24 1 4 | 4 1 | 16 4 1
x[:,ad.tensor([[0,1],[1,0]])] | 144 72 36 6 1 | 1 12 6 24 | 96 48 24 4 1
x[ad.tensor([True]*x.shape[0])] | 144 1 24 4 | 12 1 4 | 96 24 4 1
ad.index_select(x,0,ad.tensor([0,1])) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.index_select(x,1,ad.tensor([0,1])) | 72 36 6 1 | 6 3 1 | 48 24 4 1
ad.index_select(x,-1,ad.tensor([0,1])) | 48 12 2 1 | 8 2 1 | 48 12 2 1
ad.take_along_dim(x,ad.zeros(x.shape,dtype=ad.int64),1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.gather(x,1,ad.zeros(x.shape,dtype=ad.int64)) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.gather(x,1,(x*0).to(ad.int64)) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.index_add(x,1,ad.tensor([0]),x[:,:1]) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.index_fill(x,1,ad.tensor([0]),1.) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.index_copy(x,1,ad.tensor([0]),x[:,:1]) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.scatter(x,1,ad.zeros(x.shape,dtype=ad.int64),1.) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.scatter_add(x,1,ad.zeros(x.shape,dtype=ad.int64),y) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.scatter_reduce(x,1,ad.zeros(x.shape,dtype=ad.int64),y,'amax') | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.index_put(x,(ad.tensor([0]),),ad.tensor(1.)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.select_scatter(x,x[:,0],1,0) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.slice_scatter(x,x[:,:1],1,0,1) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.diagonal_scatter(x,ad.diagonal(x)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
x.sum(0) | 36 6 1 | 3 1 | 24 4 1
x.sum(1) | 36 6 1 | 3 1 | 24 4 1
x.sum(1,keepdim=True) | 36 . 6 1 | 3 . 1 | 24 . 4 1
x.sum(-1) | 24 6 1 | 4 1 | 24 6 1
x.sum(-1,keepdim=True) | 24 6 1 . | 4 1 . | 24 6 1 .
x.mean((-2,-1)) | 4 1 | 1 | 4 1
x.mean((-2,-1),keepdim=True) | 4 1 . . | 1 . . | 4 1 . .
x.amax(1) | 36 6 1 | 3 1 | 24 4 1
x.amax(1,keepdim=True) | 36 . 6 1 | 3 . 1 | 24 . 4 1
ad.max(x,1) | 36 6 1; 36 6 1 | 3 1; 3 1 | 24 4 1; 24 4 1
ad.max(x,1,keepdim=True) | 36 . 6 1; 36 . 6 1 | 3 . 1; 3 . 1 | 24 . 4 1; 24 . 4 1
ad.argmax(x,1) | 36 6 1 | 3 1 | 24 4 1
ad.argmax(x,1,keepdim=True) | 36 . 6 1 | 3 . 1 | 24 . 4 1
ad.var(x,1) | 36 6 1 | 3 1 | 24 4 1
ad.var(x,1,keepdim=True) | 36 . 6 1 | 3 . 1 | 24 . 4 1
ad.std_mean(x,1) | 36 6 1; 36 6 1 | 3 1; 3 1 | 24 4 1; 24 4 1
ad.norm(x,dim=1) | 36 6 1 | 3 1 | 24 4 1
ad.norm(x,dim=1,keepdim=True) | 36 . 6 1 | 3 . 1 | 24 . 4 1
ad.prod(x,1) | 36 6 1 | 3 1 | 24 4 1
ad.prod(x,1,keepdim=True) | 36 . 6 1 | 3 . 1 | 24 . 4 1
ad.all(x>0,1) | 36 6 1 | 3 1 | 24 4 1
ad.all(x>0,1,keepdim=True) | 36 . 6 1 | 3 . 1 | 24 . 4 1
ad.any(x,1) | 36 6 1 | 3 1 | 24 4 1
ad.nansum(x,1) | 36 6 1 | 3 1 | 24 4 1
ad.aminmax(x,dim=1) | 36 6 1; 36 6 1 | 3 1; 3 1 | 24 4 1; 24 4 1
ad.logsumexp(x,1) | 36 6 1 | 3 1 | 24 4 1
x.cumsum(1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.cumsum(-1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.cumprod(1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.cummax(x,1) | 144 36 6 1; 144 36 6 1 | 12 3 1; 12 3 1 | 96 24 4 1; 96 24 4 1
ad.cummax(x,-1) | 144 36 6 1; 144 36 6 1 | 12 3 1; 12 3 1 | 96 24 4 1; 96 24 4 1
ad.logcumsumexp(x,1) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.diff(x,dim=1) | 108 1 18 3 | 3 1 18 | 72 24 4 1
ad.diff(x) | 120 1 20 4 | 4 1 24 | 72 18 3 1
ad.renorm(x,2,1,1.) | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.double() | 144 1 24 4 | 4 1 24 | 96 24 4 1
x.int() | 144 1 24 4 | 4 1 24 | 96 24 4 1
x.contiguous() | 144 36 6 1 | 12 3 1 | 96 24 4 1
x.repeat(*[1]*(x.ndim-1),2) | 288 72 12 1 | 24 6 1 | 192 48 8 1
x.repeat(2,*[1]*(x.ndim-1)) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.tile(x,(2,)) | 288 72 12 1 | 24 6 1 | 192 48 8 1
ad.repeat_interleave(x,2,1) | 288 36 6 1 | 24 3 1 | 192 24 4 1
ad.repeat_interleave(x,2,-1) | 288 72 12 1 | 24 6 1 | 192 48 8 1
ad.tril(x) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.triu(x) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.complex(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.conj_physical(ad.complex(x,y)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.real(ad.complex(x,y)) | 288 2 48 8 | 8 2 48 | 192 48 8 2
ad.abs(ad.complex(x,y)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.heaviside(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.float_power(x.abs(),2) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.xlogy(x.abs(),y.abs()) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.linear(x,ad.ones(2,x.shape[-1])) | 48 12 2 1 | 8 2 1 | 48 12 2 1
F.relu6(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.gelu(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.silu(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.elu(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.leaky_relu(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.prelu(x,ad.ones(x.shape[1])) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.prelu(x,ad.ones(1)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.glu(x,1) | 72 1 12 2 | 2 1 12 | 48 24 4 1
F.glu(x,-1) | 72 1 12 4 | - | 48 12 2 1
F.hardswish(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.mish(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.softplus(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.threshold(x,.1,0.) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.hardtanh(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.softsign(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.tanhshrink(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.logsigmoid(x) | 144 36 6 1 | 12 3 1 | 96 24 4 1
F.celu(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.selu(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.hardshrink(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.softshrink(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.dropout(x,training=False) | 144 1 24 4 | 4 1 24 | 24 0 4 1
F.max_pool2d(x,2) | 36 1 12 4 | 2 1 . | 24 6 2 1
F.max_pool2d(x,2,return_indices=True) | 36 1 12 4; 36 1 12 4 | 2 1 .; 2 1 . | 24 6 2 1; 24 6 2 1
F.max_pool2d(x,3,2,1,ceil_mode=True) | 64 1 16 4 | 6 2 1 | 48 12 3 1
F.avg_pool2d(x,2) | 36 1 12 4 | 2 1 . | 24 6 2 1
F.avg_pool2d(x,3,2,1) | 36 1 12 4 | 4 2 1 | 24 6 2 1
F.adaptive_avg_pool2d(x,2) | 16 1 8 4 | 4 2 1 | 16 4 2 1
F.adaptive_avg_pool2d(x,3) | 36 1 12 4 | 9 3 1 | 36 9 3 1
F.adaptive_max_pool2d(x,2) | 16 1 8 4 | 4 2 1 | 16 4 2 1
F.adaptive_max_pool2d(x,3,return_indices=True) | 36 1 12 4; 36 1 12 4 | 9 3 1; 9 3 1 | 36 9 3 1; 36 9 3 1
F.lp_pool2d(x,2,2) | 36 1 12 4 | 2 1 . | 24 6 2 1
F.max_pool3d(x,2) | - | - | 12 6 2 1
F.avg_pool3d(x,2) | 18 9 3 1 | - | 12 6 2 1
F.adaptive_avg_pool3d(x,2) | 8 4 2 1 | - | 8 4 2 1
F.adaptive_max_pool3d(x,2) | 8 4 2 1 | - | 8 4 2 1
F.max_unpool2d(*F.max_pool2d(x,2,return_indices=True),2) | 144 1 24 4 | - | 96 24 4 1
F.max_pool1d(x,2) | - | 4 1 . | -
F.avg_pool1d(x,2) | - | 4 1 . | -
F.adaptive_avg_pool1d(x,2) | - | 8 2 1 | -
F.interpolate(x,scale_factor=2) | 576 1 48 4 | 24 6 1 | 384 96 8 1
F.interpolate(x,scale_factor=2,mode='nearest-exact') | 576 1 48 4 | 24 6 1 | 384 96 8 1
F.interpolate(x,scale_factor=2,mode='bilinear') | 576 1 48 4 | - | 384 96 8 1
F.interpolate(x,scale_factor=2,mode='bicubic') | 576 1 48 4 | - | 384 96 8 1
F.interpolate(x,size=2,mode='area') | 16 1 8 4 | 8 2 1 | 16 4 2 1
F.interpolate(x,scale_factor=2,mode='linear') | - | 24 6 1 | -
F.conv2d(x,ad.ones(3,x.shape[1],2,2)) | 75 1 15 3 | - | 45 15 3 1
F.conv2d(x,ad.ones(3,x.shape[1],1,1)) | 108 1 18 3 | - | 72 24 4 1
F.conv2d(x,ad.ones(x.shape[1],1,2,2),groups=x.shape[1]) | 100 1 20 4 | - | 60 15 3 1
F.conv_transpose2d(x,ad.ones(x.shape[1],3,2,2)) | 147 1 21 3 | - | 105 35 5 1
F.conv1d(x,ad.ones(3,x.shape[1],2)) | - | 6 2 1 | -
F.one_hot((x>0).long()) | 288 72 12 2 1 | 24 6 2 1 | 192 48 8 2 1
F.mse_loss(x,y,reduction='none') | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.l1_loss(x,y,reduction='none') | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.smooth_l1_loss(x,y,reduction='none') | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.huber_loss(x,y,reduction='none') | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.binary_cross_entropy_with_logits(x,y,reduction='none') | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.kl_div(x,y,reduction='none') | 144 1 24 4 | 4 1 24 | 96 24 4 1
F.nll_loss(x,ad.zeros(x.shape[0],*x.shape[2:],dtype=ad.int64),reduction='none') | 36 6 1 | 3 1 | 24 4 1
F.cross_entropy(x,ad.zeros(x.shape[0],*x.shape[2:],dtype=ad.int64),reduction='none') | 36 6 1 | 3 1 | 24 4 1
F.cosine_similarity(x,y) | 36 6 1 | 3 1 | 24 4 1
F.pairwise_distance(x,y) | 24 6 1 | 4 1 | 24 6 1
ad.exp(x,out=ad.empty(0)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.add(x,y,out=ad.empty(0)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.sum(x,1,out=ad.empty(0)) | 36 6 1 | 3 1 | 24 4 1
ad.sort(x,1,out=(ad.empty(0),ad.empty(0,dtype=ad.int64)))[0] | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.cat([x,y],1,out=ad.empty(0)) | 288 1 48 8 | 24 3 1 | 192 24 4 1
ad.where(x>0,x,y,out=ad.empty(0)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.clamp(x,0,1,out=ad.empty(0)) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.index_select(x,1,ad.tensor([0,1]),out=ad.empty(0)) | 72 36 6 1 | 6 3 1 | 48 24 4 1
ad.stack([x,y],0,out=ad.empty(0)) | - | 72 12 3 1 | 192 96 24 4 1
ad.gather(x,1,ad.zeros(x.shape,dtype=ad.int64),out=ad.empty(0)) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.max(x,1,out=(ad.empty(0),ad.empty(0,dtype=ad.int64)))[0] | 36 6 1 | 3 1 | 24 4 1
ad.tril(x,out=ad.empty(0)) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.mean(x,1,out=ad.empty(0)) | 36 6 1 | 3 1 | 24 4 1
ad.cumprod(x,1,out=ad.empty(0)) | 144 36 6 1 | 12 3 1 | 96 24 4 1
ad.topk(x,2,1,out=(ad.empty(0),ad.empty(0,dtype=ad.int64)))[0] | 72 36 6 1 | 6 3 1 | 48 24 4 1
ad.full_like(x,2.) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.fft.fftshift(x) | 144 1 24 4 | 12 3 1 | 96 24 4 1
ad.logaddexp(x,y) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.isposinf(x) | 144 1 24 4 | 4 1 24 | 96 24 4 1
ad.softmax(x,0) | 144 36 6 1 | 12 3 1 | 96 24 4 1
"""


def strides(result):
    if isinstance(result, tuple):
        return "; ".join(map(strides, result))
    return " ".join("." if n == 1 else str(k) for n, k in zip(result.shape, result.stride()))


@pytest.mark.parametrize("row", TABLE.strip().splitlines(), ids=lambda row: row.split(" | ")[0])
def test_strides(row):
    call, *expected = row.split(" | ")
    for (kind, make), wanted in zip(INPUTS.items(), expected, strict=True):
        if wanted != "-":
            x, y = make(), make() + 0.1
            found = eval(call, {"ad": ad, "F": F, "x": x, "y": y})  # noqa: S307 - the table above
            assert strides(found) == wanted, kind


def test_gradients_of_images_keep_their_order():
    """As the leaf lies, so does its gradient, whatever the operators between make."""
    for call in (
        "x.softmax(1)",
        "F.layer_norm(x, x.shape[-1:])",
        "x.masked_fill(x > 0, 1.0)",
        "ad.stack([x, x], 1)",
        "ad.roll(x, 1, 1)",
    ):
        x = INPUTS["channels innermost"]().requires_grad_()
        eval(call, {"ad": ad, "F": F, "x": x}).square().sum().backward()  # noqa: S307 - the line above
        assert x.grad.stride() == x.stride(), call
