"""Chameleon's pixel decoder against a second implementation, from every place its weights come from."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from backbones.chameleon_vq import ChameleonPixels, find_pixels, published_pixels, read_pixels
from backbones.errors import RowcastError
from tests.backbones.checkpoints.chameleon import CODES, vq_tensors, write_shards
from tests.backbones.taming import taming_pixels

pytestmark = pytest.mark.unit

TENSORS = vq_tensors()


@pytest.fixture(scope="module")
def codes() -> Tensor:
    return torch.randint(CODES, (2, 3, 4), generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module")
def expected(codes: Tensor) -> Tensor:
    return taming_pixels(TENSORS, codes)


def find(tensors: dict[str, Tensor]) -> ChameleonPixels | None:
    return find_pixels(tensors, tensors.__getitem__, "memory")


def close(pixels: ChameleonPixels | None, codes: Tensor, expected: Tensor) -> bool:
    assert pixels is not None
    with torch.no_grad():
        found = pixels(codes)
    assert found.shape == expected.shape == (2, 3, 48, 64)
    return torch.allclose(found, expected, rtol=0, atol=1e-4)


def test_pixels_are_the_originals(codes: Tensor, expected: Tensor) -> None:
    pixels = find(TENSORS)
    assert close(pixels, codes, expected)
    assert expected.std() > 0.1
    assert pixels is not None
    assert pixels.scale == 16
    assert torch.equal(pixels.codebook.weight, TENSORS["quantize.embedding.weight"])
    assert {weight.dtype for weight in pixels.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize("name", ["decoder.mid.attn_1.v.bias", "decoder.up.0.block.1.norm2.weight"])
def test_every_tensor_counts(name: str, codes: Tensor, expected: Tensor) -> None:
    assert not close(find(TENSORS | {name: TENSORS[name] + 0.5}), codes, expected)


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("channels", [(32,), (32, 96), (64, 64, 32)])
def test_the_shape_is_read_off_the_tensors(channels: tuple[int, ...], blocks: int) -> None:
    tensors = vq_tensors(channels, latent=4, depth=3, blocks=blocks)
    pixels = find(tensors)
    codes = torch.arange(4).view(1, 2, 2)
    assert pixels is not None
    assert pixels.scale == 2 ** (len(channels) - 1)
    assert torch.allclose(pixels(codes), taming_pixels(tensors, codes), rtol=0, atol=1e-4)


@pytest.mark.parametrize("prefix", ["model.vqmodel.", "vqmodel."])
def test_a_prefix_is_seen_through(prefix: str, codes: Tensor, expected: Tensor) -> None:
    tensors = {f"{prefix}{name}": tensor for name, tensor in TENSORS.items()}
    assert close(find(tensors | {"model.norm.weight": torch.zeros(1)}), codes, expected)


def test_every_published_place(codes: Tensor, expected: Tensor, tmp_path: Path) -> None:
    tensors = TENSORS | {"loss.logvar": torch.zeros(1)}
    places = [tmp_path / "model.safetensors", tmp_path / "vq.ckpt", tmp_path / "bare.pt"]
    save_file(tensors, places[0])
    torch.save({"state_dict": tensors, "epoch": 3}, places[1])
    torch.save(tensors, places[2])
    for folder in ("single", "several", "meta"):
        places.append(tmp_path / folder)
        places[-1].mkdir()
    save_file(tensors, tmp_path / "single" / "model.safetensors")
    write_shards(tmp_path / "several", tensors, 3)
    torch.save({"state_dict": tensors}, tmp_path / "meta" / "vqgan.ckpt")
    for place in places:
        assert close(read_pixels(str(place)), codes, expected)


def test_weights_in_bf16_are_held_in_fp32(codes: Tensor) -> None:
    coarse = {name: tensor.bfloat16() for name, tensor in TENSORS.items()}
    widened = {name: tensor.float() for name, tensor in coarse.items()}
    assert close(find(coarse), codes, taming_pixels(widened, codes))


def test_a_checkpoint_without_decoder_has_no_pixels(tmp_path: Path) -> None:
    encoder = {name: tensor for name, tensor in TENSORS.items() if not name.startswith("decoder.")}
    assert find(encoder) is None
    save_file(encoder, tmp_path / "model.safetensors")
    with pytest.raises(
        RowcastError, match=r"expected a VQ decoder .*, found none in .*model\.pixels with Meta"
    ):
        read_pixels(str(tmp_path))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"decoder.up.2.upsample.conv.weight": None}, "Missing key.*decoder.up.2.upsample.conv.weight"),
        ({"post_quant_conv.weight": None}, "no 'post_quant_conv.weight'"),
        ({"quantize.embedding.weight": None}, "no 'quantize.embedding.weight'"),
        ({"decoder.up.4.attn.0.q.weight": torch.zeros(64, 64, 1, 1)}, "Unexpected key.*attn.0.q.weight"),
        ({"decoder.conv_in.weight": torch.zeros(64, 9, 3, 3)}, "size mismatch for decoder.conv_in.weight"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(changed: dict[str, Tensor | None], message: str) -> None:
    tensors = {name: tensor for name, tensor in (TENSORS | changed).items() if tensor is not None}
    with pytest.raises(
        RowcastError, match=f"expected the tensors of a Chameleon VQ decoder, found .*{message}"
    ):
        find(tensors)


class Hostile:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("hostile",)


def test_files_that_are_no_tensors_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RowcastError, match=r"found '.*nowhere'.*check model\.pixels"):
        read_pixels(str(tmp_path / "nowhere"))
    with pytest.raises(RowcastError, match=r"expected model\.safetensors.*vqgan\.ckpt, found none in"):
        read_pixels(str(tmp_path))
    torch.save({"state_dict": Hostile()}, tmp_path / "hostile.ckpt")
    with pytest.raises(RowcastError, match=r"hostile\.ckpt.*model\.pixels"):
        read_pixels(str(tmp_path / "hostile.ckpt"))
    assert not (tmp_path / "hostile").exists()
    (tmp_path / "vqgan.ckpt").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(RowcastError, match=r"vqgan\.ckpt.*model\.pixels"):
        read_pixels(str(tmp_path))


def test_the_published_shape() -> None:
    """As many weights as the original decoder has."""
    with torch.device("meta"):
        pixels = published_pixels()
    assert pixels.scale == 16
    assert sum(weight.numel() for weight in pixels.decoder.parameters()) == 39_294_851
    assert pixels.codebook.weight.shape == (8192, 256)
