"""What an image shows, judged without the generator: only the pocket model's pictures can be so judged.

The pocket model ships a garment classifier, held-out real photographs and a tokenizer whose encoder gives
features; other backbones get the likelihood alone.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from backbones.contract import Backbone

COLUMNS = ("garment", "colour", "background")

_BATCH = 64


def can_judge(model: str) -> bool:
    """Whether the backbone of this name ships a judge."""
    return model == "pocket"


def check_judge(prompts: Sequence[str]) -> None:
    """Judges one photograph and reads every prompt, so that nothing fails once the images are painted.

    Raises:
        RowcastError: if a part of the judge is missing, or a prompt names no garment, colour and background.
    """
    from backbones.pocket.judge import garment_and_colours, real_test_images
    from backbones.pocket.photographs import parse_caption

    garment_and_colours(real_test_images()[:1])
    for prompt in prompts:
        parse_caption(prompt)


def category(prompt: str) -> str:
    """The stratum of a prompt that the judge understands: its garment."""
    from backbones.pocket.photographs import GARMENTS, parse_caption

    return GARMENTS[parse_caption(prompt)[0]]


def shown(backbone: Backbone, prompts: Sequence[str], tokens: Int[Tensor, "N P"]) -> list[dict[str, float]]:
    """Which pictures show what their prompt says: 1 or 0 for the garment, its colour and the background.

    Raises:
        RowcastError: if a prompt names no garment, colour and background.
    """
    from backbones.pocket.judge import garment_and_colours
    from backbones.pocket.photographs import parse_caption

    wanted = torch.tensor([parse_caption(prompt) for prompt in prompts])
    seen = [
        torch.stack(garment_and_colours(backbone.decode(batch)), 1).cpu() for batch in tokens.split(_BATCH)
    ]
    right = (torch.cat(seen) == wanted).float().tolist()
    return [dict(zip(COLUMNS, flags, strict=True)) for flags in right]


def features_of(backbone: Backbone, tokens: Int[Tensor, "N P"]) -> Float[Tensor, "N F"]:
    """Features of painted images, for Fréchet distances."""
    from backbones.pocket.judge import features

    return torch.cat([features(backbone, backbone.decode(batch)).cpu() for batch in tokens.split(_BATCH)])


def real_features(backbone: Backbone) -> Float[Tensor, "M F"]:
    """Features of the held-out real photographs."""
    from backbones.pocket.judge import features, real_test_images

    images = real_test_images().to(backbone.device)
    return torch.cat([features(backbone, batch).cpu() for batch in images.split(_BATCH)])
