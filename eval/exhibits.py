"""The gallery of the report: what every decoder painted for the same prompt and seed, as picture files."""

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from backbones.durable import write_durably
from backbones.errors import RowcastError
from eval.bench import Bench
from eval.page import Markup, section
from eval.results import Exhibit, Results
from eval.samples import unwritable
from eval.table import law

FOLDER = "gallery"
PROMPTS = 12
PICTURES = 200
"""At most, so that a page with every rival stays small."""
LARGEST = 256
SMALL = 64
"""Pictures up to this side keep their pixels."""


def gallery(bench: Bench, folder: Path) -> list[Exhibit]:
    """Paints the first images of the speed pass into `folder`; none of a backbone without pixels."""
    if not bench.backbone.paints:
        return []
    count = min(max(4, min(PROMPTS, PICTURES // len(bench.decoders))), bench.plan.images)
    painted: dict[str, list[str]] = {}
    try:
        (folder / FOLDER).mkdir(exist_ok=True)
        for name in bench.decoders:
            tokens = torch.tensor([image.tokens for image in bench.images((name, "main"), count)])
            images = bench.backbone.decode(tokens.to(bench.backbone.device))
            painted[name] = [
                _saved(image, folder, f"{number:02d}-{name}") for number, image in enumerate(images)
            ]
    except OSError as error:
        raise unwritable(folder / FOLDER, error) from error
    return [
        Exhibit(prompt=item.prompt.text, pictures={name: files[index] for name, files in painted.items()})
        for index, item in enumerate(bench.items[:count])
    ]


def _saved(image: UInt8[Tensor, "3 H W"], folder: Path, name: str) -> str:
    """Small pictures as they are, others as thumbnails; the path relative to `folder`."""
    whole = Image.fromarray(image.permute(1, 2, 0).contiguous().cpu().numpy())
    file, small = io.BytesIO(), max(whole.size) <= SMALL
    whole.thumbnail((LARGEST, LARGEST))
    whole.save(file, "PNG" if small else "WEBP", quality=85)
    place = f"{FOLDER}/{name}.{'png' if small else 'webp'}"
    write_durably(folder / place, file.getvalue())
    return place


def embedded(folder: Path, place: str) -> Markup:
    """A picture of the gallery as an `img` element that holds it.

    Raises:
        RowcastError: if the file is missing, or is none of the gallery's.
    """
    path = folder / place
    kind = path.suffix.removeprefix(".")
    if kind not in ("png", "webp") or path.resolve().parent != (folder / FOLDER).resolve():
        raise RowcastError(f"expected a picture in {folder / FOLDER}, found {place}: measure again")
    try:
        content = base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise RowcastError(
            f"expected a picture at {path}, found: {error.strerror}; run the benchmark's command again"
        ) from None
    look = "pixels" if kind == "png" else "photo"
    return Markup(f'<img class="{look}" alt="" src="data:image/{kind};base64,{content}">')


def gallery_section(exhibits: Sequence[Exhibit], results: Results, folder: Path) -> str:
    """One card a prompt, every decoder's picture in it."""
    if not exhibits:
        note = f"{results.subject.backbone} was loaded without the weights that turn tokens into pixels."
        return section("Images", note)
    laws = {decoder.name: law(decoder) for decoder in results.decoders}
    many = " many" if len(laws) > 6 else ""
    cards = [
        f'<div class="card"><h3>{escape(exhibit.prompt)}</h3><div class="row">'
        + "".join(
            f'<figure>{embedded(folder, place)}<figcaption class="{laws[name]}">{escape(name)}'
            f"<span>{laws[name]}</span></figcaption></figure>"
            for name, place in exhibit.pictures.items()
        )
        + "</div></div>"
        for exhibit in exhibits
    ]
    note = (
        "Same prompt and same seed in each card. Decoders spend random numbers differently, so under "
        "sampling the same seed does not mean the same image: compare how well they paint, not pixels."
    )
    return section("Images", note, f'<div class="gallery{many}">{"".join(cards)}</div>')
