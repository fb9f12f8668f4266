"""Validation: paints fixed prompts with the decoders that ship, and measures what training is for.

A loss says little about acceptance, so heads are judged by decoding with them: in process, with the same
engine, prompts and seeds each time. They are also judged on held-out images and on some that they are trained
on, which tells whether data is the limit (`train/learning.py`). Randomness has its own streams; training's is
not touched.
"""

import io
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import safetensors.torch
import torch
from jaxtyping import Int, UInt8
from lightning.pytorch import Callback, LightningModule, Trainer
from PIL import Image
from safetensors import SafetensorError, safe_open
from torch import Tensor
from tqdm import tqdm

from backbones.contract import Backbone, Sampling
from backbones.durable import write_durably
from data.reading import Reads
from data.shards import Rollout
from decoding.engine import generate
from decoding.generation import Generation, Trace
from decoding.methods import build_method
from decoding.methods.method import Method
from decoding.noise import Noise
from heads.contract import DraftHeads, Lesson
from train.agreement import agreed
from train.held_out import judge
from train.learning import EPOCHS, HELD_OUT, IMAGES, SEEN, image_row
from train.loggers import MetricsFile, log_picture
from train.module import HeadTraining
from train.steps import WholeRun, step_ended

BASELINE = "ar.safetensors"
PIXELS = 64
"""Least height of an image in a strip."""


class Validation(Callback):
    """Paints at the first step (untrained heads: the reference), every so often and at the last.

    Rank 0 paints while the others wait, which a few images keep short.

    Args:
        backbone: The frozen generator.
        methods: Decoders with the heads in training, by name; the first is reported on the terminal.
        prompts: One image each.
        sampling: How tokens are drawn.
        seed: Of the paintings.
        folder: Where strips go: a row of plain sampling, then a row a decoder.
        every: Steps between paintings.
        refresh: Gives the methods' heads the weights of now; called in every process.
        bank: The methods' heads.
        reads: What gives the backbone's states of an image.
        rollouts: How many images are trained on.
        seen: Some of them, as many as are painted; none if they cannot be had beforehand.
    """

    def __init__(
        self,
        backbone: Backbone,
        methods: Mapping[str, Method],
        prompts: Sequence[str],
        sampling: Sampling,
        *,
        seed: int,
        folder: Path,
        every: int,
        refresh: Callable[[], None],
        bank: DraftHeads,
        reads: Reads,
        rollouts: int,
        seen: Sequence[Rollout],
    ) -> None:
        self._backbone = backbone
        self._methods = methods
        self._prompts = list(prompts)
        self._samples = [self._prompts[:i].count(prompt) for i, prompt in enumerate(self._prompts)]
        self._sampling = sampling
        self._seed = seed
        self._folder = folder
        self._every = every
        self._refresh = refresh
        self._bank = bank
        self._reads = reads
        self._rollouts = rollouts
        self._seen = seen

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.ckpt_path is None:
            self._validate(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        due = trainer.global_step % self._every == 0 or trainer.global_step == trainer.max_steps
        if due and step_ended(trainer, batch_idx):
            self._validate(trainer)

    def _validate(self, trainer: Trainer) -> None:
        module = trainer.lightning_module
        assert isinstance(module, HeadTraining)
        module.clock.lap("other")
        self._refresh()
        with agreed():
            if trainer.is_global_zero:
                self._paint(trainer)
                self._judge(trainer, module)
        module.clock.lap("validation")

    def _paint(self, trainer: Trainer) -> None:
        step = trainer.global_step
        rows, metrics, report = [self._baseline()], {}, ""
        for name, method in self._methods.items():
            painted, forwards = self._generate(method)
            rows.append(painted.tokens)
            metrics |= {**figures(name, painted.trace), f"{name}/forwards": forwards}
            report = report or summary(name, painted.trace, forwards)
        path = self._strip(rows, step)
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step)
            if path is not None:
                log_picture(logger, "validation", path, step)
        tqdm.write(f"  step {step:>5}  {report}  {path or '(no pictures: model.pixels is not given)'}")

    def _judge(self, trainer: Trainer, module: HeadTraining) -> None:
        """Held-out images, and as many of those that are trained on."""
        place = cast(WholeRun, trainer.train_dataloader).state_dict()  # of all processes, this step included
        done = place["epoch"] * self._rollouts + place["seen"]
        values: dict[str, float] = {IMAGES: float(done), EPOCHS: done / self._rollouts}
        single: dict[str, float] = {}
        for name, images in {HELD_OUT: self._held_out(), SEEN: self._seen}.items():
            if images:
                judged = judge(self._bank, partial(self._lesson, module), images, self._sampling)
                values |= {f"{name}/{figure}": value for figure, value in judged.means().items()}
                accepted = judged.mean_accepted().tolist()
                single |= {image_row(name, i): share for i, share in enumerate(accepted)}
        for logger in trainer.loggers:
            every = values | single if isinstance(logger, MetricsFile) else values
            logger.log_metrics(every, trainer.global_step)

    def _lesson(self, module: HeadTraining, rollout: Rollout) -> Lesson:
        with torch.no_grad():
            return module.lesson([rollout], [self._reads(rollout, 0)], self._seed)

    def _held_out(self) -> list[Rollout]:
        tokens = self._baseline().cpu()
        return [
            Rollout(
                key=f"held-out-{i}",
                prompt=prompt,
                tokens=tokens[i],
                seed=self._seed,
                sample=self._samples[i],
            )
            for i, prompt in enumerate(self._prompts)
        ]

    def _strip(self, rows: Sequence[Int[Tensor, "N P"]], step: int) -> Path | None:
        """Writes the pictures, where the backbone has what turns tokens into pixels."""
        if not self._backbone.paints:
            return None
        path = self._folder / f"step-{step:06d}.png"
        write_durably(path, _png(image_strip([self._backbone.decode(row) for row in rows])))
        return path

    def _baseline(self) -> Int[Tensor, "N P"]:
        """Plainly sampled tokens of the prompts; the same all through a run, so made once."""
        path = self._folder / BASELINE
        origin = {"sampling": asdict(self._sampling), "seed": self._seed, "prompts": self._prompts}
        metadata = {"origin": json.dumps(origin)}
        try:
            with safe_open(path, framework="pt") as file:
                if file.metadata() == metadata:
                    return file.get_tensor("tokens").long().to(self._backbone.device)
        except (FileNotFoundError, SafetensorError):
            pass  # missing or damaged: made again
        tokens = self._generate(build_method("ar", {}, None))[0].tokens
        self._folder.mkdir(parents=True, exist_ok=True)
        content = safetensors.torch.save({"tokens": tokens.int().cpu().contiguous()}, metadata)
        write_durably(path, content)
        return tokens

    def _generate(self, method: Method) -> tuple[Generation, float]:
        """The paintings of all prompts, and the forwards an image took; painted singly if they must be."""
        done, images = [], list(zip(self._prompts, self._samples, strict=True))
        for batch in [images] if method.lockstep else [[image] for image in images]:
            prompts, samples = (list(part) for part in zip(*batch, strict=True))
            noise = Noise(self._seed, prompts, samples)
            done.append(generate(self._backbone, prompts, method, noise, self._sampling))
        rounds = [round_ for painted in done for round_ in painted.trace.rounds]
        tokens = torch.cat([painted.tokens for painted in done])
        forwards = sum(painted.trace.forwards for painted in done) / len(done)
        return Generation(tokens=tokens, trace=Trace(rounds=rounds)), forwards


def figures(name: str, trace: Trace) -> dict[str, float]:
    """What a validation logs of one decoder's rounds.

    `accepted` and `changed` of fresh drafts, by what drafted them and in all: a draft that was not accepted
    was drawn anew, and may have come out the same. Then the changed part of the places that a round judged.
    """
    accepted, changed = trace.acceptance(), _changed_drafts(trace)
    values = {f"{name}/accepted/{label}": kept / examined for label, (kept, examined) in accepted.items()}
    values |= {f"{name}/changed/{label}": count / accepted[label][1] for label, count in changed.items()}
    if examined := sum(count for _, count in accepted.values()):
        values[f"{name}/accepted"] = sum(kept for kept, _ in accepted.values()) / examined
        values[f"{name}/changed"] = sum(changed.values()) / examined
    rounds = {f"{name}/changed/round_{i + 1}": part for i, part in enumerate(trace.changed_fraction())}
    return {**values, **rounds}


def _changed_drafts(trace: Trace) -> dict[str, int]:
    """Changed fresh drafts by offset label."""
    counts: dict[str, int] = defaultdict(int)
    for round_ in trace.rounds:
        if round_.index == 0:
            for label, changed in zip(round_.offsets, round_.changed.sum(0).tolist(), strict=True):
                counts[label] += changed
    return counts


def summary(name: str, trace: Trace, forwards: float) -> str:
    """The figures of one decoder that fit on a line."""
    parts = [
        f"{label} {kept / examined:.2f}" for label, (kept, examined) in sorted(trace.acceptance().items())
    ]
    return f"{name}: {forwards:g} forwards, accepted {' '.join(parts)}"


def image_strip(rows: Sequence[UInt8[Tensor, "N 3 H W"]]) -> UInt8[Tensor, "3 SH SW"]:
    """Rows of images in one picture, small ones enlarged."""
    scale = max(1, PIXELS // rows[0].shape[-2])
    lines = [torch.cat(list(row.cpu()), dim=-1) for row in rows]
    picture = torch.cat(lines, dim=-2)
    return picture.repeat_interleave(scale, -1).repeat_interleave(scale, -2)


def _png(picture: UInt8[Tensor, "3 SH SW"]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture.permute(1, 2, 0).contiguous().numpy()).save(buffer, format="PNG")
    return buffer.getvalue()
