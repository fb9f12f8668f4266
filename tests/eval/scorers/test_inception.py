"""The Inception network: names and shapes of the published file, its two departures, and its loader."""

import pytest
import torch
from safetensors.torch import save_file

from backbones.errors import RowcastError
from eval.scorers.backends.inception import Inception, Mixed
from eval.scorers.backends.inception_weights import load_inception
from tests.eval.scorers.tiny_models import place

pytestmark = pytest.mark.unit


def random_weights():
    """Random weights, and statistics that keep values in range."""
    torch.manual_seed(0)
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in Inception().state_dict().items()}
    tensors = {}
    for name, shape in shapes.items():
        if name.endswith("num_batches_tracked"):
            continue
        if name.endswith("conv.weight"):
            tensors[name] = torch.randn(shape) * (2 / shape[1:].numel()) ** 0.5
        else:
            tensors[name] = torch.ones(shape) if name.endswith(("bn.weight", "var")) else torch.zeros(shape)
    return tensors


@pytest.fixture(scope="module")
def weights():
    return random_weights() | {"fc.weight": torch.zeros(1008, 2048), "fc.bias": torch.zeros(1008)}


def test_the_parameters_are_those_of_inception_v3_without_classifier():
    with torch.device("meta"):
        model = Inception()
    assert sum(parameter.numel() for parameter in model.parameters()) == 21_785_568
    names = set(model.state_dict())
    for name, shape in {
        "Conv2d_1a_3x3.conv.weight": (32, 3, 3, 3),
        "Mixed_5b.branch5x5_2.conv.weight": (64, 48, 5, 5),
        "Mixed_5d.branch_pool.bn.running_var": (64,),
        "Mixed_6a.branch3x3dbl_3.conv.weight": (96, 96, 3, 3),
        "Mixed_6c.branch7x7dbl_2.conv.weight": (160, 160, 7, 1),
        "Mixed_6e.branch7x7_2.conv.weight": (192, 192, 1, 7),
        "Mixed_7a.branch7x7x3_4.conv.weight": (192, 192, 3, 3),
        "Mixed_7c.branch3x3dbl_3b.conv.weight": (384, 384, 3, 1),
    }.items():
        assert name in names
        assert tuple(model.state_dict()[name].shape) == shape


def test_sizes_inside_are_the_published_ones():
    sizes = {}
    with torch.device("meta"):
        model = Inception().eval()
        for name, child in model.named_children():
            child.register_forward_hook(
                lambda _, __, out, name=name: sizes.update({name: tuple(out.shape[1:])})
            )
        features = model(torch.zeros(2, 3, 299, 299))
    assert tuple(features.shape) == (2, 2048)
    assert sizes["pool_1"] == (64, 73, 73)
    assert sizes["pool_2"] == (192, 35, 35)
    assert [sizes[f"Mixed_5{x}"] for x in "bcd"] == [(256, 35, 35), (288, 35, 35), (288, 35, 35)]
    assert {sizes[f"Mixed_6{x}"] for x in "abcde"} == {(768, 17, 17)}
    assert [sizes[f"Mixed_7{x}"] for x in "abc"] == [(1280, 8, 8), (2048, 8, 8), (2048, 8, 8)]


@pytest.mark.parametrize(("pool", "expected"), [("average", 4.5), ("maximum", 9.0)])
def test_averages_leave_the_padding_out_and_the_last_block_takes_the_maximum(pool, expected):
    block = Mixed(1, [], pool, pooled=1).eval()
    torch.nn.init.ones_(block.branch_pool.conv.weight)
    image = torch.zeros(1, 1, 4, 4)
    image[0, 0, 0, :2] = 9.0  # the corner's window holds four cells: 9, 9, 0, 0
    assert block(image)[0, 0, 0, 0].item() == pytest.approx(expected, rel=1e-3)


def test_the_network_uses_those_pools():
    model = Inception()
    assert {name for name, block in model.named_children() if getattr(block, "pool", "") == "maximum"} == {
        "Mixed_7c"
    }


def test_a_file_is_loaded_by_name_and_used(weights, tmp_path):
    torch.save(weights, tmp_path / "w.pth")
    model, digest = load_inception(place(tmp_path / "w.pth", "inception"))
    assert len(digest) == 64
    held = model.state_dict()
    assert all(
        torch.equal(held[name], tensor) for name, tensor in weights.items() if not name.startswith("fc.")
    )
    image = torch.rand(1, 3, 299, 299) * 2 - 1
    with torch.inference_mode():
        features = model(image)
        assert features.shape == (1, 2048)
        assert features.isfinite().all()
        assert features.std() > 0
        assert not torch.allclose(features, model(-image))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda w: w.pop("Mixed_6b.branch7x7_1.conv.weight"),
            r"found none for Mixed_6b\.branch7x7_1\.conv\.weight",
        ),
        (lambda w: w.update({"extra.weight": torch.zeros(1)}), r"found one for extra\.weight"),
        (
            lambda w: w.update({"Mixed_6c.branch7x7dbl_2.conv.weight": torch.zeros(160, 160, 1, 7)}),
            r"of shape \[160, 160, 7, 1\], found \[160, 160, 1, 7\]",
        ),
    ],
)
def test_other_files_are_refused(weights, change, message, tmp_path):
    changed = {name: tensor.to(torch.bfloat16) for name, tensor in weights.items()}
    change(changed)
    save_file(changed, tmp_path / "w.safetensors")
    with pytest.raises(RowcastError, match=message):
        load_inception(place(tmp_path / "w.safetensors", "inception"))


def test_a_compiled_program_is_refused(tmp_path):
    (tmp_path / "w.pt").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(RowcastError, match="expected a file of tensors as"):
        load_inception(place(tmp_path / "w.pt", "inception"))
    with pytest.raises(RowcastError, match="expected a file, or organisation/repository/file"):
        load_inception(place(tmp_path / "none.pth", "inception"))
