"""A stream gives the images of a set that was made before, in any order, and leaves the same set behind."""

import threading
import time

import pytest
import torch

from backbones.errors import RowcastError
from data.gather import gather
from data.loader import ResumableLoader
from data.manifest import read_manifest
from data.plan import Plan
from data.quarantine import Mender
from data.rollout import make_rollouts
from data.rollouts import RolloutSet
from data.sampler import Sampler
from data.storage import open_storage
from data.stream import Stream
from data.window import Window
from tests.backbones.tiny import tiny_backbone
from tests.data.sets import shards

pytestmark = pytest.mark.unit

PROMPTS = ["a bag", "a longer prompt for a sneaker", "two words"]
IMAGES, SHARD = 11, 4
OPTIONS = {"batch": 3, "shard_images": SHARD, "seed": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The set as `data.mode=ids` makes it."""
    return make_rollouts(
        tiny_backbone(2, 2), PROMPTS, tmp_path_factory.mktemp("ids"), images=IMAGES, **OPTIONS
    )


def begun(folder, images=2):
    return make_rollouts(tiny_backbone(2, 2), PROMPTS, folder, images=images, **OPTIONS)


def sampler(backbone=None):
    backbone = backbone or tiny_backbone(2, 2)
    return Sampler(backbone, Plan(PROMPTS, 1), backbone.sampling, 1, 3)


def stream(folder, pool=4, mend=False, backbone=None, shown=True):
    begun(folder)
    work = sampler(backbone)
    return Stream(
        folder,
        IMAGES,
        work,
        pool=pool,
        shard_images=SHARD,
        mend=Mender(open_storage(folder), work) if mend else None,
        shown=shown,
    )


def passes(dataset, count, state=None, batch=2):
    """The keys and tokens of `count` batches, over as many epochs as that takes, and the state after them."""
    loader = ResumableLoader(dataset, batch, seed=3)
    if state is not None:
        loader.load_state_dict(state)
    seen = []
    while len(seen) < count:
        for samples in loader:
            seen.append([(loader.epoch, sample.key, sample.tokens.tolist()) for sample in samples])
            if len(seen) == count:
                break
    return seen, loader.state_dict()


def broken_off(folder):
    """A stream that Ctrl-C ended after two batches."""
    images = stream(folder).__enter__()
    passes(images, 2)
    images.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    return images


class TestWindow:
    def steps(self, world, batch=2, images=11):
        return ResumableLoader(range(images), batch * world, seed=3).ahead()

    @pytest.mark.parametrize("world", [1, 2])
    def test_every_image_has_one_owner_who_needs_it_first(self, world):
        owners: dict[int, int] = {}
        for rank in range(world):
            window = Window(self.steps(world), rank, world, images=11, pool=3)
            for _ in range(40):
                for image in window.missing(()):
                    assert owners.setdefault(image, rank) == rank
                window.take(window.ahead[0])
            assert window.complete
        assert sorted(owners) == list(range(11))

    def test_it_looks_so_far_ahead_and_in_order(self):
        window = Window(self.steps(1), 0, 1, images=11, pool=4)
        order = [image for _, (_, indices) in zip(range(5), self.steps(1), strict=False) for image in indices]
        assert list(window.ahead) == window.missing(()) == order[:4]
        assert window.missing(order[:2]) == order[2:4]
        assert window.fill(order[:1] + order[2:]) == 1
        window.take(order[0])
        assert list(window.ahead) == order[1:6]
        window.take(order[5])
        assert list(window.ahead) == order[1:6], "an image that is not the next one moves nothing"


def test_the_same_batches_over_several_epochs_and_the_same_set_afterwards(tmp_path, whole):
    with stream(tmp_path / "set") as images:
        assert passes(images, 17) == passes(whole, 17)
    assert not images._thread.is_alive()
    RolloutSet(tmp_path / "set").verify()
    assert shards(tmp_path / "set") == shards(whole._storage._folder)


def test_resumed_in_the_middle_of_an_epoch(tmp_path, whole):
    (first, state), truth = passes(whole, 3), passes(whole, 12)[0]
    with stream(tmp_path / "set") as images:
        before, then = passes(images, 3)
    assert (before, then) == (first, state)
    sampled = len([image for entry in read_manifest(images._storage) for image in range(entry.samples)])
    assert sampled <= 2 + 6 + 4 + 3, "no more than the pool ahead"
    with stream(tmp_path / "set") as images:
        assert before + passes(images, 9, state)[0] == truth


def test_two_ranks_sample_their_own_images_once(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    rank = threading.local()
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank.number)
    begun(tmp_path / "set")
    streams = [stream(tmp_path / "set", shown=False) for _ in range(2)]
    together, seen, truth = threading.Barrier(2), [[], []], [[], []]

    def train(number):
        rank.number = number
        truth[number] = passes(whole, 9, batch=1)[0]
        loader = ResumableLoader(streams[number], 1, seed=3)
        with streams[number]:
            while len(seen[number]) < 9:
                for samples in loader:
                    seen[number].append(
                        [(loader.epoch, sample.key, sample.tokens.tolist()) for sample in samples]
                    )
                    together.wait(timeout=30)  # ranks move in step, as gradients make them
                    if len(seen[number]) == 9:
                        break

    threads = [threading.Thread(target=train, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == truth
    gather(streams[0]._storage, IMAGES, SHARD)
    assert set(shards(tmp_path / "set").items()) >= set(list(shards(whole._storage._folder).items())[:2])


def test_other_modes_go_on_with_what_a_stream_has_left(tmp_path, whole):
    images = broken_off(tmp_path / "set")
    assert not images._thread.is_alive()
    assert any(entry.samples == 1 for entry in read_manifest(images._storage))
    again = begun(tmp_path / "set", IMAGES)
    again.verify()
    assert [image.tokens.tolist() for image in again] == [image.tokens.tolist() for image in whole]


def test_a_failure_in_the_thread_is_the_trainers(tmp_path, monkeypatch):
    begun(tmp_path / "set")
    backbone = tiny_backbone(2, 2)
    images = stream(tmp_path / "set", backbone=backbone)

    def refuse(prompt):
        raise RowcastError("expected memory, found none")

    monkeypatch.setattr(type(backbone), "begin", lambda self, prompt: refuse(prompt))
    with pytest.raises(RowcastError, match="expected memory, found none"), images:
        passes(images, 5)
    assert not images._thread.is_alive()


def test_leaving_ends_the_thread_in_the_middle_of_an_image(tmp_path, monkeypatch):
    images, started = stream(tmp_path / "set"), threading.Event()
    backbone = type(images._backbone)
    forward = backbone.forward

    def delayed(self, tokens):
        started.set()
        time.sleep(0.5)
        return forward(self, tokens)

    monkeypatch.setattr(backbone, "forward", delayed)
    with images:
        images.foresee(ResumableLoader(range(IMAGES), 1, seed=0).ahead(), 0, 1)
        assert started.wait(timeout=30)
    assert not images._thread.is_alive()
    assert images._failure is None
    assert len(images._made) == 2, "the image was not finished"


def test_a_damaged_image_is_refused_or_sampled_anew(tmp_path, whole):
    for mend in (False, True):
        folder = tmp_path / f"set{mend}"
        broken_off(folder)
        for single in folder.glob("rollouts-*.tar"):
            content = bytearray(single.read_bytes())
            content[len(content) // 3] ^= 1
            single.write_bytes(content)
        if mend:
            with stream(folder, mend=True) as images:
                assert passes(images, 9) == passes(whole, 9)
        else:
            with pytest.raises(RowcastError, match="as it was written, found it"), stream(folder) as images:
                passes(images, 9)


def test_asked_before_it_foresees(tmp_path):
    with stream(tmp_path / "set") as images, pytest.raises(ValueError, match="foresee"):
        images[0]
