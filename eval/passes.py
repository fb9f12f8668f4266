"""The passes of a benchmark: time images alone, paint the rest in batches, score them.

Each pass asks the log what is missing of this process's part and does that alone, so a killed benchmark goes
on where it was.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from tqdm import tqdm

from eval.bench import REFERENCE, Bench, Columns, ImageSet
from eval.columns import CONDITIONAL, NLL
from eval.items import Item
from eval.judge import can_judge, shown
from eval.likelihood import likelihoods
from eval.paint import paint, paint_by_reference
from eval.reuse import BaselinePool
from eval.samples import Key, Sample, Scores

PROFILED = 3
"""Images per decoder that the profile pass paints."""

T = TypeVar("T")


def speed_pass(bench: Bench) -> None:
    """Times images one by one, the decoders taking turns at every prompt so that drift hits all alike."""
    names = list(bench.decoders)
    todo: list[tuple[ImageSet, Item]] = []
    for index, item in enumerate(bench.items[: bench.plan.images]):
        if index not in bench.shard:
            continue
        turn = index % len(names)
        sets: list[ImageSet] = [(name, "main") for name in names[turn:] + names[:turn]]
        if index < bench.references:
            sets.insert(index % 2 * len(sets), (REFERENCE, "reference"))
        todo += [(chosen, item) for chosen in sets if _untimed(bench, chosen, item)]
    if not todo:
        return
    warm_up = bench.plan.warm_up * len(names)
    with tqdm(total=warm_up + len(todo), desc="speed", unit="image", dynamic_ncols=True) as bar:
        for index in range(bench.plan.warm_up):
            item = bench.items[index % len(bench.items)]
            for name in names:
                paint(bench, (name, "main"), [item], timed=True)
                bar.update()
        if bench.plan.warm_up and any(chosen[1] == "reference" for chosen, _ in todo):
            paint_by_reference(bench, bench.items[0])
        for chosen, item in todo:
            if chosen[1] == "reference":
                bench.log.add([paint_by_reference(bench, item)])
            else:
                bench.log.add(paint(bench, chosen, [item], timed=True))
            bar.update()


def _untimed(bench: Bench, chosen: ImageSet, item: Item) -> bool:
    decoder, role = chosen
    known = bench.log.images.get((decoder, item.prompt.text, item.sample, role))
    return known is None or known.latency is None


def profile_pass(bench: Bench) -> None:
    """Paints a few images again with waits between the phases, which an accelerator needs to time them.

    Kept apart from the speed pass, since the waits slow decoding down. A CPU works in step with the clock:
    there the timed images themselves tell.
    """
    for name in bench.decoders:
        for key, item in bench.own((name, "profile"), PROFILED):
            if key not in bench.log.images:
                bench.log.add(paint(bench, (name, "profile"), [item], timed=False))


def quality_pass(bench: Bench, pool: BaselinePool | None = None) -> None:
    """Paints, in batches, the images of every quality set that are missing.

    The baseline's are taken from `pool` where an earlier benchmark has painted the same, and put there.
    """
    count, log = bench.plan.quality_images, bench.log
    baselines = [key for role in ("main", "control") for key, _ in bench.own((bench.baseline, role), count)]
    known: dict[Key, Scores] = {}
    if pool is not None:
        images, known = pool.borrow([key for key in baselines if key not in log.images], bench.session)
        log.add(images)
    missing = {
        chosen: [item for key, item in bench.own(chosen, count) if key not in log.images]
        for chosen in bench.quality_sets
    }
    total = sum(map(len, missing.values()))
    if total:
        with tqdm(total=total, desc="quality", unit="image", dynamic_ncols=True) as bar:
            for chosen, items in missing.items():
                together = bench.plan.quality_batch if bench.decoders[chosen[0]].lockstep else 1
                for batch in _batches(items, together):
                    log.add(paint(bench, chosen, batch, timed=False))
                    bar.update(len(batch))
    score_pass(bench, known)
    if pool is not None:
        pool.lend([log.images[key] for key in baselines], log.scores)


def score_pass(bench: Bench, known: Mapping[Key, Scores] | None = None) -> None:
    """Scores every image of the quality sets: what a judge sees, further columns, the likelihood.

    The likelihood comes last: an image that has one has all, which is what other processes go by.

    Args:
        bench: what to score.
        known: likelihoods that need not be worked out again.
    """
    log, count = bench.log, bench.plan.quality_images
    every = [key for chosen in bench.quality_sets for key, _ in bench.own(chosen, count)]
    if can_judge(bench.backbone.name):
        unseen = [key for key in every if "garment" not in log.scores.get(key, {})]
        for batch in _batches(unseen, 64):
            log.score(_shown(bench, batch))
    if bench.columns is not None:
        _external(bench, bench.columns, every)
    missing = [key for key in every if NLL not in log.scores.get(key, {})]
    log.score({key: known[key] for key in missing if key in known} if known else {})
    missing = [key for key in missing if NLL not in log.scores.get(key, {})]
    if missing:
        with tqdm(total=len(missing), desc="likelihood", unit="image", dynamic_ncols=True) as bar:
            for batch in _batches(missing, bench.plan.quality_batch):
                log.score(_likelihoods(bench, batch))
                bar.update(len(batch))


def _external(bench: Bench, columns: Columns, keys: Sequence[Key]) -> None:
    """The further columns; they keep what was worked out themselves, so asking again is cheap."""
    with tqdm(total=len(keys), desc="scores", unit="image", dynamic_ncols=True) as bar:
        for batch in _batches(keys, bench.plan.quality_batch):
            found = zip(batch, columns([bench.log.images[key] for key in batch]), strict=True)
            scores = {key: {name: float(value) for name, value in each.items()} for key, each in found}
            known = bench.log.scores
            bench.log.score(
                {key: each for key, each in scores.items() if each.items() - known.get(key, {}).items()}
            )
            bar.update(len(batch))


def _likelihoods(bench: Bench, keys: Sequence[Key]) -> dict[Key, Scores]:
    scores = likelihoods(bench.backbone, [key[1] for key in keys], _tokens(bench, keys), bench.sampling)
    return {
        key: {NLL: found.guided, CONDITIONAL: found.conditional}
        for key, found in zip(keys, scores, strict=True)
    }


def _shown(bench: Bench, keys: Sequence[Key]) -> dict[Key, Scores]:
    return dict(zip(keys, shown(bench.backbone, [key[1] for key in keys], _tokens(bench, keys)), strict=True))


def _tokens(bench: Bench, keys: Sequence[Key]) -> torch.Tensor:
    images: list[Sample] = [bench.log.images[key] for key in keys]
    return torch.tensor([image.tokens for image in images])


def _batches(values: Sequence[T], size: int) -> list[Sequence[T]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
