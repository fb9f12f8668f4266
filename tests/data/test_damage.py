"""Every kind of damage to a shard is found and named; then it stops the work, or it is mended."""

import shutil
import tarfile
import threading
import warnings
from pathlib import Path

import pytest
import webdataset

from backbones.errors import RowcastError
from data.rollout import make_rollouts
from data.rollouts import RolloutSet
from data.shards import pack, publish
from data.storage import open_storage
from tests.backbones.tiny import tiny_backbone
from tests.data.damage import HARMLESS, KINDS
from tests.data.sets import entries, files, rollout, shards, write_set

pytestmark = pytest.mark.unit


def damage(folder, kind, number=0):
    """Damages one shard of a set; what it holds then."""
    entry = entries(folder)[number]
    path = Path(folder) / entry.shard
    path.write_bytes((KINDS | HARMLESS)[kind][0](path.read_bytes(), entry))
    return path.read_bytes()


@pytest.mark.parametrize("kind", KINDS | HARMLESS)
def test_damage_is_found_and_named(tmp_path, kind):
    folder = write_set(tmp_path / "set")
    entry = entries(folder)[1]
    content = (folder / entry.shard).read_bytes()
    damage(folder, kind, 1)
    image = "00000005" if kind == "empty file" else "00000006"
    place = "" if kind in HARMLESS else rf"first at image {image}, "
    words = (KINDS | HARMLESS)[kind][1]
    with pytest.raises(
        RowcastError, match=rf"{entry.shard} as it was .* found it {words}, {place}.*or delete the shard"
    ) as caught:
        RolloutSet(folder).verify()
    assert "\n" not in str(caught.value)
    (folder / entry.shard).write_bytes(content)
    RolloutSet(folder).verify()


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_found_by_reading_alone(tmp_path, kind):
    """As when it comes while a set is open: nothing but the images before it is given out."""
    folder = write_set(tmp_path / "set")
    rollouts = RolloutSet(folder)
    damage(folder, kind, 1)
    if kind != "empty file":
        assert rollouts[5].prompt == rollout(5).prompt
    with pytest.raises(RowcastError, match=rf"found it {KINDS[kind][1]}, first at image 0000000[56]"):
        rollouts[6]


def test_webdataset_alone_would_not_see_most_damage(tmp_path):
    """The control: why sizes and checksums are kept at all."""
    folder = write_set(tmp_path / "set")
    entry = entries(folder)[1]
    path = folder / entry.shard
    content = path.read_bytes()
    silent = set()
    for kind, (spoil, _) in KINDS.items():
        path.write_bytes(spoil(content, entry))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                list(webdataset.WebDataset([str(path)], shardshuffle=False))
            silent.add(kind)
        except (tarfile.ReadError, ValueError):
            pass
    assert {"zeroed header", "bit flip", "cut between images", "cut between members"} <= silent


def make(folder, backbone=None, on_damage="quarantine"):
    """Five images in two shards."""
    return make_rollouts(
        backbone or tiny_backbone(2, 2),
        ["a bag", "two words"],
        folder,
        images=5,
        batch=2,
        shard_images=3,
        seed=1,
        on_damage=on_damage,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make(tmp_path_factory.mktemp("damage") / "whole").folder


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "set")
    return tmp_path / "set"


@pytest.mark.parametrize("kind", KINDS | HARMLESS)
def test_quarantine_moves_the_shard_aside_and_samples_what_it_lost(whole, folder, kind, capsys):
    before, spoilt = files(whole), damage(folder, kind)
    backbone = tiny_backbone(2, 2)
    sampled = []
    begin = backbone.begin
    backbone.begin = lambda prompt: (sampled.append(prompt), begin(prompt))[1]
    rollouts = make(folder, backbone)
    rollouts.verify()
    assert len(rollouts) == 5
    assert files(folder) == before, "bit for bit what it was"
    assert [path.read_bytes() for path in (folder / "quarantine").iterdir()] == [spoilt]
    errors = capsys.readouterr().err
    words = (KINDS | HARMLESS)[kind][1]
    assert f"DAMAGED: the shard {folder}/rollouts-00000000-00000003.tar was found {words}" in errors
    assert "is again what it was" in errors
    batches = {"bit flip": 1, "zeroed header": 1, "garbage header": 1} | dict.fromkeys(HARMLESS, 0)
    assert len(sampled) == batches.get(kind, 2), "a batch without a lost image is not sampled"


@pytest.mark.parametrize("kind", [*KINDS, "missing file"])
def test_damage_while_the_set_is_in_use_is_mended(whole, folder, kind):
    """Each epoch reads every image again; the damage comes between two of them."""
    rollouts = make(folder)
    wanted = [(image.prompt, image.tokens.tolist()) for image in rollouts]
    if kind == "missing file":
        (folder / entries(folder)[0].shard).unlink()
    else:
        damage(folder, kind)
    assert [(image.prompt, image.tokens.tolist()) for image in rollouts] == wanted
    assert shards(folder) == shards(whole)


def test_without_quarantine_nothing_is_touched(folder):
    rollouts = make(folder, on_damage="stop")
    damage(folder, "cut inside data")
    spoilt = files(folder)
    for use in (lambda: rollouts[1], lambda: make(folder, on_damage="stop"), rollouts.verify):
        with pytest.raises(
            RowcastError, match="cut inside data, first at image 00000001, 2 of 3 images lost"
        ):
            use()
    assert files(folder) == spoilt
    assert not (folder / "quarantine").exists()


def test_a_second_quarantine_keeps_the_first(folder):
    spoilt = [damage(folder, "bit flip")]
    make(folder).verify()
    spoilt.append(damage(folder, "zeroed header"))
    make(folder).verify()
    kept = sorted(path.name for path in (folder / "quarantine").iterdir())
    assert kept == ["rollouts-00000000-00000003.tar", "rollouts-00000000-00000003.tar.1"]
    assert [(folder / "quarantine" / name).read_bytes() for name in kept] == spoilt


def test_images_that_come_out_otherwise_are_said_and_taken_by_all(folder, capsys):
    """A set from a machine that rounds otherwise: what is sampled here differs from what was lost."""
    contract = make(folder).contract
    made = [image for image, _ in zip(make(folder), range(3), strict=False)]
    made[1].tokens[0] = (made[1].tokens[0] + 1) % contract.codes
    publish(open_storage(folder), *pack(made, 0, grid=contract.grid, sampling=contract.sampling))
    one, other = make(folder), make(folder)
    damage(folder, "bit flip")
    assert one[1].tokens.tolist() != made[1].tokens.tolist()
    assert "has other images than it had" in capsys.readouterr().err
    assert other[1].tokens.tolist() == one[1].tokens.tolist()
    assert other[0].tokens.tolist() == made[0].tokens.tolist(), "whole images are kept"
    assert len(list((folder / "quarantine").iterdir())) == 1


def test_two_at_once_mend_a_shard_once(whole, folder):
    sets = [make(folder), make(folder)]
    damage(folder, "cut between images")
    found = [0, 0]

    def read(number):
        found[number] = sets[number][2].tokens.tolist()

    threads = [threading.Thread(target=read, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [RolloutSet(whole)[2].tokens.tolist()] * 2
    assert len(list((folder / "quarantine").iterdir())) == 1


def test_what_cannot_be_moved_aside_stops(folder):
    spoilt = damage(folder, "bit flip")
    (folder / "quarantine").write_text("")
    with pytest.raises(RowcastError, match="expected a folder at"):
        make(folder).verify()
    assert shards(folder)[entries(folder)[0].shard] == spoilt
    assert not list(folder.glob("*.claim"))


def test_a_disk_that_damages_a_shard_again_and_again_stops_the_work(folder):
    rollouts = make(folder)
    for _ in range(3):
        damage(folder, "bit flip")
        rollouts.verify()
    damage(folder, "bit flip")
    with pytest.raises(RowcastError, match="with changed bytes"):
        rollouts.verify()
