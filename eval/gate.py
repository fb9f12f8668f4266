"""Whether the pocket model's weights may be shipped: AR samples of 1,000 prompts, judged.

    python -m eval.gate

Judges the weights that lie in `backbones/pocket/weights`, prints the figures, writes the model's card
and its sample sheet beside them, and exits with status 1 if a figure is below its bar.
"""

import json
import random
import sys
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from backbones.contract import Backbone
from backbones.pocket.judge import WEIGHTS, garment_and_colours, write_sheet
from backbones.pocket.photographs import GARMENTS, all_captions, parse_caption
from backbones.pocket.pretrain import FIGURES_FILE
from backbones.registry import load_backbone
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise

PROMPTS = 1000
BATCH = 50
SEED = 77
SAMPLE_SHEET = "samples.png"
SHEET_IMAGES = 256
BARS = {
    "garment": 0.80,
    "garment_colour": 0.95,
    "background_colour": 0.95,
    "classifier_accuracy_test": 0.88,
}
NLL_GAP_BAR = 0.1


def gate_prompts(count: int) -> list[str]:
    """Shuffled prompts, each used before any is repeated."""
    captions = all_captions()
    random.Random(SEED).shuffle(captions)
    return [captions[i % len(captions)] for i in range(count)]


def sample(backbone: Backbone, prompts: list[str]) -> Int[Tensor, "N P"]:
    """AR samples of every prompt at the official settings, in batches."""
    parts = []
    for start in tqdm(range(0, len(prompts), BATCH), desc="AR samples", unit="batch"):
        batch = prompts[start : start + BATCH]
        noise = Noise(SEED, batch, [start + i for i in range(len(batch))])
        parts.append(generate(backbone, batch, build_method("ar", {}, None), noise).tokens)
    return torch.cat(parts)


def measure(backbone: Backbone, count: int) -> tuple[dict[str, object], Tensor]:
    """The gate's figures, and the painted images."""
    prompts = gate_prompts(count)
    wanted = torch.tensor([parse_caption(prompt) for prompt in prompts]).T
    images = backbone.decode(sample(backbone, prompts))
    found = torch.stack(garment_and_colours(images))
    right = found == wanted
    by_garment = {
        name: round(right[0][wanted[0] == i].float().mean().item(), 3) for i, name in enumerate(GARMENTS)
    }
    figures = {
        "prompts": count,
        "guidance": backbone.sampling.guidance,
        "garment": right[0].float().mean().item(),
        "garment_colour": right[1].float().mean().item(),
        "background_colour": right[2].float().mean().item(),
        "garment_by_kind": by_garment,
    }
    return figures, images


def failures(figures: dict) -> list[str]:
    """A line for each figure that misses its bar."""
    missed = [
        f"{name} is {figures[name]:.3f}, must be at least {bar}"
        for name, bar in BARS.items()
        if figures[name] < bar
    ]
    gap = abs(figures["nll_test_nats"] - figures["nll_train_nats"])
    if gap > NLL_GAP_BAR:
        missed.append(f"test and training NLL differ by {gap:.3f} nats, must be at most {NLL_GAP_BAR}")
    return missed


def card(figures: dict) -> str:
    """The model card."""
    kinds = " | ".join(f"{name} {share:.0%}" for name, share in figures["garment_by_kind"].items())
    return f"""# Rowcast's pocket model

A small text-to-image generator: "a red sneaker on blue", 32x32 pixels, 16x16 tokens of 512 codes.
A `JanusForConditionalGeneration` (Llama trunk 192 wide, 6 layers; 5.8 M parameters in all, stored in bf16)
trained from nothing on tinted photographs of Fashion-MNIST. It is the embedded default of Rowcast: small
enough for a laptop, and a real target for every decoder. It knows ten garments, ten colours and ten
backgrounds, and nothing else.

![AR samples]({SAMPLE_SHEET})

{figures["prompts"]} AR samples at guidance {figures["guidance"]} were judged.
Shown are the first {SHEET_IMAGES} of them, unpicked.

| figure | value | bar |
| --- | --- | --- |
| garment right | {figures["garment"]:.1%} | 80 % |
| garment colour right | {figures["garment_colour"]:.1%} | 95 % |
| background colour right | {figures["background_colour"]:.1%} | 95 % |
| classifier on real tinted test images | {figures["classifier_accuracy_test"]:.1%} | 88 % |
| token NLL, training images (nats, unguided) | {figures["nll_train_nats"]:.3f} | |
| token NLL, test images | {figures["nll_test_nats"]:.3f} | within {NLL_GAP_BAR} |
| tokenizer, test images | {figures["tokenizer_psnr_test_db"]:.1f} dB | |

Garments right by kind: {kinds}.

Made by `python -m backbones.pocket.pretrain` ({figures["steps"]["tokenizer"]} tokenizer steps and
{figures["steps"]["trunk"]} trunk steps of 32 images, seed {figures["seed"]});
judged by `python -m eval.gate`.

## Data and licence

`real_test_images.png` holds tinted images of Fashion-MNIST's test split, and the weights were trained on
its training split: Copyright (c) 2017 Zalando SE, MIT licence, see `LICENSE.fashion-mnist` beside this file.
The weights themselves are under Rowcast's licence, Apache-2.0.
"""


def main() -> int:
    figures = json.loads((WEIGHTS / FIGURES_FILE).read_text())
    measured, images = measure(load_backbone("pocket"), PROMPTS)
    figures |= measured
    write_sheet(images[:SHEET_IMAGES], WEIGHTS / SAMPLE_SHEET)
    Path(WEIGHTS / "README.md").write_text(card(figures))
    missed = failures(figures)
    (WEIGHTS / FIGURES_FILE).write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures | {"passed": not missed}))
    for line in missed:
        print(f"below the bar: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
