"""What an image shows, judged without the generator: only the pocket model's pictures can be so judged.

The pocket model ships a garment classifier, held-out real photographs and a tokenizer whose encoder gives
features; other backbones get the likelihood alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from backbones.contract import Backbone

_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Features of one decoder's images and which of them show what their prompt says."""

    features: Float[Tensor, "N F"]
    garment: list[bool]
    colour: list[bool]
    background: list[bool]


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


def judge(backbone: Backbone, prompts: Sequence[str], tokens: Int[Tensor, "N P"]) -> Judgement:
    """Paints the tokens and judges the pictures against their prompts.

    Raises:
        RowcastError: if a prompt names no garment, colour and background.
    """
    from backbones.pocket.judge import features, garment_and_colours
    from backbones.pocket.photographs import parse_caption

    wanted = torch.tensor([parse_caption(prompt) for prompt in prompts]).T
    parts, seen = [], []
    for batch in tokens.split(_BATCH):
        images = backbone.decode(batch)
        parts.append(features(backbone, images).cpu())
        seen.append(torch.stack([shown.cpu() for shown in garment_and_colours(images)]))
    garment, colour, background = (torch.cat(seen, dim=1) == wanted).tolist()
    return Judgement(features=torch.cat(parts), garment=garment, colour=colour, background=background)


def real_features(backbone: Backbone) -> Float[Tensor, "M F"]:
    """Features of the held-out real photographs."""
    from backbones.pocket.judge import features, real_test_images

    images = real_test_images().to(backbone.device)
    return torch.cat([features(backbone, batch).cpu() for batch in images.split(_BATCH)])
