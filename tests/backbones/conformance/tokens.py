"""Image tokens are codes in raster order, the whole grid and nothing else; pixels lie where they do."""

from collections.abc import Callable

import torch
from torch import Tensor

from backbones.trunk import SharedTrunk
from tests.backbones.conformance.case import Case, raised


def nothing_but_whole_images_of_codes(case: Case) -> None:
    backbone, prompt, tokens = case.backbone, case.both(), case.tokens()
    uses: list[Callable[[Tensor], object]] = [lambda tokens: backbone.states(prompt, tokens)]
    if backbone.paints:
        uses.append(backbone.decode)
    for use in uses:
        for bad in (-1, backbone.codes):
            wrong = tokens.clone()
            wrong[0, 2] = bad
            assert f"codes 0 to {backbone.codes - 1}" in raised(lambda use=use, wrong=wrong: use(wrong))
        assert f"{backbone.grid.size} tokens" in raised(lambda use=use: use(tokens[:, :-1]))


def the_grid_is_all_there_is(case: Case) -> None:
    """The last token is never needed, and nothing can follow it."""
    backbone, prompt, tokens = case.backbone, case.both(), case.tokens()
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % backbone.codes
    assert torch.equal(backbone.states(prompt, tokens), backbone.states(prompt, other))
    backbone.begin(prompt)
    backbone.forward(tokens[:, :-1])
    assert f"at most {backbone.grid.size}" in raised(lambda: backbone.forward(tokens[:, -2:]))
    assert backbone.length == backbone.grid.size - 1


def embeddings_are_what_is_fed(case: Case) -> None:
    backbone = case.backbone
    codes = torch.arange(backbone.codes)
    table = backbone.embed(codes)
    assert table.shape == (backbone.codes, backbone.width)
    assert table.dtype == backbone.dtype
    assert backbone.embed(codes[:6].view(2, 3)).shape == (2, 3, backbone.width)
    assert len(table.unique(dim=0)) == backbone.codes
    fed: list[Tensor] = []
    hook = backbone._trunk.register_forward_pre_hook(
        lambda _, __, words: fed.append(words["inputs_embeds"]), with_kwargs=True
    )
    backbone.begin(case.both())
    backbone.forward(codes[:4].view(2, 2))
    hook.remove()
    assert torch.equal(fed[-1][:, 0], table[codes[:4].view(2, 2)[:, 0]].repeat(2, 1))


def codebook_has_a_vector_a_code(case: Case) -> None:
    backbone = case.backbone
    if not backbone.paints:
        assert "model.pixels" in raised(backbone.codebook)
        return
    codebook = backbone.codebook()
    assert codebook.shape[0] == backbone.codes
    assert codebook.dtype == torch.float32
    assert codebook.isfinite().all()
    assert len(codebook.unique(dim=0)) == backbone.codes


def pixels_lie_where_their_tokens_do(case: Case) -> None:
    backbone, grid, tokens = case.backbone, case.backbone.grid, case.tokens()
    if not backbone.paints:
        assert "model.pixels" in raised(lambda: backbone.decode(tokens))
        return
    pixels = backbone.decode(tokens)
    images, channels, height, width = pixels.shape
    assert (images, channels, pixels.dtype) == (2, 3, torch.uint8)
    assert height // grid.rows == width // grid.cols
    assert (height % grid.rows, width % grid.cols) == (0, 0)
    assert torch.equal(backbone.decode(tokens), pixels)
    alone = backbone.decode(tokens[1:]).int() - pixels[1:].int()
    assert alone.abs().max() <= 1, "pixels depend on the batch by more than rounding"
    assert pixels.float().std() > 1, "pixels are constant"
    # Rows and columns are not swapped: a token in a corner changes that corner, not the opposite one.
    upper_right = changes(backbone, tokens[:1], grid.cols - 1)
    assert upper_right[0, 1] > upper_right[1, 0]
    lower_left = changes(backbone, tokens[:1], (grid.rows - 1) * grid.cols)
    assert lower_left[1, 0] > lower_left[0, 1]


def changes(backbone: SharedTrunk, tokens: Tensor, place: int) -> Tensor:
    """How much each quarter of an image changes with the token at one place, `[2, 2]`."""
    others = tokens.repeat(4, 1)
    others[1:, place] = (others[1:, place] + torch.arange(1, 4)) % backbone.codes
    pixels = backbone.decode(others).float()
    apart = (pixels[1:] - pixels[:1]).abs().mean((0, 1))
    rows = apart.tensor_split(2)
    return torch.stack([part.mean() for half in rows for part in half.tensor_split(2, 1)]).view(2, 2)
