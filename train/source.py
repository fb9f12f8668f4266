"""Where training's images and their states come from, by `data.mode`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from backbones.contract import Backbone, Sampling
from conf.schema import TrainJob
from data.cache import GB, StateCache
from data.cached_reading import CachedReader, content
from data.plan import Plan
from data.processes import process_rank
from data.quarantine import QUARANTINE, Mender
from data.reading import Reader, Reads
from data.rollouts import RolloutSet
from data.sampler import Sampler
from data.storage import open_storage
from data.stream import Stream
from heads.contract import DraftHeads

STATES, STREAM = "states", "stream"
"""What `data.mode` may be, beside `ids`."""
CHECKPOINTS, STATE = 3, 12
"""Checkpoints on disk at a time, and bytes a weight in them: itself and its two moments, in fp32."""


def open_stream(job: TrainJob, backbone: Backbone, sampling: Sampling, prompts: Sequence[str]) -> Stream:
    """The stream of a set whose contract has been signed; a prompt that the model can't take is refused."""
    options, storage = job.rollouts, open_storage(job.rollouts.folder)
    sampler = Sampler(backbone, Plan(prompts, options.seed), sampling, options.seed, options.batch)
    if process_rank() == 0:
        sampler.check_prompts(range(options.images))
    return Stream(
        storage,
        options.images,
        sampler,
        pool=job.data.pool_images,
        shard_images=options.shard_images,
        mend=Mender(storage, sampler) if job.data.on_damage == QUARANTINE else None,
        shown=process_rank() == 0,
    )


@contextmanager
def open_source(
    job: TrainJob, backbone: Backbone, bank: DraftHeads, guidance: float, images: RolloutSet | Stream
) -> Iterator[Reads]:
    """Starts what training reads from, and ends it.

    Raises:
        RowcastError: if the cache of states cannot be written.
    """
    reader = Reader(backbone, guidance=guidance, siblings=bank.reads_siblings, seed=job.trainer.seed)
    with ExitStack() as stack:
        if isinstance(images, Stream):
            stack.enter_context(images)
        if job.data.mode != STATES:
            yield reader
            return
        cache = StateCache(
            Path(job.data.cache),
            limit=int(job.data.cache_gb * GB),
            content=content(reader, images.contract),
            spare=CHECKPOINTS * STATE * sum(weight.numel() for weight in bank.parameters()),
        )
        stack.callback(cache.close)
        print(f"states: {len(cache)} entries of this set are in {job.data.cache}")
        yield CachedReader(reader, cache)
