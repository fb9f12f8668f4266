"""Work that is shared: parts of a benchmark among processes, the baseline's images among benchmarks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from backbones.durable import only_writer
from backbones.errors import RowcastError
from eval.benchmark import Extras
from eval.environment import environment
from eval.items import Shard
from eval.job import part
from eval.reuse import baseline_contract, code_hash
from eval.samples import read_into
from tests.backbones.tiny import tiny_backbone
from tests.eval.tiny import run_tiny

pytestmark = pytest.mark.unit

SMALL = {"images": 2, "quality": 5, "names": ("ar", "ssd")}


def images(folder: Path):
    found, scores = {}, {}
    for path in folder.rglob("samples-*.jsonl"):
        read_into(path, found, scores)
    return {key: image.tokens for key, image in found.items()}, scores


def test_parts_in_any_order_make_the_whole_and_the_last_one_writes_it(tmp_path):
    whole = run_tiny(tmp_path / "whole", **SMALL)
    for number in (2, 0):
        assert run_tiny(tmp_path / "parts", **SMALL, extras=Extras(shard=Shard(part=number, of=3))) is None
        assert not (tmp_path / "parts" / "results.json").exists()
    parts = run_tiny(tmp_path / "parts", **SMALL, extras=Extras(shard=Shard(part=1, of=3)))
    assert images(tmp_path / "parts") == images(tmp_path / "whole")
    assert [d.quality for d in parts.decoders] == [d.quality for d in whole.decoders]
    assert (parts.control, parts.processes) == (whole.control, 3)
    logged = [path.read_text().count('{"image"') for path in tmp_path.glob("parts/shards/*/samples-*")]
    assert sum(logged) == len(images(tmp_path / "whole")[0])
    assert all(logged)
    assert (tmp_path / "parts" / "report.html").exists()


def test_another_number_of_parts_paints_only_what_is_missing(tmp_path):
    assert run_tiny(tmp_path, **SMALL, extras=Extras(shard=Shard(part=0, of=2))) is None
    before = images(tmp_path)[0]
    assert run_tiny(tmp_path, **SMALL) is not None
    [own] = tmp_path.glob("samples-*")
    painted = own.read_text().count('{"image"')
    assert painted == len(images(tmp_path)[0]) - len(before) > 0


def test_two_parts_may_run_at_once_and_one_part_may_not_run_twice(tmp_path):
    with only_writer(tmp_path / "shards" / "1-of-2", "folder="):
        run_tiny(tmp_path, **SMALL, extras=Extras(shard=Shard(part=1, of=2)))
        with pytest.raises(RowcastError, match="only process that writes"):
            run_tiny(tmp_path, **SMALL, extras=Extras(shard=Shard(part=0, of=2)))


def test_parts_are_numbered_from_one_or_by_the_launcher(monkeypatch):
    assert part("2/8") == Shard(part=1, of=8)
    for name in ("TORCHELASTIC_RUN_ID", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert part("auto") == Shard(part=0, of=1)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert part("auto") == Shard(part=3, of=4)


def test_the_baseline_is_painted_once_for_several_benchmarks(tmp_path):
    pool = Extras(baselines=tmp_path / "pool")
    run_tiny(tmp_path / "one", **SMALL, extras=pool)
    [file] = (tmp_path / "pool").glob("samples-*.jsonl")
    # A mark that only reuse can carry on: a likelihood that nobody would compute.
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "scores" in line:
            line["scores"]["nll"] = 77.0
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_tiny(tmp_path / "two", images=2, quality=6, names=("ar", "ssd_r0"), extras=pool)
    found, scores = images(tmp_path / "two")
    marked = [key for key, value in scores.items() if value["nll"] == 77.0]
    # Timed images are never reused, so of the five main ones three are; the control's five all are.
    assert sorted(key[3] for key in marked) == ["control"] * 5 + ["main"] * 3
    assert {key[0] for key in marked} == {"ar"}
    once, _ = images(tmp_path / "one")
    assert all(found[key] == tokens for key, tokens in once.items() if key[0] == "ar" and key in found)
    assert file.read_text().count('{"image"') == 12, "the sixth image and its control were added"


def test_what_the_images_depend_on_names_the_pool(tmp_path):
    backbone = tiny_backbone()
    machine = environment(backbone)

    def contract(**changes):
        given = {"sampling": backbone.sampling, "seed": 7, "machine": machine, "options": {"name": "ar"}}
        return baseline_contract(backbone, **(given | changes))

    others = [
        contract(sampling=replace(backbone.sampling, guidance=3.0)),
        contract(seed=8),
        contract(machine=replace(machine, torch="0")),
        contract(machine=replace(machine, device="another")),
        contract(options={"name": "ar", "new": 1}),
        baseline_contract(tiny_backbone(seed=1), {"name": "ar"}, backbone.sampling, seed=7, machine=machine),
    ]
    assert contract() == contract(machine=replace(machine, commit="another"))
    assert all(other != contract() for other in others)


def test_changed_code_names_another_pool(tmp_path):
    for name in ("backbones/a.py", "decoding/deep/b.py", "eval/likelihood.py", "eval/page.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    before = code_hash(tmp_path)
    (tmp_path / "eval/page.py").write_text("x = 2\n")
    assert code_hash(tmp_path) == before
    for name in ("backbones/a.py", "decoding/deep/b.py", "eval/likelihood.py"):
        (tmp_path / name).write_text("x = 2\n")
        after = code_hash(tmp_path)
        assert after != before
        before = after
