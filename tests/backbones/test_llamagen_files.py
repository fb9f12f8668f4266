"""LlamaGen's files: every layout that was published, sizes by name, and what is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from backbones.contract import Grid
from backbones.errors import RowcastError
from backbones.registry import load_backbone
from tests.backbones.checkpoints.llamagen import (
    LAYOUTS,
    caption_tensors,
    class_tensors,
    save,
    write_llamagen_c2i,
    write_llamagen_t2i,
)
from tests.backbones.checkpoints.t5 import FEATURES
from tests.backbones.walk import images

pytestmark = pytest.mark.unit

Options = dict[str, Any]


@pytest.fixture(scope="module")
def c2i(tmp_path_factory: pytest.TempPathFactory) -> Options:
    return write_llamagen_c2i(tmp_path_factory.mktemp("c2i"))


@pytest.fixture(scope="module")
def t2i(tmp_path_factory: pytest.TempPathFactory) -> Options:
    return write_llamagen_t2i(tmp_path_factory.mktemp("t2i"))


def test_all_layouts_are_the_same_model(c2i, tmp_path):
    expected = load_backbone("llamagen_c2i", device="cpu", **c2i).fingerprint
    for layout in LAYOUTS:
        save(class_tensors(), tmp_path / "c2i_B_256.pt", layout)
        again = load_backbone("llamagen_c2i", device="cpu", path=str(tmp_path / "c2i_B_256.pt"))
        assert again.fingerprint == expected
        assert not again.paints


def test_the_file_may_go_after_loading(tmp_path):
    options = write_llamagen_c2i(tmp_path)
    backbone = load_backbone("llamagen_c2i", device="cpu", **options)
    before = backbone.begin(backbone.encode(["3"])).logits
    path = Path(options["path"])
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert torch.equal(backbone.begin(backbone.encode(["3"])).logits, before)


@pytest.mark.parametrize(
    ("name", "size", "side"),
    [
        ("c2i_B_256.pt", None, 16),
        ("c2i_B_384.pt", None, 24),
        ("c2i_B_512.pt", "512x512", 32),
        ("my.pt", "384x384", 24),
    ],
)
def test_sizes(tmp_path, name, size, side):
    path = write_llamagen_c2i(tmp_path, name=name)["path"]
    backbone = load_backbone("llamagen_c2i", device="cpu", path=path, size=size)
    assert backbone.grid == Grid(rows=side, cols=side)
    assert backbone._trunk.rotary_emb.cos.shape == (side * side + 1, 64)


@pytest.mark.parametrize(
    ("model", "name", "size", "message"),
    [
        (
            "llamagen_c2i",
            "my.pt",
            None,
            r"size in the file's name .*found '.*my\.pt': pass .*256x256, 384x384, 512x512",
        ),
        ("llamagen_c2i", "c2i_B_256.pt", "384x384", r"images of 256x256 from .*found model\.size=384x384"),
        ("llamagen_c2i", "c2i_B_256.pt", "256x384", r"a size of model llamagen_c2i, found '256x384'"),
        (
            "llamagen_t2i",
            "t2i_XL_384.pt",
            None,
            r"a size of model llamagen_t2i, found '384x384': .*256x256, 512x512",
        ),
    ],
)
def test_other_sizes_are_refused(model, name, size, message):
    with pytest.raises(RowcastError, match=message):
        load_backbone(model, device="cpu", path=f"/nowhere/{name}", size=size)


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ("llamagen_c2i", {"path": None}, r"found none: pass model\.path, .*c2i_B_256\.pt"),
        ("llamagen_c2i", {"text_encoder": "x"}, r"no option model\.text_encoder for model llamagen_c2i"),
        ("llamagen_c2i", {"tokenizer": "x"}, r"no option model\.tokenizer"),
        (
            "llamagen_c2i",
            {"path": "gone_256.pt"},
            r"expected a file, .*found 'gone_256\.pt': check model\.path",
        ),
        ("llamagen_c2i", {"pixels": "gone.pt"}, r"found 'gone\.pt': check model\.pixels"),
        ("llamagen_t2i", {"text_encoder": None}, r"found none: pass model\.text_encoder=google/flan-t5-xl"),
        ("llamagen_t2i", {"text_encoder": "gone"}, r"found 'gone' .*check model\.text_encoder"),
    ],
)
def test_options_are_checked(c2i, t2i, model, changes, message):
    options = (c2i if model == "llamagen_c2i" else t2i) | changes
    with pytest.raises(RowcastError, match=message):
        load_backbone(model, device="cpu", **options)


def test_the_other_model_is_refused(c2i, t2i, tmp_path):
    for model, options, path, other in (("c2i", c2i, t2i["path"], "t2i"), ("t2i", t2i, c2i["path"], "c2i")):
        taken = options | {"path": shutil.copy(path, tmp_path / f"{model}_256.pt")}
        message = rf"weights of llamagen_{model}, found no cls_embedding\..*: pass model=llamagen_{other}"
        with pytest.raises(RowcastError, match=message):
            load_backbone(f"llamagen_{model}", device="cpu", **taken | {"path": str(taken["path"])})


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("uncond_embedding", torch.ones(7, FEATURES), r"\(120, 32\) for .*, found \(7, 32\)"),
        ("cap_proj.fc1.weight", torch.ones(128, 9), r"\(120, 9\) for .*uncond_embedding, found \(120, 32\)"),
        ("cap_proj.fc2.weight", torch.ones(128, 9), r"\(128, 128\) for .*fc2\.weight, found \(128, 9\)"),
        ("cap_proj.fc2.weight", None, r"found no cls_embedding\.cap_proj\.fc2\.weight"),
    ],
)
def test_captions_need_all_their_tensors(t2i, tmp_path, name, tensor, message):
    changed = caption_tensors() | {f"cls_embedding.{name}": tensor}
    save({n: t for n, t in changed.items() if t is not None}, tmp_path / "t2i_256.pt", "model")
    with pytest.raises(RowcastError, match=message):
        load_backbone("llamagen_t2i", device="cpu", **t2i | {"path": str(tmp_path / "t2i_256.pt")})


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("cls_embedding.embedding_table", torch.ones(11, 64), r"expected \(11, 128\) for {name}"),
        ("cls_embedding.embedding_table", torch.ones(1, 128), r"expected \(2, 128\) for {name}"),
        ("cls_embedding.embedding_table", torch.ones(11), r"a matrix .* for {name}, found \[11\] of float32"),
        ("tok_embeddings", torch.tensor(1.0), r"a matrix .* for {name}, found \[\] of float32"),
        ("layers.0.feed_forward.w1", torch.tensor(1.0), r"a matrix .* for {name}, found \[\] of float32"),
        ("output", torch.ones(48, 128, dtype=torch.int8), r"a matrix .* for {name}, found .* of int8"),
        (
            "output",
            1j * torch.ones(48, 128),
            r"a matrix .* for {name}, found .* of complex64",
        ),
        ("output", torch.ones(48, 128).to_sparse(), r"found {name} without plain numbers"),
        ("output", torch.ones(48, 128, device="meta"), r"found {name} without plain numbers"),
    ],
)
def test_tensors_of_another_form_are_refused(tmp_path, name, tensor, message):
    save(class_tensors() | {f"{name}.weight": tensor}, tmp_path / "c2i_256.pt", "model")
    with pytest.raises(RowcastError, match=message.format(name=f"{name}.weight".replace(".", r"\."))):
        load_backbone("llamagen_c2i", device="cpu", path=str(tmp_path / "c2i_256.pt"))


def test_an_empty_size_is_no_size(c2i):
    with pytest.raises(RowcastError, match="found '': pass"):
        load_backbone("llamagen_c2i", device="cpu", **c2i | {"size": ""})


def test_another_text_encoder_is_refused(t2i, tmp_path):
    tensors = caption_tensors()
    for name in ("cls_embedding.uncond_embedding", "cls_embedding.cap_proj.fc1.weight"):
        tensors[name] = tensors[name][:, :20]
    save(tensors, tmp_path / "t2i_256.pt", "model")
    with pytest.raises(
        RowcastError, match=r"features 20 wide, found 32 in .*flan-t5-xl: pass google/flan-t5-xl"
    ):
        load_backbone("llamagen_t2i", device="cpu", **t2i | {"path": str(tmp_path / "t2i_256.pt")})


def test_without_a_vq_tokens_are_all(c2i):
    backbone = load_backbone("llamagen_c2i", device="cpu", path=c2i["path"])
    assert not backbone.paints
    for use in (backbone.codebook, lambda: backbone.decode(images(backbone, 1))):
        with pytest.raises(RowcastError, match=r"pass model\.pixels with .*vq_ds16_c2i\.pt"):
            use()
