"""Tensors by name from one safetensors file or several."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from backbones.errors import RowcastError
from backbones.shards import Shards, open_shards
from tests.backbones.checkpoints.chameleon import write_shards

pytestmark = pytest.mark.unit

TENSORS = {"a": torch.arange(12.0).view(4, 3), "b": torch.ones(2).bfloat16(), "c": torch.zeros(1)}


@pytest.fixture
def several(tmp_path: Path) -> Path:
    write_shards(tmp_path, TENSORS, 2)
    return tmp_path


def check(shards: Shards) -> None:
    assert sorted(shards.names) == sorted(TENSORS)
    for name, tensor in TENSORS.items():
        assert torch.equal(shards.read(name), tensor)
        assert shards.read(name).dtype == tensor.dtype
    assert torch.equal(shards.rows("a", 1, 3), TENSORS["a"][1:3])


def test_one_file_or_several(several: Path, tmp_path: Path) -> None:
    check(open_shards(several))
    single = tmp_path / "single"
    single.mkdir()
    save_file(TENSORS, single / "model.safetensors")
    check(open_shards(single))
    check(open_shards(single / "model.safetensors"))


def test_only_the_files_of_wanted_tensors_are_opened(several: Path) -> None:
    shards = open_shards(several)
    broken = several / "model-00002-of-00002.safetensors"
    broken.write_bytes(broken.read_bytes()[:-2])
    assert torch.equal(shards.read("a"), TENSORS["a"])
    with pytest.raises(RowcastError, match=r"whole safetensors file, found .* in .*model-00002.*model\.path"):
        shards.read("c")


def test_what_is_missing_is_named(several: Path) -> None:
    shards = open_shards(several, "model.pixels")
    with pytest.raises(RowcastError, match=r"a tensor d, found none in .*another model\.pixels"):
        shards.read("d")
    with pytest.raises(RowcastError, match="at least 5 rows of a, found 4"):
        shards.rows("a", 2, 5)
    with pytest.raises(RowcastError, match=r"found .* in .*model\.safetensors: fetch"):
        open_shards(several / "empty")
    (several / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(RowcastError, match=r"expected model-00001-of-00002\.safetensors beside model\.safe"):
        open_shards(several)


BROKEN = ["{", "{}", "[]", '{"weight_map": 3}', '{"weight_map": {}}', '{"weight_map": {"a": 3}}']
ELSEWHERE = ['{"weight_map": {"a": "../x.safetensors"}}', '{"weight_map": {"a": "/x.safetensors"}}']


@pytest.mark.parametrize("text", BROKEN + ELSEWHERE)
def test_a_broken_index_is_refused(several: Path, text: str) -> None:
    (several / "model.safetensors.index.json").write_text(text)
    with pytest.raises(RowcastError, match="index of tensors with a weight_map, found"):
        open_shards(several)


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    save_file({"a": torch.ones(4, 2, dtype=torch.int8)}, tmp_path / "model.safetensors")
    shards = open_shards(tmp_path, "model.pixels")
    for read in (lambda: shards.read("a"), lambda: shards.rows("a", 0, 2)):
        with pytest.raises(RowcastError, match=r"floating-point weights, found I8 for a in .*model\.pixels"):
            read()


def test_a_single_file_comes_before_an_index_as_in_the_library(several: Path) -> None:
    save_file({"z": torch.zeros(1)}, several / "model.safetensors")
    assert open_shards(several).names == ["z"]


def test_an_index_that_lies_is_refused(several: Path) -> None:
    index = several / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["d"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(RowcastError, match="whole safetensors file, found"):
        open_shards(several).read("d")
