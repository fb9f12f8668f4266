"""Loading Emu3: what is broken, missing or foreign in a checkpoint is refused in one line."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from backbones.contract import Backbone
from backbones.errors import RowcastError
from backbones.registry import load_backbone
from tests.backbones.checkpoints.emu3 import ROW_END, write_emu3

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emu3")
    write_emu3(folder)
    return folder


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def load(folder: Path, **options: str) -> Backbone:
    return load_backbone("emu3", path=str(folder), device="cpu", **options)


def change_json(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def vocabulary(folder: Path) -> dict[str, int]:
    return json.loads((folder / "vocab.json").read_text())


def test_options_it_has_no_use_for_are_refused(folder: Path) -> None:
    for option in ("tokenizer", "pixels", "text_encoder"):
        with pytest.raises(RowcastError, match=f"no option model.{option} for model emu3, found 'x'"):
            load(folder, **{option: "x"})
    with pytest.raises(
        RowcastError, match=r"a size of model emu3, found '720x720': .* one of 40x40, .*48x32"
    ):
        load(folder, size="720x720")


def test_missing_files_are_named(copy: Path) -> None:
    with pytest.raises(RowcastError, match=r"weights for emu3, found none: .* BAAI/Emu3-Gen-hf"):
        load_backbone("emu3")
    (copy / "model-00002-of-00022.safetensors").unlink()
    with pytest.raises(RowcastError, match=r"expected loadable weights .*model-00002-of-00022"):
        load(copy)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        (copy / name).unlink()
        with pytest.raises(RowcastError, match=name):
            load(copy)


def test_a_truncated_shard_is_refused(copy: Path) -> None:
    shard = copy / "model-00003-of-00022.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(
        RowcastError, match=r"expected loadable weights in .*, found .*: fetch or save"
    ) as caught:
        load(copy)
    assert "\n" not in str(caught.value)


def test_a_missing_tensor_is_refused(copy: Path) -> None:
    index = json.loads((copy / "model.safetensors.index.json").read_text())
    place = index["weight_map"].pop("text_model.model.norm.weight")
    change_json(copy / "model.safetensors.index.json", **index)
    without(copy / place, "text_model.model.norm.weight")
    with pytest.raises(RowcastError, match=r"found none for model\.text_model\.norm\.weight"):
        load(copy)


def without(file: Path, name: str) -> None:
    tensors = load_file(file)
    del tensors[name]
    save_file(tensors, file, metadata={"format": "pt"})


def test_another_kind_of_model_is_refused(copy: Path) -> None:
    # As BAAI/Emu3-Gen has it.
    change_json(copy / "config.json", model_type="Emu3")
    with pytest.raises(RowcastError, match=r"model type 'emu3', found 'Emu3' .* BAAI/Emu3-Gen-hf"):
        load(copy)


def test_a_vocabulary_without_image_tokens_is_refused(copy: Path) -> None:
    known = vocabulary(copy)
    del known["<|visual token 000007|>"]
    change_json(copy / "config.json", vocabulary_map=known)
    with pytest.raises(RowcastError, match=r"48 image tokens .* found no <\|visual token 000007\|>"):
        load(copy)


def test_a_foreign_tokenizer_is_refused(copy: Path) -> None:
    known = vocabulary(copy)
    change_json(copy / "config.json", vocabulary_map=known | {"<|extra_200|>": known["<|extra_199|>"]})
    with pytest.raises(RowcastError, match=rf"id {ROW_END - 1} for <\|extra_200\|> .*, found {ROW_END} in"):
        load(copy)
    tokenizer = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(tokenizer.replace("<|extra_200|>", "<|other|>"))
    with pytest.raises(RowcastError, match=r"found no <\|extra_200\|>: use the tokenizer"):
        load(copy)
