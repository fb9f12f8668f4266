"""Captions through a T5 encoder: against the padded batches of the published code, kept and refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import T5EncoderModel

from backbones import caption_features
from backbones.caption_features import LONGEST, StandInCaptions, T5Captions, read_captions
from backbones.errors import RowcastError
from tests.backbones.checkpoints.t5 import END, FEATURES, PIECES, UNKNOWN, write_t5

pytestmark = pytest.mark.unit

CAPTIONS = ["a Red cube", "a cat on blue, with 12 red cubes", "a cat " * 100, "cat \U0001f63a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("t5") / "flan-t5-xl"
    write_t5(folder)
    return folder


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> T5EncoderModel:
    return T5EncoderModel.from_pretrained(folder).eval()


@pytest.fixture
def captions(folder: Path) -> T5Captions:
    return read_captions(str(folder), torch.float32)[0]


def test_ids(captions):
    start = 3
    spelled = [start + PIECES.index(piece) for piece in ("▁a", "▁", "r", "e", "d")]
    assert captions.ids("A  Red!") == [*spelled, start + PIECES.index("!"), END]
    assert captions.ids("***a (red)") == [*spelled, END]
    long = captions.ids("a cat " * 100)
    assert len(long) == LONGEST
    assert long[-1] == END
    assert UNKNOWN in captions.ids("cat \U0001f63a")


@torch.no_grad()
def test_features_are_those_of_a_padded_batch(captions, encoder):
    """The published code pads all captions to 120 tokens on the right and masks the padding."""
    ids = [captions.ids(caption) for caption in CAPTIONS]
    padded = torch.tensor([row + [0] * (LONGEST - len(row)) for row in ids])
    mask = torch.tensor([[1] * len(row) + [0] * (LONGEST - len(row)) for row in ids])
    expected = encoder(input_ids=padded, attention_mask=mask).last_hidden_state
    assert len({len(row) for row in ids}) > 2
    for caption, row, features in zip(CAPTIONS, ids, expected, strict=True):
        found = captions.features(caption)
        assert found.shape == (len(row), FEATURES)
        assert torch.allclose(found, features[: len(row)], rtol=0, atol=1e-5)
        assert not torch.allclose(
            encoder(input_ids=padded[:1]).last_hidden_state[0, :4], expected[0, :4], atol=0.1
        )


def test_features_are_kept_by_text(captions, monkeypatch):
    calls = []
    captions._encoder.register_forward_hook(lambda *_: calls.append(1))
    first = captions.features("a red cube")
    assert captions.features(" A  red cube") is first
    assert len(calls) == 1
    assert not torch.equal(captions.features("a red cat"), first)
    monkeypatch.setattr(caption_features, "KEPT", 2)
    captions.features("a red cube")  # now the most recent
    captions.features("a blue cube")
    assert list(captions._features) == ["a red cube", "a blue cube"]
    captions.forget()
    assert captions._features == {}
    assert torch.equal(captions.features("a red cube"), first)


def test_precision(folder):
    assert read_captions(str(folder), torch.bfloat16)[0].features("a cat").dtype == torch.bfloat16


def test_special_tokens_are_refused(captions):
    assert captions.ids("a <pad> cat") == captions.ids("a cat")  # the cleaning takes markup out
    with pytest.raises(RowcastError, match="expected plain words, found a special token in '%2526lt;pad"):
        captions.features("%2526lt;pad%2526gt; a cat")  # it comes to light after the last look at markup


def test_missing_files_are_named(copy):
    with pytest.raises(
        RowcastError, match=r"expected a folder or a hub id, found '.*nowhere'.*model\.text_encoder"
    ):
        read_captions(str(copy / "nowhere"), torch.float32)
    for name in ("tokenizer.json", "config.json"):
        (copy / name).unlink()
        with pytest.raises(RowcastError, match=f"{name}.*point model.text_encoder at"):
            read_captions(str(copy), torch.float32)


def test_missing_and_truncated_weights_are_refused(copy):
    shard = min(copy.glob("model-*.safetensors"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    with pytest.raises(RowcastError, match="expected loadable weights"):
        read_captions(str(copy), torch.float32)
    shard.write_bytes(whole)
    index = json.loads((copy / "model.safetensors.index.json").read_text())
    name = "encoder.block.1.layer.0.SelfAttention.q.weight"
    holder = copy / index["weight_map"].pop(name)
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    tensors = load_file(holder)
    del tensors[name]
    save_file(tensors, holder, metadata={"format": "pt"})
    with pytest.raises(RowcastError, match=f"found none for {name}"):
        read_captions(str(copy), torch.float32)


def test_another_model_is_refused(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "llama"}))
    with pytest.raises(RowcastError, match=r"model type 't5', found 'llama' .*google/flan-t5-xl"):
        read_captions(str(copy), torch.float32)


def test_another_tokenizer_is_refused(copy):
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": None}))
    with pytest.raises(RowcastError, match=r"a tokenizer that ends captions with </s>, found another"):
        read_captions(str(copy), torch.float32)


def test_stand_ins_depend_on_the_words_alone():
    captions = StandInCaptions(16)
    cube, cat = captions.features("a red cube"), captions.features("a Red  cat")
    assert cube.shape == (4, 16)
    assert torch.equal(cube[:2], cat[:2])
    assert not torch.equal(cube[2], cat[2])
    assert torch.equal(cube[3], cat[3])  # the end
    assert len(captions.features("a cat " * 100)) == LONGEST
    assert torch.equal(StandInCaptions(16).features("a red cube"), cube)
