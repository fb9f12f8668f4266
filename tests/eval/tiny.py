"""A whole benchmark on the tiny backbone; `python -m tests.eval.tiny FOLDER IMAGES` runs one."""

import sys
from pathlib import Path

import torch

from decoding.methods import build_method
from eval.bench import Plan
from eval.benchmark import Extras, run_benchmark
from eval.items import Item, plain_prompts, work_items
from eval.results import Results
from heads.bank import HeadBank
from tests.backbones.tiny import tiny_backbone

HOSTILE = "<script>alert('x')</script> & \"quotes\""
PROMPTS = ["a red boat", HOSTILE, "two green pears", "a hat"]
FIRST_ROW = {"block": 2, "rounds": 1}
OPTIONS = {
    "ar": {"name": "ar"},
    "ssd": {"name": "ssd", "rounds": 2, "first_row": FIRST_ROW},
    "ssd_r0": {"name": "ssd", "rounds": 0, "first_row": FIRST_ROW},
    "ssd_exact": {"name": "ssd_exact", "window": 6},
}


def tiny_items(count: int) -> list[Item]:
    """Two prompts in each of two categories."""
    return work_items(plain_prompts(PROMPTS, ["a", "b", "a", "b"]), count)


def tiny_bank(seed: int = 0) -> HeadBank:
    torch.manual_seed(seed)
    bank = HeadBank(tiny_backbone().width, horizontal=3, vertical=2)
    for parameter in bank.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return bank


def run_tiny(
    folder: Path,
    images: int = 3,
    quality: int = 6,
    names: tuple[str, ...] = tuple(OPTIONS),
    seed: int = 7,
    extras: Extras | None = None,
    reference_images: int = 0,
) -> Results | None:
    backbone, bank = tiny_backbone(), tiny_bank()
    methods = {}
    for name in names:
        settings = {key: value for key, value in OPTIONS[name].items() if key != "name"}
        methods[name] = build_method(OPTIONS[name]["name"], settings, bank)
    return run_benchmark(
        backbone,
        {"ssd": bank},
        decoders=methods,
        options={name: OPTIONS[name] for name in names},
        items=tiny_items(max(images, quality)),
        sampling=backbone.sampling,
        plan=Plan(
            images=images,
            quality_images=quality,
            warm_up=1,
            seed=seed,
            quality_batch=4,
            reference_images=reference_images,
        ),
        folder=folder,
        command="python -m eval <b>",
        extras=extras,
    )


if __name__ == "__main__":
    run_tiny(Path(sys.argv[1]), images=int(sys.argv[2]), quality=int(sys.argv[2]))
