"""A tiny random Llama trunk behind the real shared trunk: the whole contract in a few milliseconds."""

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

from backbones.contract import Grid, Sampling
from backbones.errors import RowcastError
from backbones.trunk import SharedTrunk

WIDTH, WORDS, PAD, BOI = 32, 64, 0, 1


class TinyBackbone(SharedTrunk):
    """Any words are a prompt; a pixel is one code."""

    _codebook: Tensor

    @property
    def paints(self) -> bool:
        return True

    def prompt_ids(self, prompt: str) -> list[int]:
        words = prompt.split()
        if not words:
            raise RowcastError("expected a prompt of at least one word, found none: write one")
        return [2 + sum(word.encode()) % (WORDS - 2) for word in words] + [BOI]

    def unconditional_ids(self, ids: list[int]) -> list[int]:
        return [PAD] * (len(ids) - 1) + [BOI]

    def codebook(self) -> Float[Tensor, "V d"]:
        return self._codebook

    def decode(self, tokens: Int[Tensor, "N P"]) -> UInt8[Tensor, "N 3 H W"]:
        self.check_images(tokens)
        grey = (tokens * 255 // self.codes).to(torch.uint8).unflatten(1, (self.grid.rows, self.grid.cols))
        return grey[:, None].expand(-1, 3, -1, -1).contiguous()


def tiny_backbone(
    rows: int = 3,
    cols: int = 4,
    codes: int = 11,
    row_end: bool = False,
    seed: int = 0,
    guidance: float = 2.0,
    dtype: torch.dtype = torch.float32,
) -> TinyBackbone:
    """A random backbone whose logits differ plainly from token to token."""
    generator = torch.Generator().manual_seed(seed)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        pad_token_id=PAD,
    )
    trunk = LlamaModel(config)
    head = nn.Linear(WIDTH, codes, bias=False)
    table = nn.Embedding(codes + 1, WIDTH)
    for module, gain in ((trunk, 1), (table, 1), (head, 3)):
        for parameter in module.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=gain * parameter.shape[-1] ** -0.5, generator=generator)
            else:
                # Norms must not be idempotent, or a state normed twice would go unseen.
                nn.init.normal_(parameter, mean=1, std=0.3, generator=generator)
        module.to(dtype)
    backbone = TinyBackbone(
        name="tiny",
        trunk=trunk,
        image_head=head,
        image_table=table.weight.detach()[:codes],
        row_end=table.weight.detach()[codes] if row_end else None,
        grid=Grid(rows=rows, cols=cols),
        sampling=Sampling(guidance=guidance),
        pad=PAD,
        hashed={"table": table},
    )
    backbone._codebook = nn.functional.normalize(torch.randn(codes, 4, generator=generator), dim=-1)
    return backbone
