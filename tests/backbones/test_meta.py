"""`weights=random device=meta`: the published shape of every model, at once and without memory."""

import pytest
import torch

from backbones.errors import RowcastError
from backbones.registry import known_backbones, load_backbone

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", known_backbones())
def test_shapes_alone_say_that_nothing_can_be_computed(name: str) -> None:
    backbone = load_backbone(name, weights="random", device="meta", dtype="bfloat16")
    prompt = backbone.encode(["3" if name == "llamagen_c2i" else "a red sneaker on blue"])
    assert prompt.embeds.shape[::2] == (2, backbone.width)
    tokens = torch.zeros(1, backbone.grid.size, dtype=torch.long)
    hidden = torch.empty(1, backbone.width, device="meta", dtype=backbone.dtype)
    for use in (
        lambda: backbone.begin(prompt),
        lambda: backbone.states(prompt, tokens),
        lambda: backbone.head(hidden),
        lambda: backbone.to("cpu"),
    ):
        with pytest.raises(RowcastError, match=r"found shapes alone \(model\.device=meta\): pass"):
            use()
