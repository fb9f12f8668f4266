"""What Lumina-mGPT and Anole refuse: broken and foreign files, options that do not fit; in one line each."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from backbones.errors import RowcastError
from backbones.registry import load_backbone
from tests.backbones.checkpoints.chameleon import vq_tensors, write_anole, write_lumina

pytestmark = pytest.mark.unit

Fault = Callable[[Path], None]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_lumina(tmp_path_factory.mktemp("lumina"))


@pytest.fixture
def copy(options: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """Options of a checkpoint that a test may break."""
    return options | {"path": str(shutil.copytree(options["path"], tmp_path / "copy"))}


def edit(name: str, change: Callable[[dict[str, Any]], object]) -> Fault:
    """Changes a JSON file."""

    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return apply


def without(pattern: str) -> Fault:
    def apply(folder: Path) -> None:
        for path in list(folder.glob(pattern)):
            path.unlink()

    return apply


def cut(name: str) -> Fault:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-9])


def tensor(name: str, change: Callable[[Tensor], Tensor] | None, new: str | None = None) -> Fault:
    """Changes a tensor, takes it away (no change) or adds a changed copy under a new name."""

    def apply(folder: Path) -> None:
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        file = folder / index["weight_map"][name]
        tensors = load_file(file)
        if change is None:
            del tensors[name], index["weight_map"][name]
        else:
            tensors[new or name] = change(tensors[name])
            index["weight_map"][new or name] = file.name
        save_file(tensors, file)
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return apply


def renamed(vocabulary: dict[str, int], old: str, new: str) -> None:
    vocabulary[new] = vocabulary.pop(old)


FAULTS: dict[str, tuple[Fault, str]] = {
    "no config": (without("config.json"), r"expected config\.json in .*model\.path"),
    "no weights": (without("*.safetensors"), r"expected model\*\.safetensors in"),
    "no index": (
        without("model.safetensors.index.json"),
        r"whole safetensors file, found .*model\.safetensors",
    ),
    "no shard": (without("model-00002-*"), r"expected model-00002-of-00002\.safetensors beside"),
    "no tokenizer": (
        without("tokenizer.json"),
        r"model\.tokenizer=Alpha-VLLM/Lumina-mGPT-7B-768, whose text",
    ),
    "cut shard": (cut("model-00001-of-00002.safetensors"), r"whole safetensors file, found .*model-00001"),
    "cut tokenizer": (cut("tokenizer.json"), "expected loadable tokenizer files"),
    "cut config": (cut("config.json"), r"expected loadable config\.json"),
    "other model": (
        edit("config.json", lambda c: c.update(model_type="llama")),
        r"expected model type 'chameleon', found 'llama'.*such as Alpha-VLLM",
    ),
    "no codes": (
        edit("config.json", lambda c: c.update(vocabulary_map={"<s>": 0})),
        r"an image code 0 \(IMGIMGAZ\) in the vocabulary_map of config\.json, found 0 others",
    ),
    "no vocabulary": (edit("config.json", lambda c: c.update(vocabulary_map=None)), "found 0 others"),
    "a code missing": (
        edit("config.json", lambda c: c["vocabulary_map"].pop("IMGIMGBDZ")),
        r"an image code 13 \(IMGIMGBDZ\) in .*, found 63 others",
    ),
    "small context": (
        edit("config.json", lambda c: c.update(max_position_embeddings=90)),
        r"context of at least \d+ tokens for 96x64 pixels, found 90 in config\.json: pass a smaller",
    ),
    "other tokenizer": (
        edit("tokenizer.json", lambda c: c["model"]["vocab"].update({"ca": 334, "cat": 333})),
        r"expected id 33\d for ca\w? as in config\.json, found 33\d in the tokenizer of .*model\.tokenizer=",
    ),
    "no row end": (
        edit(
            "tokenizer.json",
            lambda c: (
                renamed(c["model"]["vocab"], "<reserved08799>", "<other>"),
                [t.update(content="<other>") for t in c["added_tokens"] if t["content"] == "<reserved08799>"],
            ),
        ),
        r"expected the tokens <s> .*tokenizer\.json, found no <reserved08799>: use the tokenizer that was",
    ),
    "a weight missing": (
        tensor("model.layers.1.mlp.up_proj.weight", None),
        r"expected a tensor model\.layers\.1\.mlp\.up_proj\.weight, found none",
    ),
    "no final norm": (tensor("model.norm.weight", None), r"expected a tensor model\.norm\.weight"),
    "no output layer": (tensor("lm_head.weight", None), r"expected a tensor lm_head\.weight"),
    "short output layer": (
        tensor("lm_head.weight", lambda t: t[:50].clone()),
        r"expected at least 68 rows of lm_head\.weight, found 50",
    ),
    "narrow output layer": (
        tensor("lm_head.weight", lambda t: t[:, :-1].clone()),
        r"lm_head\.weight of shape \[64, 32\].*found \[64, 31\]",
    ),
    "wrong shape": (
        tensor("model.layers.0.mlp.up_proj.weight", lambda t: t[:-1].clone()),
        r"layers\.0\.mlp\.up_proj\.weight of shape \[48, 32\] as config\.json says, found \[47, 32\]",
    ),
    "odd norms": (
        tensor("model.layers.0.self_attn.q_norm.weight", lambda t: t.repeat(3, 1)),
        r"layers\.0\.self_attn\.q_norm\.weight of shape \[4, 8\].*found \[3, 8\]",
    ),
    "a weight too many": (
        tensor(
            "model.layers.0.self_attn.q_norm.bias", torch.clone, new="model.layers.0.self_attn.q_proj.bias"
        ),
        r"expected no weight model\.layers\.0\.self_attn\.q_proj\.bias",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_checkpoints_are_refused(fault: str, copy: dict[str, Any]) -> None:
    plant, message = FAULTS[fault]
    plant(Path(copy["path"]))
    with pytest.raises(RowcastError, match=message) as raised:
        load_backbone("lumina", device="cpu", **copy)
    assert "\n" not in str(raised.value)


def test_the_tokenizer_may_lie_elsewhere(copy: dict[str, Any], tmp_path: Path) -> None:
    (Path(copy["path"]) / "tokenizer.json").unlink()
    anole = write_anole(tmp_path / "anole")
    backbone = load_backbone("lumina", device="cpu", **(copy | {"tokenizer": anole["path"]}))
    assert int(backbone.encode(["a cat"], guided=False).mask.sum()) > 60


def test_options_are_checked(options: dict[str, Any], tmp_path: Path) -> None:
    refused = {
        "path": (None, r"expected weights for lumina, found none: pass model\.path, .*Lumina-mGPT-7B-768"),
        "size": ("95x64", r"found '95x64': pass model\.size= one of 96x64"),
        "text_encoder": ("t5", r"no option model\.text_encoder"),
        "tokenizer": (str(tmp_path / "nowhere"), r"check model\.tokenizer"),
        "pixels": (str(tmp_path / "nowhere"), r"check model\.pixels"),
    }
    for option, (value, message) in refused.items():
        with pytest.raises(RowcastError, match=message):
            load_backbone("lumina", device="cpu", **(options | {option: value}))
    with pytest.raises(RowcastError, match=r"model\.path, .*leloy/Anole-7b-v0\.1-hf"):
        load_backbone("anole")


def test_random_weights_need_no_files() -> None:
    for option in ("tokenizer", "pixels", "text_encoder"):
        with pytest.raises(RowcastError, match=rf"no option model\.{option} for model anole"):
            load_backbone("anole", weights="random", device="meta", **{option: "somewhere"})


def test_another_vq_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    for tensors, found in (
        (vq_tensors((32, 32, 32, 32)), "64 codes of 8x8"),
        (vq_tensors() | {"quantize.embedding.weight": torch.zeros(63, 8)}, "63 codes of 16x16"),
    ):
        file = tmp_path / "vq.safetensors"
        save_file(tensors, file)
        with pytest.raises(RowcastError, match=f"expected a VQ of 64 codes of 16x16 pixels, found {found}"):
            load_backbone("lumina", device="cpu", **(options | {"pixels": str(file)}))
