"""CLIP of transformers: features of images and texts, and the colours of GenEval's objects."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.nn import functional
from transformers import CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

from eval.scorers.backends.load import Place, load_model, load_part
from eval.scorers.geneval import COLOURS, Detection

GREY = (0x99, 0x99, 0x99)
"""What GenEval paints over everything outside of an object's mask."""
TEMPLATES = (
    "a photo of a {colour} {name}",
    "a photo of a {colour}-colored {name}",
    "a photo of a {colour} object",
)


class Clip:
    """A CLIP model with its tokenizer and its own way to prepare images (Pillow's resizing, everywhere)."""

    def __init__(self, place: Place) -> None:
        """Loads it.

        Raises:
            RowcastError: if a part is missing or broken.
        """
        folder = place.folder()
        self.model = load_model(CLIPModel, place, folder)
        self.tokenizer = load_part(CLIPTokenizer, folder, "tokenizer")
        self.processor = load_part(CLIPImageProcessorPil, folder, "image processor")
        text: Any = self.model.config.text_config
        self.limit: int = text.max_position_embeddings
        self.name, self.record = place.name, place.record(folder)

    @torch.inference_mode()
    def see(self, images: Sequence[Image.Image]) -> Float[Tensor, "N F"]:
        """Features of images in RGB, of length one, fp32 on the CPU."""
        pixels = self.processor(images=list(images), return_tensors="pt")["pixel_values"]
        output: Any = self.model.get_image_features(
            pixel_values=pixels.to(self.model.device, self.model.dtype)
        )
        return functional.normalize(output.pooler_output.float(), dim=-1).cpu()

    @torch.inference_mode()
    def read(self, texts: Sequence[str], prefix: str = "") -> Float[Tensor, "N F"]:
        """Features of texts, of length one, fp32 on the CPU; long ones lose their end, not their end mark."""
        rows = [self.tokens(text, prefix)[0] for text in texts]
        length = max(map(len, rows))
        end = self.tokenizer.eos_token_id
        ids = torch.tensor([row + [end] * (length - len(row)) for row in rows], device=self.model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows], device=ids.device)
        output: Any = self.model.get_text_features(input_ids=ids, attention_mask=mask)
        return functional.normalize(output.pooler_output.float(), dim=-1).cpu()

    def tokens(self, text: str, prefix: str = "") -> tuple[list[int], bool]:
        """Ids of a text between its marks, those of `prefix` before it; and whether it was cut."""
        body = [*self._ids(prefix), *self._ids(text)] if prefix else self._ids(text)
        room = self.limit - 2
        return [self.tokenizer.bos_token_id, *body[:room], self.tokenizer.eos_token_id], len(body) > room

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


class ClipColours:
    """Zero-shot colours as GenEval asks for them: three sentences a colour, the object cut out on grey."""

    def __init__(self, clip: Clip) -> None:
        self.clip, self.record = clip, clip.record
        self._texts: dict[str, Float[Tensor, "K F"]] = {}

    def colours(self, image: Image.Image, detections: Sequence[Detection], name: str) -> list[str]:
        """The colour of each detection of class `name`."""
        if name not in self._texts:
            self._texts[name] = self._sentences(name)
        features = self.clip.see([cut_out(image, found) for found in detections])
        return [COLOURS[index] for index in (features @ self._texts[name].T).argmax(1).tolist()]

    def _sentences(self, name: str) -> Float[Tensor, "K F"]:
        texts = [template.format(colour=colour, name=name) for colour in COLOURS for template in TEMPLATES]
        features = self.clip.read(texts).view(len(COLOURS), len(TEMPLATES), -1)
        return functional.normalize(features.mean(1), dim=-1)


def cut_out(image: Image.Image, found: Detection) -> Image.Image:
    """The object's box, grey outside of its mask."""
    if found.mask is not None:
        image = Image.composite(image, Image.new("RGB", image.size, GREY), Image.fromarray(found.mask))
    left, top, right, bottom = (round(edge) for edge in found.box)
    return image.crop((left, top, max(right, left + 1), max(bottom, top + 1)))
