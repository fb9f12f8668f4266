"""Chameleon's image tokenizer, decoding side: codes to pixels, shared by Lumina-mGPT and Anole.

transformers has Chameleon's encoder alone, so the weights come from elsewhere: Meta's `vqgan.ckpt`, the
Anole VQ (`leloy/Anole-7b-v0.1-vqvae-hf`), or a trunk checkpoint that holds `model.vqmodel.decoder.*` too. All
of them name the tensors as taming-transformers did (Esser et al., arXiv 2012.09841). The decoder is Janus's
without attention between the upsampling steps, its levels counted from the other end.
"""

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from transformers.models.janus.configuration_janus import JanusVQVAEConfig
from transformers.models.janus.modeling_janus import JanusVQVAEDecoder

from backbones.errors import RowcastError
from backbones.shards import INDEX, SINGLE, open_shards
from backbones.source import fetch, on_disk
from backbones.torch_file import read_tensors

OPTION = "model.pixels"
PICKLE = "vqgan.ckpt"
FILES = ("*.safetensors", "*.safetensors.index.json", PICKLE)
ENTRY = "decoder.conv_in.weight"
"""What tells where in a checkpoint the tokenizer's tensors lie: whatever stands before it is their prefix."""


class ChameleonPixels(nn.Module):
    """Codebook and convolutional decoder; a grid of any size, `scale` pixels a token along each side."""

    def __init__(self, *, codes: int, depth: int, channels: list[int], latent: int, blocks: int) -> None:
        """Randomly initialised, on the default device.

        Args:
            codes: V, entries of the codebook.
            depth: d, numbers in one of them.
            channels: of each level, the finest first; each level but that one doubles the side.
            latent: channels that the decoder takes.
            blocks: residual blocks a level, but for the one more that decoders have.
        """
        super().__init__()
        self.scale = 2 ** (len(channels) - 1)
        base = math.gcd(*channels)
        self.codebook = nn.Embedding(codes, depth)
        self.post_quant_conv = nn.Conv2d(depth, latent, 1)
        self.decoder = JanusVQVAEDecoder(
            JanusVQVAEConfig(
                base_channels=base,
                channel_multiplier=[width // base for width in channels],
                latent_channels=latent,
                num_res_blocks=blocks,
            )
        )
        for level in self.decoder.up:
            level.attn = nn.ModuleList()

    def forward(self, tokens: Int[Tensor, "N R C"]) -> Float[Tensor, "N 3 H W"]:
        """Pixels of about -1 to 1, `scale` times the size of the grid.

        One image at a time: an activation of the finest level takes half a gigabyte at 1024x1024.
        """
        return torch.cat([self._image(grid) for grid in tokens])

    def _image(self, grid: Int[Tensor, "R C"]) -> Float[Tensor, "1 3 H W"]:
        latent = self.codebook(grid).permute(2, 0, 1)[None]
        return self.decoder(self.post_quant_conv(latent))


def published_pixels() -> ChameleonPixels:
    """The published shape with random weights, on the default device: 8192 codes, 16 pixels a token."""
    return ChameleonPixels(codes=8192, depth=256, channels=[128, 128, 256, 256, 512], latent=256, blocks=2)


def read_pixels(place: str) -> ChameleonPixels:
    """Reads the decoding side from a file, a folder or a hub id.

    Args:
        place: `vqgan.ckpt`, a safetensors file, or a folder or hub repository that holds one of them.

    Raises:
        RowcastError: if files are missing or broken, or hold no such decoder.
    """
    path = on_disk(place, OPTION)
    if path is None or not path.is_file():
        path = _inside(fetch(place, None, FILES, OPTION))
    if path.is_file() and path.suffix != ".safetensors":
        tensors = read_tensors(path, OPTION)
        pixels = find_pixels(tensors, tensors.__getitem__, str(path))
    else:
        shards = open_shards(path, OPTION)
        pixels = find_pixels(shards.names, shards.read, str(path))
    if pixels is None:
        raise RowcastError(
            f"expected a VQ decoder ({ENTRY} and its like), found none in {path}: "
            f"pass {OPTION} with Meta's vqgan.ckpt or leloy/Anole-7b-v0.1-vqvae-hf"
        )
    return pixels


def find_pixels(names: Iterable[str], read: Callable[[str], Tensor], place: str) -> ChameleonPixels | None:
    """The decoding side among the tensors of a checkpoint, in fp32; none where it holds no decoder.

    Its shape is read off the tensors.

    Args:
        names: of the tensors, with or without a prefix (`model.vqmodel.`).
        read: gives one; only the decoder's are asked for.
        place: where they come from, for messages.

    Raises:
        RowcastError: if some are missing, or do not fit together.
    """
    names = list(names)
    entries = [name for name in names if name.endswith(ENTRY)]
    if not entries:
        return None
    prefix = min(entries, key=len).removesuffix(ENTRY)
    parts = (f"{prefix}decoder.", f"{prefix}post_quant_conv.")
    try:
        state = {name.removeprefix(prefix): _exact(read(name)) for name in names if name.startswith(parts)}
        state["codebook.weight"] = _exact(read(f"{prefix}quantize.embedding.weight"))
        return _assembled(_coarsest_first(state))
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise RowcastError(
            f"expected the tensors of a Chameleon VQ decoder, found {_gist(error)} in {place}: "
            f"pass {OPTION} with Meta's vqgan.ckpt or leloy/Anole-7b-v0.1-vqvae-hf"
        ) from error


def _exact(tensor: Shaped[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The tensor in fp32."""
    if not tensor.is_floating_point():
        raise ValueError(f"numbers of type {tensor.dtype}")
    return tensor.float()


def _assembled(state: dict[str, Tensor]) -> ChameleonPixels:
    """The module that `state` fills exactly."""
    levels = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("decoder.up."))
    widths = [len(state[f"decoder.up.{level}.block.0.conv1.weight"]) for level in range(levels)]
    blocks = sum(bool(re.fullmatch(r"decoder\.up\.0\.block\.\d+\.conv1\.weight", name)) for name in state)
    codes, depth = state["codebook.weight"].shape
    with torch.device("meta"):
        pixels = ChameleonPixels(
            codes=codes,
            depth=depth,
            channels=widths[::-1],
            latent=len(state["post_quant_conv.weight"]),
            blocks=blocks - 1,
        )
    pixels.load_state_dict(state, assign=True)
    return pixels


def _coarsest_first(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Levels renumbered from taming's order (0 is the finest) to transformers' (0 is the coarsest)."""
    levels = {int(name.split(".")[2]) for name in state if name.startswith("decoder.up.")}

    def renumber(match: re.Match[str]) -> str:
        return f"decoder.up.{max(levels) - int(match[1])}."

    return {re.sub(r"^decoder\.up\.(\d+)\.", renumber, name): tensor for name, tensor in state.items()}


def _inside(folder: Path) -> Path:
    """What to read in a folder: safetensors before pickles."""
    if (folder / INDEX).is_file() or (folder / SINGLE).is_file():
        return folder
    if (folder / PICKLE).is_file():
        return folder / PICKLE
    raise RowcastError(
        f"expected {SINGLE}, {INDEX} or {PICKLE}, found none in {folder}: "
        f"point {OPTION} at the VQ weights, or at leloy/Anole-7b-v0.1-vqvae-hf"
    )


def _gist(error: Exception) -> str:
    """What load_state_dict and look-ups say, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"no {lines[0]}" if isinstance(error, KeyError) else lines[-1]
