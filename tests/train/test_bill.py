"""The bill of a run: its bytes against real tensors, its refusals against what they advise."""

import re

import pytest
import torch
from hydra import compose, initialize_config_dir

from backbones.errors import RowcastError
from backbones.footprint import FEW, Footprint, without_values
from backbones.registry import load_backbone
from backbones.rehearsal import Memory, rehearsal
from conf.check import FOLDER, typed
from conf.schema import TrainJob
from conf.words import prepare
from data.reading import Reader
from data.rollout import rollouts_at_once
from data.shards import Rollout
from heads.kinds import build_heads
from heads.options import parse_heads
from tests.backbones.coordinates import CoordinateBackbone
from tests.backbones.tiny import tiny_backbone
from tests.train.session import job as tiny_job
from tests.train.session import rollouts
from train.bill.bill import check_fit, print_bill
from train.bill.devices import DEVICES
from train.bill.disk import Item
from train.bill.heads import harvest_peak, learning_peak
from train.bill.memory import phase, trained
from train.bill.setting import Setting, published
from train.bill.verdict import check_disk, check_memory, remedy
from train.module import Batch, HeadTraining
from train.optimiser import Schedule, build_optimiser

pytestmark = pytest.mark.integration


def composed(*words):
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return typed(compose("train", prepare(list(words), "train", TrainJob)), TrainJob)


@pytest.fixture(scope="module")
def pocket():
    return load_backbone("pocket", device="cpu")


def test_weights_and_cache_of_pocket_are_those_of_its_tensors(pocket):
    foot = Footprint(without_values(pocket), "cuda")
    parts = [*pocket.parts.values(), pocket.vq]
    tensors = {id(tensor): tensor for part in parts for tensor in [*part.parameters(), *part.buffers()]}
    table = pocket.embed(torch.arange(pocket.codes))
    assert foot.weights == sum(tensor.nbytes for tensor in tensors.values()) + table.nbytes
    assert foot.weights == Footprint(load_backbone("pocket", weights="random", device="meta"), "cuda").weights
    prompt = pocket.encode(["a red sneaker on blue"])
    pocket.begin(prompt)
    layers = pocket._session.cache.layers
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    assert held == 2 * (prompt.mask.shape[1] + foot.slots) * foot.slot
    assert next(pocket._trunk.parameters()).device.type == "cpu", "the copy took nothing away"


def test_a_few_layers_tell_of_all(pocket):
    foot = Footprint(without_values(pocket), "cuda")

    def work():
        with rehearsal() as memory:
            cache = foot.new_cache(3)
            foot.logits(foot.feed(2, 3, 200, cache))
            return memory.peak, memory.live

    assert foot.layers > sum(FEW)
    assert foot.over_layers(work) == work()


def test_what_cannot_be_foreseen_is_said_and_done(capsys):
    """A backbone of one's own, without the shared trunk."""
    backbone = CoordinateBackbone(rows=4, cols=4)
    assert rollouts_at_once(backbone, backbone.sampling, ["a coat"], None) == 32
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "warning: what this takes is not foreseen (TypeError: " in said
    assert said.endswith("rollouts.batch=32\n")


@pytest.mark.parametrize("name", ["lumina", "emu3", "llamagen_c2i"])
def test_caches_of_all_families(name):
    """Row ends, shared keys, heads without a width of their own."""
    foot = Footprint(load_backbone(name, weights="random", device="meta", dtype="bfloat16"), "cuda")
    with rehearsal():
        cache = foot.new_cache(3)
        foot.feed(2, 0, 3, cache)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert held == 2 * (3 + foot.slots) * foot.slot


@pytest.mark.parametrize("heads", ["ssd", "mtp", "eagle"])
@pytest.mark.parametrize("chunk", [32768, 8])
def test_a_step_takes_what_was_rehearsed(tmp_path, heads, chunk):
    backbone = tiny_backbone(rows=5, cols=6)
    words = [f"train/heads={heads}", "trainer.batch=2", f"trainer.loss_chunk={chunk}"]
    job = tiny_job(tmp_path, *words)
    setting = Setting(job, without_values(backbone), "cpu")
    setting.__dict__["prompt"] = 6
    kind, options = parse_heads(job.heads)
    bank = build_heads(kind, backbone.width, options)
    schedule = Schedule(steps=9, warm_up=1, learning_rate=1e-3, weight_decay=0.0)
    reader = Reader(backbone, guidance=2.0, siblings=bank.reads_siblings, seed=0)
    module = HeadTraining(bank, backbone, schedule, reads=reader, chunk=chunk, seed=0)
    optimiser = build_optimiser(module, schedule)
    tokens = torch.arange(30) % 11
    batch = [
        Rollout(key=f"{i}", prompt="a red sneaker on blue", tokens=tokens, seed=0, sample=i) for i in (0, 1)
    ]
    with Memory("cpu") as seen:
        module.training_step(Batch(batch, 0), 0).backward()
    harvested, kept = harvest_peak(setting)
    assert max(harvested, kept + learning_peak(setting)) == pytest.approx(seen.peak, rel=0.3)
    optimiser.step()
    held = trained(setting)
    moments = [value for state in optimiser.state.values() for value in state.values() if value.ndim]
    assert held["optimiser"] == sum(moment.nbytes for moment in moments)
    assert held["heads"] == held["gradients"] == sum(weight.grad.nbytes for weight in bank.parameters())


@pytest.fixture(scope="module")
def small():
    """The lightest published model."""
    return published(composed("model=llamagen_c2i"), "cuda")


@pytest.mark.parametrize(
    ("name", "section", "options"),
    [
        ("rollouts", "rollouts", {"batch": 20}),
        ("training", "trainer", {"batch": 16, "devices": 8}),
        ("validation", "trainer", {"validation_images": 64}),
    ],
)
def test_what_is_advised_fits(small, name, section, options):
    setting = small.changed(section, **options)
    space = round(0.7 * phase(name, setting, 10**12).bytes)
    advice = remedy([name], setting, space)
    assert advice
    changed = setting
    for word in advice:
        group, option, value = re.split(r"[.=]", word)
        value = int(value) if value.isdigit() else value
        if group == "heads":
            changed = changed.with_heads(**{option: value})
        else:
            changed = changed.changed(group, **{option: value})
    assert phase(name, changed, space).bytes <= space
    if "batch" in option or "images" in option:
        more = changed.changed(group, **{option: int(value) + 1})
        assert phase(name, more, space).bytes > space, "it is the smallest change"


def test_nothing_is_advised_where_nothing_fits(small):
    with pytest.raises(
        RowcastError,
        match=r"one image at a time is too much as well: take a smaller model, or a device of \d+ GB",
    ):
        check_memory(small, 10**8, [phase("rollouts", small, 10**8)])


def test_a_batch_that_does_not_fit_names_the_one_that_does(pocket):
    assert rollouts_at_once(pocket, pocket.sampling, ["a red sneaker on blue"], None) == 32
    with pytest.raises(RowcastError, match=r"rollouts\.batch=\d+ fits"):
        rollouts_at_once(pocket, pocket.sampling, ["a red sneaker on blue"], 10**8)


def test_a_full_disk_and_too_few_images_are_found_before_any_work(tmp_path):
    big = Item(name="checkpoints", folder=f"{tmp_path}/run/checkpoints", bytes=10**18)
    with pytest.raises(RowcastError, match=r"expected 1e\+09 GB free for .*: free 1e\+09 GB, or set folder="):
        check_disk([big])
    check_disk([Item(name="checkpoints", folder=f"{tmp_path}/run", bytes=10)])
    with pytest.raises(RowcastError, match=r"expected at least 16 rollouts, .*: rollouts\.images=16 fits"):
        check_fit(composed("rollouts.images=4", "trainer.devices=8", f"folder={tmp_path}"))


@pytest.mark.parametrize("model", ["lumina", "janus", "emu3"])
def test_the_bill_is_written_from_configuration_alone(model, capsys, tmp_path):
    words = [f"model={model}", "plan.gpu=h200", "rollouts.images=60000", "trainer.devices=8"]
    print_bill(composed(*words, f"folder={tmp_path}/run", f"rollouts.folder={tmp_path}/rollouts"))
    said = capsys.readouterr().out
    for wanted in ("rollouts", "checkpoints", "training", ">=: the least at 4.8 TB/s", "it fits", "8 x h200"):
        assert wanted in said
    assert not list(tmp_path.iterdir())


def test_a_rate_that_was_given_is_said_to_be(capsys, tmp_path):
    words = ["plan.images_per_second=2", "plan.steps_per_second=10", f"folder={tmp_path}"]
    print_bill(composed(*words))
    assert "1.6 min" in (said := capsys.readouterr().out)
    assert "2 rollouts a second and device, given" in said


def test_every_device_can_be_asked_for():
    for name in DEVICES:
        assert composed(f"plan.gpu={name}").plan.gpu == name
    with pytest.raises(RowcastError, match=r"option plan.gpu: expected one of auto, b200"):
        composed("plan.gpu=tpu")


def test_shards_are_counted_to_the_byte(tmp_path):
    from data.bill import occupied, rollout_bytes

    made = rollouts(tmp_path / "set", images=3)
    said = rollout_bytes(
        ["a red sneaker on blue", "a coat"],
        images=3,
        shard_images=3,
        seed=0,
        grid=made.contract.grid,
        sampling=made.contract.sampling,
    )
    shards = sum(path.stat().st_size for path in (tmp_path / "set").glob("*.tar"))
    assert said.shards == shards
    assert occupied(str(tmp_path / "set")) >= said.shards
