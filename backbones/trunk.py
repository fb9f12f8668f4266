"""What every transformers-based family shares: one frozen Llama-like trunk behind the backbone contract.

A family adds its prompt format, its codebook and its pixel decoder; the session, the guidance pair, left
padding, row ends and the pre-norm tap are here, once.

The trunk runs with its final norm taken out, so that it returns pre-norm states; `head` applies the norm.
A row end is a suffix of the last token of its row: it rides in the same forward, and that token's entry is
the state at the row end, because that position predicts the next image token.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from backbones.cache import SlotCache
from backbones.contract import Backbone, Grid, Prompt, Sampling, Step
from backbones.errors import RowcastError
from backbones.fingerprint import fingerprint
from backbones.padding import left_padded


@dataclass
class _Session:
    """The images being painted: their cache and, per slot, position ids and padding."""

    cache: SlotCache
    prompt: int
    """Slots of the prompt, padding included."""
    branches: int
    positions: Int[Tensor, "B S"]
    """B is 1 where no row is padded."""
    visible: Bool[Tensor, "GN 1 1 S"] | None
    """None where no row is padded."""
    length: int = 0
    """Image tokens in the cache."""


class SharedTrunk(Backbone):
    """A backbone over a frozen transformers trunk (`inputs_embeds` in, `last_hidden_state` out)."""

    def __init__(
        self,
        *,
        name: str,
        trunk: nn.Module,
        image_head: Callable[[Float[Tensor, "*B D"]], Float[Tensor, "*B V"]],
        image_table: Float[Tensor, "V D"],
        grid: Grid,
        sampling: Sampling,
        pad: int,
        hashed: Mapping[str, nn.Module],
        row_end: Float[Tensor, " D"] | None = None,
    ) -> None:
        """Takes over `trunk`, whose `norm` becomes the identity.

        Args:
            name: the family's name.
            trunk: transformers decoder with `norm`, `layers` and text embeddings.
            image_head: normed states to logits of the image codes.
            image_table: what the trunk is fed for each image code.
            grid: token grid of an image.
            sampling: official sampling settings.
            pad: id that fills short prompts up.
            hashed: further modules whose weights the fingerprint covers (head, image embeddings, codebook).
            row_end: embedding of the forced token after each row, if the family has one.
        """
        self.name, self.grid, self.sampling = name, grid, sampling
        self.codes, self.width = image_table.shape
        self._norm = trunk.norm
        self._hashed = {"trunk": trunk, "norm": trunk.norm, **hashed}
        trunk.norm = nn.Identity()
        self._trunk = trunk.eval().requires_grad_(False)
        self._image_head = image_head
        self._text = trunk.get_input_embeddings()
        self._pad = pad
        self._row_ends = row_end is not None
        # The row end is one more row of the table: code V.
        self._table = image_table if row_end is None else torch.cat([image_table, row_end[None]])
        self._session: _Session | None = None
