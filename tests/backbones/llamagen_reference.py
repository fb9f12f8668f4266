"""LlamaGen a second time, from its description: one sequence, no cache, one query after the other.

Works on the published tensors. Rotations are products of complex numbers; the condition's queries and keys
are multiplied by zero; each query attends to a list of slots. Nothing of the product is used.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

Tensors = dict[str, Tensor]


class Reference:
    """The generator over `tensors`, for images of `side` x `side` tokens."""

    def __init__(self, tensors: Tensors, heads: int, side: int) -> None:
        self.tensors, self.heads, self.side = tensors, heads, side
        self.layers = len([name for name in tensors if name.endswith("wqkv.weight")])

    def classes(self, number: int, codes: Tensor) -> Tensor:
        """Logits `[T + 1, V]` after a class and after each of its T codes."""
        return self.logits(self.tensors["cls_embedding.embedding_table.weight"][[number]], [True], codes)

    def captions(self, features: Tensor, seen: Sequence[bool], codes: Tensor) -> Tensor:
        """Logits after a caption's features (a row a slot, some of them not `seen`) and after codes."""
        name = "cls_embedding.cap_proj.fc{}.weight".format
        inner = features @ self.tensors[name(1)].T
        inner = 0.5 * inner * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (inner + 0.044715 * inner**3)))
        return self.logits(inner @ self.tensors[name(2)].T, seen, codes)

    def logits(self, condition: Tensor, seen: Sequence[bool], codes: Tensor) -> Tensor:
        x = torch.cat([condition, self.tensors["tok_embeddings.weight"][codes]])
        turn = self.turns(len(condition), len(codes))
        seen = [*seen, *[True] * len(codes)]
        for layer in range(self.layers):
            part = {
                name.split(".", 2)[2].removesuffix(".weight"): tensor
                for name, tensor in self.tensors.items()
                if name.startswith(f"layers.{layer}.")
            }
            x = x + self.attention(norm(x, part["attention_norm"]), part, turn, seen)
            y = norm(x, part["ffn_norm"])
            gate = y @ part["feed_forward.w1"].T
            x = x + (gate * gate.sigmoid() * (y @ part["feed_forward.w3"].T)) @ part["feed_forward.w2"].T
        x = norm(x, self.tensors["norm.weight"])
        return (x @ self.tensors["output.weight"].T)[len(condition) - 1 :]

    def turns(self, before: int, count: int) -> Tensor:
        """What complex pairs are multiplied by, `[before + count, pairs]`: zero before the image."""
        pairs = self.tensors["norm.weight"].shape[0] // self.heads // 2
        speeds = [10_000 ** -(2 * i / pairs) for i in range(pairs // 2)]
        rows = [[0j] * pairs for _ in range(before)]
        for i in range(count):
            y, x = divmod(i, self.side)
            angles = torch.tensor([y * s for s in speeds] + [x * s for s in speeds], dtype=torch.float64)
            rows.append(torch.polar(torch.ones_like(angles), angles).tolist())
        return torch.tensor(rows, dtype=torch.complex64)

    def attention(self, x: Tensor, part: Tensors, turn: Tensor, seen: Sequence[bool]) -> Tensor:
        length, width = x.shape
        query, key, value = (x @ part["attention.wqkv"].T).view(length, 3, self.heads, -1).unbind(1)
        query, key = rotated(query, turn), rotated(key, turn)
        out = torch.zeros(length, self.heads, width // self.heads)
        for i in range(length):
            visible = [j for j in range(i + 1) if seen[j] or j == i]
            scores = torch.einsum("hd,jhd->hj", query[i], key[visible]) / (width / self.heads) ** 0.5
            out[i] = torch.einsum("hj,jhd->hd", scores.softmax(-1), value[visible])
        return out.flatten(1) @ part["attention.wo"].T


def rotated(x: Tensor, turn: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turn[:, None]).flatten(-2)


def norm(x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain


def pixels(tensors: Tensors, codes: Tensor, side: int) -> Tensor:
    """What a VQ over the published `tensors` paints for codes `[P]`: `[3, H, W]`, from about -1 to 1."""
    book = functional.normalize(tensors["quantize.embedding.weight"], dim=-1)
    x = convolve(tensors, "post_quant_conv", book[codes].T.reshape(1, -1, side, side))
    x = convolve(tensors, "decoder.conv_in", x)
    for i in range(3):
        x = block(tensors, f"decoder.mid.{i}", x)
    level = 0
    while f"decoder.conv_blocks.{level}.res.0.norm1.weight" in tensors:
        name, i = f"decoder.conv_blocks.{level}", 0
        while f"{name}.res.{i}.norm1.weight" in tensors:
            x = block(tensors, f"{name}.res.{i}", x)
            if f"{name}.attn.{i}.norm.weight" in tensors:
                x = block(tensors, f"{name}.attn.{i}", x)
            i += 1
        if f"{name}.upsample.conv.weight" in tensors:
            x = convolve(tensors, f"{name}.upsample.conv", x.repeat_interleave(2, 2).repeat_interleave(2, 3))
        level += 1
    return convolve(tensors, "decoder.conv_out", swish(grouped(tensors, "decoder.norm_out", x)))[0]


def block(tensors: Tensors, name: str, x: Tensor) -> Tensor:
    """A residual block, or an attention block, whichever is stored under the name."""
    if f"{name}.q.weight" in tensors:
        y = grouped(tensors, f"{name}.norm", x)
        query, key, value = (convolve(tensors, f"{name}.{part}", y).flatten(2)[0] for part in "qkv")
        weights = (query.T @ key / len(key) ** 0.5).softmax(-1)
        return x + convolve(tensors, f"{name}.proj_out", (value @ weights.T).view_as(x))
    y = convolve(tensors, f"{name}.conv1", swish(grouped(tensors, f"{name}.norm1", x)))
    return x + convolve(tensors, f"{name}.conv2", swish(grouped(tensors, f"{name}.norm2", y)))


def grouped(tensors: Tensors, name: str, x: Tensor) -> Tensor:
    return functional.group_norm(x, 32, tensors[f"{name}.weight"], tensors[f"{name}.bias"], eps=1e-6)


def convolve(tensors: Tensors, name: str, x: Tensor) -> Tensor:
    kernel = tensors[f"{name}.weight"]
    return functional.conv2d(x, kernel, tensors[f"{name}.bias"], padding=kernel.shape[-1] // 2)


def swish(x: Tensor) -> Tensor:
    return x * x.sigmoid()
