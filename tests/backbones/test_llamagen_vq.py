"""LlamaGen's image tokenizer under Janus's names: pixels against a second implementation, refusals."""

import pytest
import torch

from backbones.contract import Grid
from backbones.errors import RowcastError
from backbones.llamagen_vq import published_vq, read_vq
from tests.backbones.checkpoints.llamagen import CODES, save, vq_tensors
from tests.backbones.llamagen_reference import pixels

pytestmark = pytest.mark.unit

GRID = Grid(rows=4, cols=4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "vq_ds16_c2i.pt"


@torch.no_grad()
def test_pixels(path):
    tensors = vq_tensors()
    save(tensors, path, "model")
    vq = read_vq(path, GRID, CODES)
    codes = torch.randint(CODES, (2, GRID.size), generator=torch.Generator().manual_seed(0))
    painted = vq.decode(codes)
    assert painted.shape == (2, 3, 64, 64)
    for image, row in zip(painted, codes, strict=True):
        expected = pixels(tensors, row, 4)
        assert torch.allclose(image, expected, rtol=0, atol=1e-4)
        assert expected.std() > 0.1


@torch.no_grad()
def test_every_tensor_of_the_encoder_arrives(path):
    """The decoder says nothing about the encoder, so its tensors are compared one by one."""
    tensors = vq_tensors()
    save(tensors, path, "bare")
    vq = read_vq(path, GRID, CODES)
    held = {tensor.double().sum().item(): tensor for tensor in vq.state_dict().values()}
    for name, tensor in tensors.items():
        assert "codebook_used" in name or torch.equal(held[tensor.double().sum().item()], tensor)
    assert len(held) == len(tensors) - 1
    assert vq.encoder.down[4].attn[0].q.weight.equal(tensors["encoder.conv_blocks.4.attn.0.q.weight"])


def test_the_published_shape():
    with torch.device("meta"):
        vq = published_vq(Grid(rows=16, cols=16))
    assert round(sum(p.numel() for p in vq.parameters()) / 1e6) == 72
    assert vq.quantize.embedding.weight.shape == (16_384, 8)


@pytest.mark.parametrize(
    ("tensors", "codes", "message"),
    [
        (vq_tensors(levels=4), CODES, "48 codes and 16 pixels a token, found 48 codes and 8 pixels"),
        (vq_tensors(), 99, "99 codes and 16 pixels a token, found 48 codes and 16 pixels"),
        ({"layers.0.norm": torch.ones(2)}, CODES, r"LlamaGen VQ, found no encoder\.conv_in\.weight"),
        (
            {n: t for n, t in vq_tensors().items() if n != "decoder.mid.1.q.bias"},
            CODES,
            r"found Missing key\(s\) in state_dict: .decoder\.mid\.attn_1\.q\.bias",
        ),
        (
            vq_tensors() | {"decoder.conv_out.bias": torch.ones(4)},
            CODES,
            r"size mismatch for decoder\.conv_out\.bias",
        ),
        (
            vq_tensors() | {"decoder.other": torch.ones(4)},
            CODES,
            r"Unexpected key\(s\) in state_dict: .decoder\.other",
        ),
    ],
    ids=["8 pixels", "codes", "foreign", "missing", "shape", "more"],
)
def test_refusals(path, tensors, codes, message):
    save(tensors, path, "model")
    with pytest.raises(RowcastError, match=message) as error:
        read_vq(path, GRID, codes)
    assert "\n" not in str(error.value)
    assert "model.pixels" in str(error.value)
