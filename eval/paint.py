"""Paints images of one decoder together and notes all that the figures need."""

import time
from collections.abc import Sequence

import torch

from backbones.contract import Backbone
from decoding.engine import generate
from decoding.generation import Generation
from decoding.noise import Noise
from eval.bench import REFERENCE, Bench, ImageSet
from eval.items import Item
from eval.masks import by_round, judged
from eval.samples import Sample


def paint(bench: Bench, chosen: ImageSet, items: Sequence[Item], timed: bool) -> list[Sample]:
    """Paints images of one set together."""
    decoder, role = chosen
    prompts = [item.prompt.text for item in items]
    seed = bench.plan.seed + (role == "control")
    noise = Noise(seed, prompts, [item.sample for item in items])
    method, waits = bench.decoders[decoder], role == "profile"
    _synchronise(bench.backbone)
    start = time.perf_counter()
    made = generate(bench.backbone, prompts, method, noise, bench.sampling, synchronize=waits)
    _synchronise(bench.backbone)
    latency = time.perf_counter() - start if timed else None
    samples = []
    for row, item in enumerate(items):
        examined, changed = by_round(made.trace, row)
        samples.append(
            Sample(
                decoder=decoder,
                prompt=item.prompt.text,
                sample=item.sample,
                role=role,
                session=bench.session,
                latency=latency,
                tokens=made.tokens[row].tolist(),
                forwards=made.trace.forwards,
                seconds=dict(made.trace.seconds),
                acceptance=_acceptance(made, row),
                examined=examined,
                changed=changed,
                judged=judged(made.trace, row),
                order=list(made.trace.order),
                set=item.prompt.set,
                prompt_id=item.prompt.id,
                category=item.prompt.category,
            )
        )
    return samples


def paint_by_reference(bench: Bench, item: Item) -> Sample:
    """Times one image by the generation loop of the model's own library."""
    assert bench.reference is not None
    _synchronise(bench.backbone)
    start = time.perf_counter()
    tokens = bench.reference(item.prompt.text, bench.plan.seed + item.sample)
    _synchronise(bench.backbone)
    latency = time.perf_counter() - start
    return Sample(
        decoder=REFERENCE,
        prompt=item.prompt.text,
        sample=item.sample,
        role="reference",
        session=bench.session,
        latency=latency,
        tokens=tokens.tolist(),
        forwards=len(tokens),
        seconds={"total": latency},
        acceptance={},
        examined=[],
        changed=[],
        judged={},
        order=[],
        set=item.prompt.set,
        prompt_id=item.prompt.id,
        category=item.prompt.category,
    )


def _acceptance(made: Generation, row: int) -> dict[str, list[int]]:
    """(accepted, examined) of one image's drafts in their first round, by the head that made them."""
    counts: dict[str, list[int]] = {}
    for seen in made.trace.rounds:
        if seen.index == 0:
            for label, accepted in zip(seen.offsets, seen.accepted[row].tolist(), strict=True):
                count = counts.setdefault(label, [0, 0])
                count[0] += accepted
                count[1] += 1
    return counts


def _synchronise(backbone: Backbone) -> None:
    if backbone.device.type == "cuda":
        torch.cuda.synchronize(backbone.device)
