"""BLIP as fine-tuned for visual question answering: the first word of its answer, yes or no."""

from collections.abc import Sequence

import torch
from PIL import Image
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
        # Its text side adds the mask to the scores, which the masks of other implementations (truth values)
        # are not made for: padding would be looked at.
        self.model.set_attn_implementation("eager")
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
        """As `Vqa.yes`."""
        model = self.model
        pixels = self.processor(images=image, return_tensors="pt")["pixel_values"]
        seen = model.vision_model(pixel_values=pixels.to(model.device, model.dtype)).last_hidden_state
        seen = seen.expand(len(questions), -1, -1)
        asked = self.tokenizer(list(questions), padding=True, truncation=True, return_tensors="pt").to(
            model.device
        )
        understood = model.text_encoder(
            input_ids=asked["input_ids"],
            attention_mask=asked["attention_mask"],
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(seen.shape[:-1], dtype=torch.long, device=seen.device),
        ).last_hidden_state
        start = torch.full((len(questions), 1), model.decoder_start_token_id, device=seen.device)
        logits = model.text_decoder(
            input_ids=start,
            encoder_hidden_states=understood,
            encoder_attention_mask=asked["attention_mask"],
        ).logits
        return logits[:, -1, self.words].float().softmax(-1)[:, 0].tolist()
