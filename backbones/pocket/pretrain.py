"""Makes the pocket model's weights from Fashion-MNIST: tokenizer, trunk, classifier, export.

    apt-get install dataset-fashion-mnist
    python -m backbones.pocket.pretrain --out outputs/pocket-weights

The trunk took 70 minutes on one CPU core with bf16 instructions. Stop it whenever you like: the same command
goes on from the last checkpoint. Then `python -m eval.gate` decides whether the weights may be shipped.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import cast

import torch
from transformers import JanusForConditionalGeneration, PreTrainedTokenizerBase

from backbones.errors import RowcastError
from backbones.pocket.architecture import text_tokenizer, untrained
from backbones.pocket.judge import CLASSIFIER_FILE, SHEET_FILE, GarmentClassifier, write_sheet
from backbones.pocket.photographs import DEBIAN_FOLDER, Photographs, draw_colours, read_split, tint
from backbones.pocket.schedule import Stage, batch_generator
from backbones.pocket.train_classifier import test_accuracy, train_classifier
from backbones.pocket.train_tokenizer import draw, tokenize, train_tokenizer
from backbones.pocket.train_trunk import draw_batch, token_loss, train_trunk

SEED = 1
INITIAL_SEED = 0
SHEET_IMAGES = 512
FIGURES_FILE = "figures.json"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m backbones.pocket.pretrain", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEBIAN_FOLDER, help="folder with the four IDX files")
    parser.add_argument("--out", type=Path, default=Path("outputs/pocket-weights"), help="folder to write")
    parser.add_argument("--tokenizer-steps", type=int, default=1600, help="of 32 images")
    parser.add_argument("--trunk-steps", type=int, default=4500, help="of 32 images")
    parser.add_argument("--classifier-steps", type=int, default=1200, help="of 128 images")
    return parser.parse_args()


def pretrain(options: argparse.Namespace) -> None:
    """Runs every stage that is not finished, then exports."""
    state = options.out / "state"
    state.mkdir(parents=True, exist_ok=True)
    train, test = read_split(options.data, train=True), read_split(options.data, train=False)

    def stage(name: str, steps: int) -> Stage:
        return Stage(name=name, steps=steps, seed=SEED, folder=state)

    model, tokenizer, network = untrained(INITIAL_SEED), text_tokenizer(), GarmentClassifier()
    train_tokenizer(model.model.vqmodel, train, stage("tokenizer", options.tokenizer_steps))
    train_trunk(model, tokenizer, train, stage("trunk", options.trunk_steps))
    train_classifier(network, train, stage("classifier", options.classifier_steps))
    round_to_bfloat16(model)  # the figures are those of the weights that are written
    figures = {
        "tokenizer_psnr_test_db": reconstruction_psnr(model, test),
        "nll_train_nats": mean_loss(model, tokenizer, train),
        "nll_test_nats": mean_loss(model, tokenizer, test),
        "classifier_accuracy_test": test_accuracy(network, test, SEED),
        "steps": {k: getattr(options, f"{k}_steps") for k in ("tokenizer", "trunk", "classifier")},
        "seed": SEED,
    }
    export(options.out, model, tokenizer, network, test)
    (options.out / FIGURES_FILE).write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))


def round_to_bfloat16(model: JanusForConditionalGeneration) -> None:
    """Rounds every weight to what the written checkpoint will hold."""
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()


@torch.no_grad()
def mean_loss(
    model: JanusForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    photographs: Photographs,
    batches: int = 16,
) -> float:
    """Token negative log-likelihood in nats of random tinted photographs of a split."""
    seeds = [batch_generator(SEED + 10, step) for step in range(batches)]
    losses = [token_loss(model, *draw_batch(model, tokenizer, photographs, g, 0.0)) for g in seeds]
    return float(torch.stack(losses).mean())


@torch.no_grad()
def reconstruction_psnr(model: JanusForConditionalGeneration, photographs: Photographs) -> float:
    """Peak signal-to-noise ratio in dB of 256 test images through the tokenizer and back."""
    pixels = draw(photographs, 256, batch_generator(SEED + 20, 0))
    vq = model.model.vqmodel
    codes = cast(torch.LongTensor, tokenize(vq, pixels))
    painted = (vq.decode(codes).clamp(-1, 1) + 1) / 2
    return float(-10 * torch.nn.functional.mse_loss(painted, pixels).log10())


def export(
    out: Path,
    model: JanusForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    network: GarmentClassifier,
    test: Photographs,
) -> None:
    """Writes the checkpoint (bf16), the classifier and a sheet of real test images."""
    from safetensors.torch import save_file

    torch.nn.Module.to(model, torch.bfloat16)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    halves = {k: v.half().contiguous() for k, v in network.state_dict().items() if v.is_floating_point()}
    save_file(halves, out / CLASSIFIER_FILE)
    colours = draw_colours(SHEET_IMAGES, batch_generator(SEED + 30, 0))
    real = tint(test.grey[:SHEET_IMAGES], *colours)
    write_sheet((255 * real).round().to(torch.uint8), out / SHEET_FILE)


def main() -> int:
    try:
        pretrain(arguments())
    except RowcastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped: the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
