"""BLIP as fine-tuned for visual question answering: the first word of its answer, yes or no."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor
from transformers import BertTokenizer, BlipForQuestionAnswering, BlipImageProcessorPil

from backbones.errors import RowcastError
from eval.scorers.backends.load import Place, load_model, load_part


class Blip:
    """All questions about one image share one look at it."""

    def __init__(self, place: Place) -> None:
        """Loads it.

        Raises:
            RowcastError: if a part is missing or broken, or its words lack yes and no.
        """
        folder = place.folder()
        self.model = load_model(BlipForQuestionAnswering, place, folder)
        self.tokenizer = load_part(BertTokenizer, folder, "tokenizer")
        self.processor = load_part(BlipImageProcessorPil, folder, "image processor")
        self.name, self.record = place.name, place.record(folder)
        words = self.tokenizer.convert_tokens_to_ids(["yes", "no"])
        if self.tokenizer.unk_token_id in words:
            raise RowcastError(
                f"expected the words yes and no in the tokenizer of {place.path}, found one missing: "
                f"pass {place.option}=Salesforce/blip-vqa-capfilt-large"
            )
        self.words = words

    @torch.inference_mode()
    def yes(self, image: Image.Image, questions: Sequence[str]) -> list[float]:
        """As `Vqa.yes`.

        Questions of one length are asked together, so that nothing is padded: the library's text model adds
        its masks to the scores, and those of truth values let padding be looked at.
        """
        pixels = self.processor(images=image, return_tensors="pt")["pixel_values"].to(self.model.dtype)
        seen = self.model.vision_model(pixel_values=pixels.to(self.model.device)).last_hidden_state
        rows = [self.tokenizer(question, truncation=True)["input_ids"] for question in questions]
        chances = [0.0] * len(rows)
        for length in sorted({len(row) for row in rows}):
            places = [place for place, row in enumerate(rows) if len(row) == length]
            answers = self._answers(seen, torch.tensor([rows[place] for place in places], device=seen.device))
            for place, chance in zip(places, answers, strict=True):
                chances[place] = chance
        return chances

    def _answers(self, seen: Float[Tensor, "1 P D"], asked: Int[Tensor, "Q T"]) -> list[float]:
        """The probability of yes for questions of one length, from what the image shows."""
        model, count = self.model, len(asked)
        understood = model.text_encoder(
            input_ids=asked,
            attention_mask=torch.ones_like(asked),
            encoder_hidden_states=seen.expand(count, -1, -1),
            encoder_attention_mask=torch.ones(count, seen.shape[1], dtype=torch.long, device=seen.device),
        ).last_hidden_state
        logits = model.text_decoder(
            input_ids=torch.full((count, 1), model.decoder_start_token_id, device=seen.device),
            encoder_hidden_states=understood,
            encoder_attention_mask=torch.ones_like(asked),
        ).logits
        return logits[:, -1, self.words].float().softmax(-1)[:, 0].tolist()
