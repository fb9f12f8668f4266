"""Image tokens in the cache in any order: trees, several rows at once, each token seeing what it is told to.

An entry is one fed token together with its row end, if it stands last in its row; entries are numbered as
they arrived. The raster order of plain decoding is the special case that entry i holds place i.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from backbones.errors import RowcastError
from backbones.slots import Slots


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """How T new entries are fed, in W slots."""

    ids: Int[Tensor, "N W"]
    """Codes, with the row-end code after the last token of a row."""
    slots: Int[Tensor, " W"]
    """Where each would lie in raster order, counted from the first image slot: gives its position id."""
    sees: Bool[Tensor, "W S"]
    """Which image slots each may attend to, in order of arrival; the new ones are the last W."""
    outputs: Int[Tensor, " T"]
    """The slot of each entry whose state emits the next token."""


def arrive(
    slots: Slots,
    present: Int[Tensor, " O"],
    tokens: Int[Tensor, "N T"],
    places: Sequence[int],
    sees: Bool[Tensor, "T E"],
    *,
    row_end: int,
) -> Arrival:
    """Lays out new entries at `places` behind those at the places `present`.

    Everything but the flags and codes is known on the host, so that nothing is waited for.

    Args:
        slots: the image's layout.
        present: places of the entries in the cache, on the CPU.
        tokens: image codes.
        places: raster places of the new tokens.
        sees: which entries each new token may attend to; `E` counts the cached ones, then the new ones. A
            token always sees itself.
        row_end: code of the row end.

    Raises:
        RowcastError: if the shapes do not agree or a place lies outside the grid.
    """
    count, old, device = tokens.shape[1], len(present), tokens.device
    if len(places) != count or sees.shape != (count, old + count):
        raise RowcastError(
            f"expected {count} places and {count} x {old + count} flags for {count} tokens after {old}, "
            f"found {len(places)} places and {' x '.join(map(str, sees.shape))} flags: pass one row a token"
        )
    if not all(0 <= place < slots.grid.size for place in places):
        raise RowcastError(
            f"expected places 0 to {slots.grid.size - 1}, found {min(places)} to {max(places)}: "
            "stay inside the grid"
        )
    first, width = slots.of(torch.tensor(places))
    sees = sees.to(device) | torch.eye(count, old + count, dtype=torch.bool, device=device).roll(old, 1)
    if not slots.row_ends:
        return Arrival(ids=tokens, slots=first.to(device), sees=sees, outputs=torch.arange(count).to(device))
    owner = torch.arange(count).repeat_interleave(width)
    is_end = torch.zeros_like(owner, dtype=torch.bool)
    is_end[1:] = owner[1:] == owner[:-1]
    column = torch.cat([torch.arange(old).repeat_interleave(slots.of(present)[1]), owner + old]).to(device)
    new = torch.arange(len(owner), device=device)
    # A token does not see its own row end, which is its entry's second slot and comes after it.
    later = torch.zeros(len(owner), len(column), dtype=torch.bool, device=device)
    later[:, -len(owner) :] = (owner[:, None] == owner).to(device) & (new > new[:, None])
    owner_there, is_end_there = owner.to(device), is_end.to(device)
    return Arrival(
        ids=torch.where(is_end_there, row_end, tokens[:, owner_there]),
        slots=(first[owner] + is_end).to(device),
        sees=sees[owner_there][:, column] & ~later,
        outputs=(width.cumsum(0) - 1).to(device),
    )


def slots_of(slots: Slots, present: Int[Tensor, " O"], entries: Int[Tensor, " E"]) -> Int[Tensor, " S"]:
    """The image slots, in order of arrival, that `entries` of a cache with the places `present` take."""
    width = slots.of(present)[1]
    start = width.cumsum(0) - width
    taken = width[entries]
    step = torch.arange(int(taken.sum())) - (taken.cumsum(0) - taken).repeat_interleave(taken)
    return start[entries].repeat_interleave(taken) + step
