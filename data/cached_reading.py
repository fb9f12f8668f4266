"""Readings from a cache, and by the backbone where the cache has none: `data.mode=states`."""

import hashlib
import json
from dataclasses import asdict

import torch

from data.cache import StateCache
from data.contract import Contract
from data.reading import DRAWS, Reader, Reading
from data.shards import Rollout
from data.siblings import PLACES, Others

LAYOUT = 1
"""Version of what an entry holds."""


def content(reader: Reader, contract: Contract) -> str:
    """Hash of everything but the image that a reading's bits depend on, and of the set that it belongs to."""
    device = reader.backbone.device
    facts = {
        "layout": LAYOUT,
        "fingerprint": reader.backbone.fingerprint,
        "dtype": str(reader.backbone.dtype),
        # Kernels differ in the last bits.
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch": torch.__version__,
        "guided": reader.guidance != 1,
        "siblings": [reader.seed, reader.guidance, PLACES] if reader.siblings else None,
        "set": asdict(contract),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class CachedReader:
    """As `Reader`, with the same bits.

    An image has one entry for its states, and one for each draw of siblings. Where siblings are wanted and
    a draw is not kept yet, the image is read anew, since that takes a session: with siblings the cache saves
    work from epoch `DRAWS` on, without them from the second epoch on.
    """

    def __init__(self, reader: Reader, cache: StateCache) -> None:
        self._reader, self._cache = reader, cache

    def __call__(self, rollout: Rollout, epoch: int) -> Reading:
        """A reading; what had to be computed is kept."""
        key, draw = image_hash(rollout), f"{epoch % DRAWS}"
        kept = self._kept(key, draw)
        if kept is not None:
            return kept
        reading = self._reader(rollout, epoch)
        self._cache.put(key, {"states": reading.states})
        if (others := reading.others) is not None:
            parts = {"places": others.places.int(), "tokens": others.tokens.int(), "states": others.states}
            self._cache.put(f"{key}-{draw}", parts)
        return reading

    def _kept(self, key: str, draw: str) -> Reading | None:
        others, device = None, self._reader.backbone.device
        if self._reader.siblings:
            parts = self._cache.get(f"{key}-{draw}")
            if parts is None:
                return None
            others = Others(
                places=parts["places"].long().to(device),
                tokens=parts["tokens"].long().to(device),
                states=parts["states"].to(device),
            )
        image = self._cache.get(key)
        return None if image is None else Reading(states=image["states"].to(device), others=others)


def image_hash(rollout: Rollout) -> str:
    """Hash of what a reading depends on in its image."""
    origin = json.dumps([rollout.prompt, rollout.seed, rollout.sample]).encode()
    digest = hashlib.sha256(origin + b"\n" + rollout.tokens.int().numpy().tobytes())
    return digest.hexdigest()[:32]
