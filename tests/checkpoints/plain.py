"""Plain transformers with a published bundle: tiny checkpoints and random heads that matter."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import Emu3ForConditionalGeneration, JanusForConditionalGeneration

from backbones.padding import left_padded
from backbones.registry import load_backbone
from checkpoints.package import pack, write_package
from checkpoints.places import HubPlace
from decoding.engine import generate
from decoding.methods.ssd import SSD
from decoding.noise import Noise
from decoding.options.ssd import SSDOptions
from tests.backbones.checkpoints.emu3 import write_emu3
from tests.backbones.checkpoints.janus import write_janus
from tests.checkpoints.bundles import random_bank, save

PROMPTS = {
    "janus": ["a cat", "a red cube on blue"],
    "emu3": ["a cat", "a red cube on blue"],
    "pocket": ["a red sneaker on blue"],
}
POCKET = Path(__file__).parents[2] / "backbones" / "pocket" / "weights"


@dataclass
class Plain:
    """A family's model in Rowcast and in plain transformers, and a folder as publishing writes it."""

    backbone: Any
    bank: Any
    model: Any
    weights: Path
    folder: Path
    prompts: list[str]

    @property
    def arguments(self):
        """What `generate` is given beside the heads."""
        ids, mask = left_padded(
            [self.backbone.prompt_ids(prompt) for prompt in self.prompts], self.backbone._pad
        )
        given = {"input_ids": ids, "attention_mask": mask.long()}
        if self.backbone.name == "emu3":
            given["negative_prompt_ids"] = torch.tensor([self.backbone.unconditional_ids([])])
        return given

    def paint(self, place=None, **changes):
        """Codes by transformers' own mechanism."""
        place = str(place or self.folder)
        given = {"custom_generate": place, "heads": place, "trust_remote_code": True}
        painted = self.model.generate(**{**self.arguments, **given, **changes})
        return self.codes(painted)

    def codes(self, painted):
        """From what the library's `generate` returns to image codes."""
        if self.backbone.name != "emu3":
            return painted
        grid = self.backbone.grid
        rows = painted[:, -(grid.rows * (grid.cols + 1) + 3) : -3].unflatten(1, (grid.rows, grid.cols + 1))
        return self.model.model.vocabulary_mapping.convert_bpe2img(rows).flatten(1)

    def by_rowcast(self, prompts=None, **changes):
        """Codes by `decoder=ssd`."""
        prompts, sampling = prompts or self.prompts, replace(self.backbone.sampling, **changes)
        noise = Noise(0, prompts, list(range(len(prompts))))
        return generate(self.backbone, prompts, SSD(SSDOptions(), self.bank), noise, sampling).tokens


def plain(name, folder):
    """Everything for a family, in a folder of its own."""
    weights, options = POCKET, {}
    if name == "pocket":
        model = JanusForConditionalGeneration.from_pretrained(weights, dtype="float32")
    else:
        weights = folder / "weights"
        weights.mkdir()
        kind = Emu3ForConditionalGeneration if name == "emu3" else JanusForConditionalGeneration
        options = write_emu3(weights, first_names=False) if name == "emu3" else write_janus(weights)
        model = kind.from_pretrained(weights, dtype="float32")
    backbone = load_backbone(name, device="cpu", dtype="float32", **options)
    bank = random_bank(backbone, correction=1.0)
    with torch.no_grad():
        for weight in bank.parameters():  # so that laws of drafts are neither the model's nor one code
            weight.mul_(weight.shape[-1] ** -0.5)
    save(folder / "bundle", bank, backbone)
    place = HubPlace("me/heads")
    package = pack(folder / "bundle", place, base_model=None, licence=lambda _: None, custom_generate=True)
    write_package(package, folder / "heads")
    return Plain(backbone, bank, model, weights, folder / "heads", PROMPTS[name])
