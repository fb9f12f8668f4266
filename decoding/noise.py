"""The randomness of an image: one stream per image, whatever its batch mates and their order."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from backbones.errors import RowcastError

BUFFER = 64
"""Numbers drawn from a stream at a time; how many does not change the stream."""


class Noise:
    """Uniform numbers for N images, each stream keyed by (seed, prompt, sample index).

    The key is 128 bits of a SHA-256 into a counter-based generator. (torch's CPU generator keeps 32 bits of
    its seed: at the 60,000 images of a real rollout set, two of them would share a stream.)
    """

    def __init__(self, seed: int, prompts: Sequence[str], samples: Sequence[int]) -> None:
        """Opens the streams of `prompts[i]`, sample `samples[i]`.

        Raises:
            RowcastError: if the two differ in length.
        """
        if len(prompts) != len(samples):
            raise RowcastError(
                f"expected one sample index a prompt, found {len(samples)} for {len(prompts)} prompts: "
                "pass equal lists"
            )
        self._streams = [_stream(seed, *image) for image in zip(prompts, samples, strict=True)]
        self._buffer = torch.empty(len(prompts), 0, dtype=torch.float64)
        self._used = 0

    @property
    def images(self) -> int:
        """N."""
        return len(self._streams)

    def uniform(self, count: int) -> Float[Tensor, "N count"]:
        """The next `count` numbers of every stream, in [0, 1), fp64, on the CPU."""
        missing = self._used + count - self._buffer.shape[1]
        if missing > 0:
            size = max(missing, BUFFER)
            drawn = np.stack([stream.random(size) for stream in self._streams])
            self._buffer = torch.cat([self._buffer[:, self._used :], torch.from_numpy(drawn)], 1)
            self._used = 0
        self._used += count
        return self._buffer[:, self._used - count : self._used]


def _stream(seed: int, prompt: str, sample: int) -> np.random.Generator:
    digest = hashlib.sha256(repr((seed, prompt, sample)).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
