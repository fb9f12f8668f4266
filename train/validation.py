"""Validation: paints fixed prompts with the decoders that ship, and measures what training is for.

A loss says little about acceptance, so heads are judged by decoding with them: in process, with the same
engine, prompts and seeds each time. Randomness has its own streams; training's is not touched.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from jaxtyping import Int, UInt8
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import WandbLogger
from PIL import Image
from safetensors import SafetensorError, safe_open
from torch import Tensor
from tqdm import tqdm

from backbones.contract import Backbone, Sampling
from backbones.durable import write_durably
from decoding.engine import generate
from decoding.generation import Generation, Trace
from decoding.methods import build_method
from decoding.methods.method import Method
from decoding.noise import Noise
from train.agreement import agreed
from train.steps import step_ended

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
    ) -> None:
        self._backbone = backbone
        self._methods = methods
        self._prompts = list(prompts)
        self._sampling = sampling
        self._seed = seed
        self._folder = folder
        self._every = every
        self._refresh = refresh

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.ckpt_path is None:
            self._paint(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        due = trainer.global_step % self._every == 0 or trainer.global_step == trainer.max_steps
        if due and step_ended(trainer, batch_idx):
            self._paint(trainer)

    def _paint(self, trainer: Trainer) -> None:
        self._refresh()
        with agreed():
            if trainer.is_global_zero:
                self._paint_here(trainer)

    def _paint_here(self, trainer: Trainer) -> None:
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
            if isinstance(logger, WandbLogger) and path is not None:
                logger.log_image("validation", [str(path)], step=step)
        tqdm.write(f"  step {step:>5}  {report}  {path or '(no pictures: model.pixels is not given)'}")

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
        prompts, done = self._prompts, []
        for batch in [prompts] if method.lockstep else [[prompt] for prompt in prompts]:
            noise = Noise(self._seed, batch, [0] * len(batch))
            done.append(generate(self._backbone, batch, method, noise, self._sampling))
        rounds = [round_ for painted in done for round_ in painted.trace.rounds]
        tokens = torch.cat([painted.tokens for painted in done])
        forwards = sum(painted.trace.forwards for painted in done) / len(done)
        return Generation(tokens=tokens, trace=Trace(rounds=rounds)), forwards


def figures(name: str, trace: Trace) -> dict[str, float]:
    """What a validation logs of one decoder's rounds."""
    accepted = {
        f"{name}/accepted/{label}": kept / examined for label, (kept, examined) in trace.acceptance().items()
    }
    changed = {f"{name}/changed/round_{i + 1}": part for i, part in enumerate(trace.changed_fraction())}
    return {**accepted, **changed}


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
