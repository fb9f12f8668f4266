"""What every pass of a benchmark works on: how much to paint, with what, and where it is logged."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from backbones.contract import Backbone, Sampling
from decoding.methods.method import Method
from eval.items import Item, Shard
from eval.samples import Key, Role, Sample, SampleLog

ImageSet = tuple[str, Role]
"""Decoder and role."""


@runtime_checkable
class Columns(Protocol):
    """Further columns of the quality table."""

    def names(self, sample: Sample) -> AbstractSet[str]:
        """The columns that an image gets; none where nobody can judge it."""
        ...

    def __call__(self, samples: Sequence[Sample]) -> Sequence[Mapping[str, float]]:
        """The scores of some painted images by column; asking again is cheap."""
        ...


ReferenceLoop = Callable[[str, int], Int[Tensor, " P"]]
"""Paints a prompt, with a seed, by the generation loop of the model's own library."""

REFERENCE = "reference"
"""What the reference loop is called where decoders have their names."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much a benchmark paints."""

    images: int = 24
    """Images per decoder that are painted alone and timed."""
    quality_images: int = 128
    """Images per decoder whose quality is judged; the timed ones are the first of them. 0 leaves it out."""
    warm_up: int = 2
    """Images per decoder that are painted before the clock counts."""
    seed: int = 1000
    """Of every image's noise; the control set takes the next seed."""
    quality_batch: int = 16
    """Images painted together where nothing is timed."""
    reference_images: int = 0
    """Images that the model's own library paints beside the timed ones, for the ladder; 0: none."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What every pass works on."""

    backbone: Backbone
    decoders: Mapping[str, Method]
    baseline: str
    """The name of the plain autoregressive decoder."""
    sampling: Sampling
    plan: Plan
    items: Sequence[Item]
    """In the order in which they are taken."""
    log: SampleLog
    session: int
    """Which start of the benchmark this is."""
    shard: Shard = field(default_factory=Shard)
    """What of it this process paints."""
    columns: Columns | None = None
    reference: ReferenceLoop | None = None

    @property
    def quality_sets(self) -> list[ImageSet]:
        """Every decoder's images, and the baseline's with the second seed."""
        return [*((name, "main") for name in self.decoders), self.control]

    @property
    def control(self) -> ImageSet:
        """The baseline's images with the second seed."""
        return self.baseline, "control"

    @property
    def references(self) -> int:
        """How many images the reference loop paints."""
        return 0 if self.reference is None else min(self.plan.reference_images, self.plan.images)

    def keys(self, chosen: ImageSet, count: int) -> list[Key]:
        """The names of the first `count` images of a set."""
        return [key_of(chosen, item) for item in self.items[:count]]

    def own(self, chosen: ImageSet, count: int) -> list[tuple[Key, Item]]:
        """Those of them that are this process's to paint."""
        return [
            (key_of(chosen, item), item)
            for index, item in enumerate(self.items[:count])
            if index in self.shard
        ]

    def images(self, chosen: ImageSet, count: int) -> list[Sample]:
        """The first `count` images of a set."""
        return [self.log.images[key] for key in self.keys(chosen, count)]

    def missing(self) -> int:
        """Images, times and scores that nobody has logged yet."""
        timed = [
            key
            for name in self.decoders
            for key in self.keys((name, "main"), self.plan.images)
            if key not in self.log.images or self.log.images[key].latency is None
        ]
        judged = [
            key
            for chosen in self.quality_sets
            for key in self.keys(chosen, self.plan.quality_images)
            if not self._judged(key)
        ]
        loops = [
            key for key in self.keys((REFERENCE, "reference"), self.references) if key not in self.log.images
        ]
        return len(timed) + len(judged) + len(loops)

    def _judged(self, key: Key) -> bool:
        """Whether an image has all its scores; the likelihood is worked out last of the built-in ones."""
        scores = self.log.scores.get(key)
        if scores is None:
            return False
        return self.columns is None or self.columns.names(self.log.images[key]) <= scores.keys()


def key_of(chosen: ImageSet, item: Item) -> Key:
    """The name of an image in the log."""
    decoder, role = chosen
    return decoder, item.prompt.text, item.sample, role
