"""The gallery of the report: what every decoder painted for the same prompt and seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import torch

from eval.figures import picture
from eval.page import section
from eval.passes import Bench
from eval.results import Results
from eval.table import law

GALLERY = 12


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One prompt and what every decoder made of it, as `img` elements."""

    prompt: str
    pictures: dict[str, str]


def gallery(bench: Bench, count: int = GALLERY) -> list[Exhibit]:
    """The first images of the speed pass, every decoder's side by side; none of a backbone without pixels."""
    if not bench.backbone.paints:
        return []
    count = min(count, bench.plan.images)
    painted: dict[str, list[str]] = {}
    for name in bench.decoders:
        tokens = torch.tensor([image.tokens for image in bench.images((name, "main"), count)])
        painted[name] = [picture(image) for image in bench.backbone.decode(tokens.to(bench.backbone.device))]
    return [
        Exhibit(prompt=prompt, pictures={name: images[index] for name, images in painted.items()})
        for index, (prompt, _) in enumerate(bench.items[:count])
    ]


def gallery_section(exhibits: Sequence[Exhibit], results: Results) -> str:
    """One card a prompt, the decoders in a row."""
    if not exhibits:
        note = f"{results.subject.backbone} was loaded without the weights that turn tokens into pixels."
        return section("Images", note)
    laws = {decoder.name: law(decoder) for decoder in results.decoders}
    cards = [
        f'<div class="card"><h3>{escape(exhibit.prompt)}</h3><div class="row">'
        + "".join(
            f"<figure>{image}<figcaption>{escape(name)}, {laws[name]}</figcaption></figure>"
            for name, image in exhibit.pictures.items()
        )
        + "</div></div>"
        for exhibit in exhibits
    ]
    note = (
        "Same prompt and same seed in each card. Decoders spend random numbers differently, so under "
        "sampling the same seed does not mean the same image: compare how well they paint, not pixels."
    )
    return section("Images", note, f'<div class="gallery">{"".join(cards)}</div>')
