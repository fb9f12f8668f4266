"""Row-end geometry, against the sequence written out token by token."""

import pytest
import torch

from backbones.contract import Grid
from backbones.slots import Slots

pytestmark = pytest.mark.unit

ROWS, COLS, END = 3, 4, 99


def written_out(row_ends: bool) -> list[int]:
    sequence = []
    for y in range(ROWS):
        sequence += range(y * COLS, (y + 1) * COLS)
        if row_ends and y < ROWS - 1:
            sequence.append(END)
    return sequence


@pytest.mark.parametrize("row_ends", [False, True])
def test_every_block_is_a_piece_of_the_written_out_sequence(row_ends: bool) -> None:
    slots, sequence = Slots(grid=Grid(rows=ROWS, cols=COLS), row_ends=row_ends), written_out(row_ends)
    assert slots.before(ROWS * COLS) == len(sequence)
    for start in range(ROWS * COLS):
        for end in range(start + 1, ROWS * COLS + 1):
            ids, entries = slots.place(torch.arange(start, end)[None], start, END)
            first = slots.before(start)
            assert ids[0].tolist() == sequence[first : slots.before(end)]
            entries = range(end - start) if entries is None else entries.tolist()
            # An entry is followed by the token that it emits.
            follows = [[*sequence, ROWS * COLS][first + entry + 1] for entry in entries]
            assert follows == list(range(start + 1, end + 1))


@pytest.mark.parametrize("row_ends", [False, True])
def test_slots_of_single_places(row_ends: bool) -> None:
    slots, sequence = Slots(grid=Grid(rows=ROWS, cols=COLS), row_ends=row_ends), written_out(row_ends)
    first, width = slots.of(torch.arange(ROWS * COLS))
    assert [sequence[slot] for slot in first] == list(range(ROWS * COLS))
    assert [sequence[slot + 1 : slot + 2] == [END] for slot in first] == (width == 2).tolist()


def test_rows_of_a_batch_are_placed_alike() -> None:
    tokens = torch.arange(16).view(2, 8)
    ids, _ = Slots(grid=Grid(rows=ROWS, cols=COLS), row_ends=True).place(tokens, 2, END)
    assert ids.tolist() == [[0, 1, 99, 2, 3, 4, 5, 99, 6, 7], [8, 9, 99, 10, 11, 12, 13, 99, 14, 15]]
