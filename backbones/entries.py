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
    present: Sequence[int],
    tokens: Int[Tensor, "N T"],
    places: Sequence[int],
    sees: Bool[Tensor, "T E"],
    *,
    row_end: int,
) -> Arrival:
    """Lays out new entries at `places` behind those at the places `present`.

    Args:
        slots: the image's layout.
        present: places of the entries in the cache.
        tokens: image codes.
        places: raster places of the new tokens.
        sees: which entries each new token may attend to; `E` counts the cached ones, then the new ones. A
            token always sees itself.
        row_end: code of the row end.

    Raises:
        RowcastError: if the shapes do not agree or a place lies outside the grid.
    """
    count, old = tokens.shape[1], len(present)
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
    device = tokens.device
    owners = torch.tensor([e for e, p in enumerate([*present, *places]) for _ in range(slots.width(p))])
    new = owners[owners >= old] - old
    first = torch.ones_like(new, dtype=torch.bool)
    first[1:] = new[1:] != new[:-1]
    base = torch.tensor([slots.before(place) for place in places])
    ids = torch.where(first.to(device), tokens[:, new.to(device)], row_end)
    seen = sees.cpu() | torch.eye(old + count, dtype=torch.bool)[old:]
    order = torch.arange(len(owners))
    later_half_of_itself = (owners == new[:, None] + old) & (order > order[-len(new) :, None])
    last = torch.ones_like(first)
    last[:-1] = first[1:]
    return Arrival(
        ids=ids,
        slots=(base[new] + (~first).long()).to(device),
        sees=(seen[new][:, owners] & ~later_half_of_itself).to(device),
        outputs=last.nonzero()[:, 0].to(device),
    )


def slots_of(slots: Slots, present: Sequence[int], entries: Sequence[int]) -> Int[Tensor, " S"]:
    """The image slots, in order of arrival, that `entries` of a cache with the places `present` take."""
    starts = [0]
    for place in present:
        starts.append(starts[-1] + slots.width(place))
    return torch.tensor([s for e in entries for s in range(starts[e], starts[e + 1])], dtype=torch.long)
