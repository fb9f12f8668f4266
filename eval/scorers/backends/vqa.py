"""Yes-or-no questions about images: what a back end is, and which one a model takes."""

import json
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from PIL import Image

from backbones.errors import RowcastError
from backbones.source import first_line
from eval.scorers.backends.load import Place, require_type


@runtime_checkable
class Vqa(Protocol):
    """A model that answers questions about an image."""

    name: str
    """What the protocol is called after."""
    record: dict[str, str | None]

    def yes(self, image: Image.Image, questions: Sequence[str]) -> list[float]:
        """Probability of yes among yes and no, for each question; above a half means yes."""
        ...


def load_vqa(place: Place) -> Vqa:
    """The back end for the model at `place`, by the type in its `config.json`.

    Raises:
        RowcastError: if there is no such model, or no back end for its type.
    """
    folder = place.folder()
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise RowcastError(
            f"expected a model with config.json in {folder}, found: {first_line(error)}: check {place.option}"
        ) from error
    require_type(found, ("blip", "vilt"), place)
    if found == "vilt":
        from eval.scorers.backends.vilt import Vilt

        return Vilt(place)
    from eval.scorers.backends.blip import Blip

    return Blip(place)
