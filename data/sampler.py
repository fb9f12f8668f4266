"""The images of a set by their numbers: what the frozen backbone paints, whoever asks, wherever."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from backbones.contract import Backbone, Sampling
from data.plan import Plan
from data.shards import Rollout, image_key
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise


@dataclass(frozen=True)
class Sampler:
    """Samples images of one set."""

    backbone: Backbone
    plan: Plan
    sampling: Sampling
    seed: int
    batch: int
    """Images sampled together."""

    def check_prompts(self, images: Sequence[int]) -> None:
        """Lets the model refuse a prompt now, not hours later.

        Raises:
            RowcastError: if it does.
        """
        prompts = list(dict.fromkeys(self.plan[image][0] for image in images))
        for start in range(0, len(prompts), self.batch):
            self.backbone.encode(prompts[start : start + self.batch], self.sampling.guidance != 1)

    def __call__(self, images: Sequence[int], skip: Collection[int] = ()) -> Iterator[list[Rollout]]:
        """The images in batches; a batch is left out if all its images are to be skipped."""
        method = build_method("ar", {}, None)
        for start in range(0, len(images), self.batch):
            part = images[start : start + self.batch]
            if all(image in skip for image in part):
                continue
            prompts, samples = zip(*(self.plan[image] for image in part), strict=True)
            noise = Noise(self.seed, prompts, samples)
            tokens = generate(self.backbone, prompts, method, noise, self.sampling).tokens.cpu()
            yield [
                Rollout(key=image_key(image), prompt=prompt, tokens=row, seed=self.seed, sample=sample)
                for image, prompt, sample, row in zip(part, prompts, samples, tokens, strict=True)
            ]
