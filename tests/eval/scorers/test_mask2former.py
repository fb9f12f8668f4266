"""The detector: preparation and read-out as mmdet's, by hand; the model through its real loading path."""

import numpy as np
import pytest
import torch
from PIL import Image

from backbones.errors import RowcastError
from eval.scorers.backends import mask2former
from eval.scorers.backends.mask2former import MEAN, SPREAD, Mask2Former, extent, prepare
from eval.scorers.geneval import CLASS_NAMES
from tests.eval.scorers.tiny_models import place, save_mask2former

pytestmark = pytest.mark.unit


def test_the_shorter_side_is_800_the_longer_1333_at_most_padded_to_32():
    prepared, inner = prepare(torch.zeros(1, 3, 384, 384))
    assert (inner, prepared.shape[-2:]) == ((800, 800), (800, 800))
    prepared, inner = prepare(torch.zeros(1, 3, 60, 90))
    assert (inner, tuple(prepared.shape[-2:])) == ((800, 1200), (800, 1216))
    assert (prepared[..., 1200:] == 0).all(), "padding comes after the normalisation"
    prepared, inner = prepare(torch.zeros(1, 3, 60, 180))
    assert (inner, tuple(prepared.shape[-2:])) == ((444, 1333), (448, 1344))


def test_values_are_normalised_by_channel():
    image = torch.tensor(MEAN).view(1, 3, 1, 1) + torch.tensor(SPREAD).view(1, 3, 1, 1)
    assert torch.allclose(prepare(image.expand(1, 3, 80, 80))[0], torch.tensor(1.0), atol=1e-5)


def logits(*rows):
    """Class logits of queries from {class: probability}, the rest to no object."""
    whole = torch.full((len(rows), 81), 1e-12)
    for query, row in enumerate(rows):
        for name, probability in row.items():
            whole[query, CLASS_NAMES.index(name)] = probability
        whole[query, 80] = 1 - sum(row.values())
    return whole.log()


def instances(classes, masks, size):
    """Read out where the detector's input is as large as the image."""
    return mask2former.instances(classes, masks, size, size, size)


def test_padding_is_cut_off_before_masks_are_resized():
    masks = torch.full((1, 4, 4), -1.0)
    masks[0, :, :2] = 1.0
    (found,) = mask2former.instances(logits({"cat": 0.9}), masks, (8, 8), (8, 4), (6, 6))
    assert found.mask.all(), "the padded half is gone"
    assert found.box == (0, 0, 6, 6)
    (found,) = mask2former.instances(logits({"cat": 0.9}), masks, (8, 8), (8, 8), (6, 6))
    assert found.box == (0, 0, 3, 6)


def test_score_is_probability_times_quality_of_the_mask():
    masks = torch.full((2, 4, 4), -5.0)
    masks[0, 1:3, 1:4] = 2.0
    masks[1, 0, 0] = 1.0
    found = instances(logits({"cat": 0.9}, {"dog": 0.5}), masks, (4, 4))
    assert [each.name for each in found] == ["cat", "dog"]
    assert found[0].score == pytest.approx(0.9 * torch.tensor(2.0).sigmoid().item(), rel=1e-5)
    assert found[1].score == pytest.approx(0.5 * torch.tensor(1.0).sigmoid().item(), rel=1e-5)
    assert found[0].box == (1, 1, 4, 3), "right and bottom are outside"
    assert np.array_equal(found[0].mask, masks[0].numpy() > 0)


def test_one_query_may_be_two_classes_and_no_object_is_none():
    found = instances(logits({"cat": 0.45, "dog": 0.4}, {}), torch.ones(2, 4, 4), (4, 4))
    assert [each.name for each in found] == ["cat", "dog"]


def test_masks_are_cut_at_the_image_s_own_size():
    masks = torch.tensor([[[4.0, -4.0], [-4.0, -4.0]]])
    (found,) = instances(logits({"cat": 0.9}), masks, (8, 8))
    upsampled = torch.nn.functional.interpolate(masks[None], (8, 8), mode="bilinear", align_corners=False)[
        0, 0
    ]
    assert np.array_equal(found.mask, upsampled.numpy() > 0)
    assert 0 < found.mask.sum() < 16


def test_an_empty_mask_has_no_score():
    (found,) = instances(logits({"cat": 0.9}), torch.full((1, 4, 4), -1.0), (4, 4))
    assert (found.score, found.box) == (0, (0, 0, 0, 0))
    assert extent(np.zeros((3, 3), bool)) == (0, 0, 0, 0)


def test_only_the_100_most_probable_pairs_are_looked_at():
    rows = [{"cat": 0.4, "dog": 0.35} for _ in range(60)]
    found = instances(logits(*rows), torch.ones(60, 2, 2), (2, 2))
    assert (len(found), sum(each.name == "cat" for each in found)) == (100, 60)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    return Mask2Former(place(save_mask2former(tmp_path_factory.mktemp("m") / "tiny"), "detector"))


def test_a_model_detects_alike_alone_and_in_a_batch(detector, monkeypatch):
    monkeypatch.setattr("eval.scorers.backends.mask2former.SHORTER", 64)
    monkeypatch.setattr("eval.scorers.backends.mask2former.THRESHOLD", 0.0)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 48, 48, 3), dtype=np.uint8)
    images = [Image.fromarray(each) for each in pixels] + [Image.new("RGB", (64, 32))]
    together = detector.detect(images)
    alone = [detector.detect([image])[0] for image in images]
    assert [len(found) for found in together] == [100, 100, 100]
    for one, other in zip(together, alone, strict=True):
        assert sorted(each.score for each in one) == pytest.approx(
            sorted(each.score for each in other), abs=1e-4
        )
    assert together[2][0].mask.shape == (32, 64)
    assert detector.name == "hf-tiny"


def test_a_model_of_other_classes_is_refused(tmp_path):
    folder = save_mask2former(tmp_path / "few", labels=3)
    with pytest.raises(RowcastError, match=r"COCO's 80 classes.*found 3"):
        Mask2Former(place(folder, "detector"))
