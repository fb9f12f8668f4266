"""Back ends that answer questions: through their real loading path, alike alone and in a batch."""

import numpy as np
import pytest
import torch
from PIL import Image

from backbones.errors import RowcastError
from eval.scorers.backends.blip import Blip
from eval.scorers.backends.vilt import Vilt
from eval.scorers.backends.vqa import load_vqa
from tests.eval.scorers.tiny_models import change_config, place, save_blip, save_clip, save_vilt

pytestmark = pytest.mark.unit

QUESTIONS = ["is there a book ?", "is the book red ?", "blue"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("vqa")
    return {"blip": save_blip(root / "Blip-VQA"), "vilt": save_vilt(root / "vilt")}


@pytest.fixture(scope="module")
def image():
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8))


@pytest.mark.parametrize(("name", "kind"), [("blip", Blip), ("vilt", Vilt)])
def test_the_back_end_is_chosen_by_the_model_and_answers_alike_alone_and_together(name, kind, folders, image):
    vqa = load_vqa(place(folders[name], "vqa"))
    assert isinstance(vqa, kind)
    together = vqa.yes(image, QUESTIONS)
    alone = [vqa.yes(image, [question])[0] for question in QUESTIONS]
    assert together == pytest.approx(alone, abs=1e-5)
    assert all(0 < chance < 1 for chance in together)
    assert len({round(chance, 6) for chance in together}) == 3
    assert vqa.yes(Image.new("RGB", (40, 40)), QUESTIONS) != together


def test_blip_s_answer_is_that_of_its_own_generation(folders, image):
    """The first word's logits of `generate`, which transformers runs for one question at a time."""
    vqa = load_vqa(place(folders["blip"], "vqa"))
    pixels = vqa.processor(images=image, return_tensors="pt")["pixel_values"]
    for question, chance in zip(QUESTIONS, vqa.yes(image, QUESTIONS), strict=True):
        asked = vqa.tokenizer(question, return_tensors="pt")
        made = vqa.model.generate(
            input_ids=asked["input_ids"],
            attention_mask=asked["attention_mask"],
            pixel_values=pixels,
            max_new_tokens=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
        yes, no = made.logits[0][0, vqa.words]
        assert chance == pytest.approx(torch.sigmoid(yes - no).item(), abs=1e-5)


def test_vilt_s_answer_is_that_of_its_own_forward(folders, image):
    vqa = load_vqa(place(folders["vilt"], "vqa"))
    seen = vqa.processor(images=image, return_tensors="pt")
    logits = vqa.model(**vqa.tokenizer(QUESTIONS[0], return_tensors="pt"), **seen).logits[0]
    assert vqa.answers == [2, 0]
    assert vqa.yes(image, QUESTIONS[:1])[0] == pytest.approx(
        torch.sigmoid(logits[2] - logits[0]).item(), abs=1e-5
    )


def test_the_protocol_is_called_after_the_model(folders):
    assert load_vqa(place(folders["blip"], "vqa")).name == "blip-vqa"


def test_other_models_are_refused(tmp_path, folders):
    with pytest.raises(
        RowcastError, match=r"expected a model of type blip or vilt, found 'clip'.*another vqa"
    ):
        load_vqa(place(save_clip(tmp_path / "clip"), "vqa"))
    with pytest.raises(RowcastError, match="expected the answers yes and no"):
        load_vqa(place(save_vilt(tmp_path / "v", answers=("red", "blue")), "vqa"))
    change_config(tmp_path / "v", model_type=None)
    with pytest.raises(RowcastError, match="found None"):
        load_vqa(place(tmp_path / "v", "vqa"))
    (tmp_path / "v" / "config.json").write_text("[")
    with pytest.raises(RowcastError, match=r"expected a model with config\.json"):
        load_vqa(place(tmp_path / "v", "vqa"))
