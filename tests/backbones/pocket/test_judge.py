"""The judge reads real images right, and the shipped model paints what it is asked for."""

import pytest
import torch

from backbones.pocket.judge import (
    SHEET_COLUMNS,
    colours,
    features,
    garment_and_colours,
    real_test_images,
    write_sheet,
)
from backbones.pocket.photographs import COLOUR_NAMES, draw_colours, parse_caption, tint
from backbones.pocket.pretrain import SEED, SHEET_IMAGES
from backbones.pocket.schedule import batch_generator
from backbones.registry import load_backbone
from decoding.engine import generate
from decoding.methods import build_method
from decoding.noise import Noise

PROMPTS = (
    "a red sneaker on blue",
    "white trousers on black",
    "a green bag on pink",
    "an orange dress on cyan",
    "a blue boot on yellow",
    "a purple pullover on white",
    "a cyan sandal on red",
    "a black t-shirt on orange",
)


@pytest.mark.unit
def test_colours_of_a_painted_square():
    grey = torch.zeros(1, 28, 28, dtype=torch.uint8)
    grey[:, 8:20, 8:20] = 160
    orange, white = torch.tensor([COLOUR_NAMES.index("orange")]), torch.tensor([COLOUR_NAMES.index("white")])
    image = (255 * tint(grey, orange, white)).round().to(torch.uint8)
    assert [index.item() for index in colours(image)] == [orange.item(), white.item()]


@pytest.mark.unit
def test_an_image_without_a_garment_shows_its_background_twice():
    image = torch.full((1, 3, 32, 32), 245, dtype=torch.uint8)
    white = COLOUR_NAMES.index("white")
    assert [index.item() for index in colours(image)] == [white, white]


@pytest.mark.unit
def test_a_sheet_reads_back(tmp_path):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (2 * SHEET_COLUMNS, 3, 32, 32), generator=generator, dtype=torch.uint8)
    write_sheet(images, tmp_path / "real_test_images.png")
    assert torch.equal(real_test_images(tmp_path), images)


@pytest.mark.integration
def test_colours_of_the_real_test_images():
    wanted = draw_colours(SHEET_IMAGES, batch_generator(SEED + 30, 0))
    found = colours(real_test_images())
    for right, shown in zip(wanted, found, strict=True):
        assert (right == shown).float().mean() > 0.97


@pytest.mark.integration
def test_the_shipped_model_paints_what_it_is_asked_for():
    backbone = load_backbone("pocket", device="cpu")
    prompts = [prompt for prompt in PROMPTS for _ in range(4)]
    noise = Noise(5, prompts, list(range(len(prompts))))
    images = backbone.decode(generate(backbone, prompts, build_method("ar", {}, None), noise).tokens)
    wanted = torch.tensor([parse_caption(prompt) for prompt in prompts]).T
    right = (torch.stack(garment_and_colours(images)) == wanted).float().mean(1)
    # Chance is a tenth; the card's figures on 1,000 prompts are well above these.
    assert (right > torch.tensor([0.6, 0.85, 0.85])).all(), right
    assert features(backbone, images).shape == (len(prompts), 512)
