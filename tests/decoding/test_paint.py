"""Images and sheets on disk."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from backbones.errors import RowcastError
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise
from decoding.paint import GAP, paint, sheet
from tests.backbones.tiny import tiny_backbone

pytestmark = pytest.mark.unit


def run(out, prompts=("a red shoe",), images=1, batch=16, seed=0):
    backbone = tiny_backbone(4, 4)
    method = build_method("ar", {}, None)
    return paint(
        backbone, method, prompts, images=images, seed=seed, batch=batch, sampling=backbone.sampling, out=out
    )


def pixels(path):
    return np.asarray(Image.open(path))


def test_one_image_is_the_decoded_tokens_enlarged(tmp_path):
    painting = run(tmp_path / "new" / "shoe.png")
    backbone = tiny_backbone(4, 4)
    noise = Noise(0, ["a red shoe"], [0])
    tokens = generate(backbone, ["a red shoe"], build_method("ar", {}, None), noise).tokens
    small = backbone.decode(tokens)[0].permute(1, 2, 0).numpy()
    large = pixels(painting.path)
    assert large.shape == (256, 256, 3)
    assert (large[::64, ::64] == small).all()
    assert (painting.images, painting.forwards) == (1, 16)
    assert [path.name for path in painting.path.parent.iterdir()] == ["shoe.png"]


def test_an_image_of_a_sheet_does_not_depend_on_batches_or_company(tmp_path):
    whole = pixels(run(tmp_path / "a.png", ("x", "y"), images=3, batch=16).path)
    parts = pixels(run(tmp_path / "b.png", ("x", "y"), images=3, batch=2).path)
    alone = pixels(run(tmp_path / "c.png", ("y",), images=1).path)
    assert (whole == parts).all()
    assert whole.shape == (2 * 256 + GAP, 3 * 256 + 2 * GAP, 3)
    assert (whole[256 + GAP :, :256] == alone).all(), "one row a prompt"


def test_a_repeated_prompt_gets_further_samples(tmp_path):
    repeated = pixels(run(tmp_path / "a.png", ("x", "x")).path)
    assert (repeated == pixels(run(tmp_path / "b.png", ("x",), images=2).path)).all()
    assert (repeated[:, :256] != repeated[:, 256 + GAP :]).any()


def test_a_sheet_that_would_fill_the_memory_is_refused(tmp_path):
    with pytest.raises(RowcastError, match="at most 16384 images with size=256, found 6000000000: lower"):
        run(tmp_path / "a.png", ("x", "y"), images=3_000_000_000)


def test_sheet_leaves_unpainted_places_white():
    canvas = sheet([torch.zeros(3, 256, 256, dtype=torch.uint8)], columns=2, rows=2, size=256)
    assert canvas.shape == (3, 512 + GAP, 512 + GAP)
    assert canvas[:, :256, :256].max() == 0
    assert canvas[:, 256:].min() == canvas[:, :, 256:].min() == 255


def test_size_is_that_of_the_longest_side():
    wide = torch.zeros(3, 10, 20, dtype=torch.uint8)
    assert sheet([wide], columns=1, rows=1, size=100).shape == (3, 50, 100)
    assert sheet([wide], columns=1, rows=1, size=5).shape == (3, 10, 20), "never smaller than painted"


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("x.jpg", "expected a .png path, found .*set out=x.png"),
        ("file/x.png", "expected a folder .*file for x.png, found a file: set another out="),
        ("file/deep/x.png", "expected a folder .*file/deep for x.png, found a file"),
        ("folder.png", "found a folder"),
        ("/proc/x.png", "expected to write /proc/x.png, found"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, out, message):
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(RowcastError, match=message):
        run(tmp_path / out)


def test_a_full_disk_is_one_sentence_and_keeps_the_older_image(tmp_path, monkeypatch):
    out = run(tmp_path / "x.png").path
    before = out.read_bytes()
    Path(tmp_path / "x.png.partial").symlink_to("/dev/full")
    monkeypatch.setattr("decoding.paint.require_writable", lambda out: None)
    with pytest.raises(RowcastError, match="No space left on device"):
        run(out, seed=1)
    assert out.read_bytes() == before
    assert not (tmp_path / "x.png.partial").exists()
