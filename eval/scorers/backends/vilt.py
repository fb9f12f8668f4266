"""ViLT as fine-tuned for visual question answering: it chooses among fixed answers, yes and no among them."""

from collections.abc import Sequence

import torch
from PIL import Image
from transformers import BertTokenizer, ViltForQuestionAnswering, ViltImageProcessorPil

from backbones.errors import RowcastError
from eval.scorers.backends.load import Place, load_model, load_part


class Vilt:
    """Reads image and question together; texts are cut at 40 tokens, as the model was trained."""

    def __init__(self, place: Place) -> None:
        """Loads it.

        Raises:
            RowcastError: if a part is missing or broken, or its answers lack yes and no.
        """
        folder = place.folder()
        self.model = load_model(ViltForQuestionAnswering, place, folder)
        self.tokenizer = load_part(BertTokenizer, folder, "tokenizer")
        self.processor = load_part(ViltImageProcessorPil, folder, "image processor")
        self.name, self.record = place.name, place.record(folder)
        answers = self.model.config.label2id or {}
        if not {"yes", "no"} <= set(answers):
            raise RowcastError(
                f"expected the answers yes and no in {place.path}, found {len(answers)} others: "
                f"pass {place.option}=dandelin/vilt-b32-finetuned-vqa"
            )
        self.answers = [answers["yes"], answers["no"]]

    @torch.inference_mode()
    def yes(self, image: Image.Image, questions: Sequence[str]) -> list[float]:
        """As `Vqa.yes`."""
        model = self.model
        seen = self.processor(images=image, return_tensors="pt").to(model.device)
        asked = self.tokenizer(
            list(questions),
            padding=True,
            truncation=True,
            max_length=model.config.max_position_embeddings,
            return_tensors="pt",
        ).to(model.device)
        pixels = seen["pixel_values"].to(model.dtype)
        logits = model(
            **asked,
            pixel_values=pixels.expand(len(questions), -1, -1, -1),
            pixel_mask=seen["pixel_mask"].expand(len(questions), -1, -1),
        ).logits
        return logits[:, self.answers].float().softmax(-1)[:, 0].tolist()
