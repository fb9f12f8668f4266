"""taming-transformers' decoder once more, straight from its tensors: the oracle for Chameleon's pixels."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import conv2d


def taming_pixels(tensors: Mapping[str, Tensor], codes: Tensor) -> Tensor:
    """Pixels of about -1 to 1 from codes `[N, R, C]`, by the names and the order of the original."""
    levels = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("decoder.up."))
    h = tensors["quantize.embedding.weight"][codes].movedim(-1, 1)
    h = _conv(tensors, "post_quant_conv", h)
    h = _conv(tensors, "decoder.conv_in", h)
    h = _resnet(tensors, "decoder.mid.block_1", h)
    h = _attention(tensors, "decoder.mid.attn_1", h)
    h = _resnet(tensors, "decoder.mid.block_2", h)
    for level in reversed(range(levels)):
        block = 0
        while f"decoder.up.{level}.block.{block}.conv1.weight" in tensors:
            h = _resnet(tensors, f"decoder.up.{level}.block.{block}", h)
            block += 1
        if level > 0:
            h = h.repeat_interleave(2, -1).repeat_interleave(2, -2)
            h = _conv(tensors, f"decoder.up.{level}.upsample.conv", h)
    return _conv(tensors, "decoder.conv_out", _swish(_norm(tensors, "decoder.norm_out", h)))


def _conv(tensors: Mapping[str, Tensor], name: str, h: Tensor) -> Tensor:
    weight = tensors[f"{name}.weight"]
    return conv2d(h, weight, tensors[f"{name}.bias"], padding=weight.shape[-1] // 2)


def _norm(tensors: Mapping[str, Tensor], name: str, h: Tensor) -> Tensor:
    """Group norm in 32 groups."""
    groups = h.unflatten(1, (32, -1))
    centred = groups - groups.mean((2, 3, 4), keepdim=True)
    normed = (centred / (centred.square().mean((2, 3, 4), keepdim=True) + 1e-6).sqrt()).flatten(1, 2)
    return normed * tensors[f"{name}.weight"][:, None, None] + tensors[f"{name}.bias"][:, None, None]


def _swish(h: Tensor) -> Tensor:
    return h / (1 + torch.exp(-h))


def _resnet(tensors: Mapping[str, Tensor], name: str, h: Tensor) -> Tensor:
    inner = _conv(tensors, f"{name}.conv1", _swish(_norm(tensors, f"{name}.norm1", h)))
    inner = _conv(tensors, f"{name}.conv2", _swish(_norm(tensors, f"{name}.norm2", inner)))
    if f"{name}.nin_shortcut.weight" in tensors:
        h = _conv(tensors, f"{name}.nin_shortcut", h)
    return h + inner


def _attention(tensors: Mapping[str, Tensor], name: str, h: Tensor) -> Tensor:
    normed = _norm(tensors, f"{name}.norm", h)
    q, k, v = (_conv(tensors, f"{name}.{part}", normed).flatten(2) for part in ("q", "k", "v"))
    weights = (torch.einsum("ncq,nck->nqk", q, k) * q.shape[1] ** -0.5).softmax(-1)
    mixed = torch.einsum("nqk,nck->ncq", weights, v).unflatten(2, h.shape[2:])
    return h + _conv(tensors, f"{name}.proj_out", mixed)
