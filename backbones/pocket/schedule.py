"""A training stage of `backbones.pocket.pretrain`: steps, progress, learning rate, checkpoints.

Every random draw of a step comes from `batch_generator(seed, step)`, so a resumed stage sees
exactly what an uninterrupted one would have seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm


def batch_generator(seed: int, step: int) -> torch.Generator:
    """The random numbers of one step."""
    return torch.Generator().manual_seed(seed * 1_000_003 + step)


@dataclass(kw_only=True)
class Stage:
    """One resumable training stage; its state lies in `folder/<name>.pt` until the run ends."""

    name: str
    steps: int
    seed: int
    folder: Path
    save_every: int = 250
    step: int = 0
    _bar: tqdm | None = field(default=None, repr=False)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.pt"

    def resume(
        self, modules: dict[str, nn.Module], optimiser: torch.optim.Optimizer, buffers: dict[str, Tensor]
    ) -> Iterator[int]:
        """Restores the last checkpoint, if any, then yields the steps that are left."""
        if self.path.exists():
            saved = torch.load(self.path, weights_only=True)
            self.step = saved["step"]
            optimiser.load_state_dict(saved["optimiser"])
            for name, module in modules.items():
                module.load_state_dict(saved[name])
            for name, buffer in buffers.items():
                buffer.copy_(saved[name])
        self._bar = tqdm(total=self.steps, initial=self.step, desc=self.name, unit="step", dynamic_ncols=True)
        with self._bar:
            while self.step < self.steps:
                yield self.step
                self.step += 1
                self._bar.update()
                if self.step % self.save_every == 0 or self.step == self.steps:
                    self._save(modules, optimiser, buffers)

    def set_rate(
        self, optimiser: torch.optim.Optimizer, peak: float, *, warm_up: int, decay_from: float
    ) -> None:
        """Linear warm-up over `warm_up` steps, flat, then linear decay from the fraction `decay_from`."""
        rise = min(1.0, (self.step + 1) / warm_up)
        fall = min(1.0, (1 - self.step / self.steps) / (1 - decay_from))
        for group in optimiser.param_groups:
            group["lr"] = peak * min(rise, fall)

    def report(self, step: int, **figures: float) -> None:
        """Shows figures on the progress bar."""
        if self._bar is not None and step % 10 == 0:
            self._bar.set_postfix({k: f"{v:.3f}" for k, v in figures.items()})

    def _save(
        self, modules: dict[str, nn.Module], optimiser: torch.optim.Optimizer, buffers: dict[str, Tensor]
    ) -> None:
        state = {
            "step": self.step,
            "optimiser": optimiser.state_dict(),
            **{k: m.state_dict() for k, m in modules.items()},
        }
        temporary = self.path.with_suffix(".tmp")
        torch.save({**state, **buffers}, temporary)
        temporary.replace(self.path)
