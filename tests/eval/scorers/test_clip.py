"""CLIP-score equals torchmetrics' on a small random CLIP; presets do to images and texts what papers do."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchmetrics.multimodal.clip_score import CLIPScore
from transformers import CLIPModel, CLIPProcessor

from backbones.errors import RowcastError
from eval.scorers.backends.clip import GREY, TEMPLATES, Clip, ClipColours, cut_out
from eval.scorers.clip_scorer import PRESETS, ClipScore, summarise
from eval.scorers.geneval import COLOURS, Detection
from eval.scorers.pictures import Picture
from eval.scorers.preparations import (
    centre_square,
    clean_fid_input,
    pytorch_fid_input,
    square_256,
    square_256_through_floats,
    squashed_299,
)
from tests.eval.scorers.tiny_models import place, save_clip

pytestmark = pytest.mark.unit

TEXTS = ["a red fox", "what is there?", "blue", "the book is red, the sky is blue"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_clip(tmp_path_factory.mktemp("clip") / "clip-vit-base-patch16")


@pytest.fixture(scope="module")
def clip(folder):
    return Clip(place(folder))


@pytest.fixture(scope="module")
def images():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 40, 56, 3), dtype=np.uint8)
    return [Image.fromarray(each) for each in pixels]


@pytest.fixture(scope="module")
def pictures(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number, image in enumerate(images):
        image.save(folder / f"{number}.png")
    return [
        Picture(key=f"{n}.png", path=folder / f"{n}.png", prompt=text, group=text)
        for n, text in enumerate(TEXTS)
    ]


class Released(CLIPModel):
    """torchmetrics 1.9 expects bare features, as transformers 4 returned them."""

    def get_image_features(self, *args, **kwargs):
        return super().get_image_features(*args, **kwargs).pooler_output

    def get_text_features(self, *args, **kwargs):
        return super().get_text_features(*args, **kwargs).pooler_output


def torchmetrics_score(clip, folder, images):
    processor = CLIPProcessor(clip.processor, clip.tokenizer)
    model = Released.from_pretrained(folder)
    oracle = CLIPScore(model_name_or_path=lambda: (model, processor))
    values = []
    for image, text in zip(images, TEXTS, strict=True):
        oracle.reset()
        oracle.update(torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1), text)
        values.append(float(oracle.score))  # not compute(), which clamps each
    return values


def test_clip_score_equals_torchmetrics(clip, folder, images, pictures):
    expected = torchmetrics_score(clip, folder, images)
    scores = ClipScore(clip, "clean").score(pictures)
    assert [next(iter(score.scores.values())) for score in scores] == pytest.approx(expected, abs=1e-3)
    assert len(set(expected)) == 4


def test_sjd_equals_torchmetrics_on_the_resized_bytes(clip, folder, images, pictures):
    resized = []
    for image in images:
        tensor = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None]
        tensor = torch.nn.functional.interpolate(
            tensor, size=(299, 299), mode="bilinear", align_corners=False
        )
        resized.append(Image.fromarray(tensor[0].permute(1, 2, 0).numpy()))
    scores = ClipScore(clip, "sjd").score(pictures)
    assert [score.scores["clip/sjd"] for score in scores] == pytest.approx(
        torchmetrics_score(clip, folder, resized), abs=1e-3
    )


def test_the_protocol_names_a_model_that_is_not_the_presets(clip):
    assert ClipScore(clip, "sjd").protocol == "clip/sjd"
    assert ClipScore(clip, "lantern").protocol == "clip/lantern+clip-vit-base-patch16"
    assert ClipScore(clip, "clean").protocol == "clip/clean+clip-vit-base-patch16"


def test_long_texts_keep_their_end_mark(clip):
    start, end = clip.tokenizer.bos_token_id, clip.tokenizer.eos_token_id
    short, cut = clip.tokens("red")
    assert (short[0], short[-1], cut) == (start, end, False)
    long, cut = clip.tokens("red " * 60)
    assert (len(long), long[0], long[-1], cut) == (77, start, end, True)
    whole = "a" * 75
    assert clip.tokens(whole) == ([start, *clip._ids(whole), end], False)


def test_the_prefix_is_spliced_in_as_lantern_does(clip):
    """Cut to 77 first, then three words after the start mark, then cut again with the end mark last."""
    start, end = clip.tokenizer.bos_token_id, clip.tokenizer.eos_token_id
    prefix = clip._ids("A photo depicts")
    for text in ("red", "red " * 18, "red " * 60):
        ids = clip._ids(text)
        first = [start, *ids, end] if len(ids) <= 75 else [start, *ids[:75], end]
        spliced = [start, *prefix, *first[1:]][:77]
        if len(spliced) == 77:
            spliced[-1] = end
        assert clip.tokens(text, "A photo depicts")[0] == spliced
    assert PRESETS["lantern"].prefix == "A photo depicts"


def test_batches_of_texts_do_not_touch_each_other(clip):
    alone = torch.cat([clip.read([text]) for text in TEXTS])
    assert torch.allclose(clip.read(TEXTS), alone, atol=1e-5)


def test_the_mean_is_clamped_and_cuts_are_told(clip, pictures):
    scores = ClipScore(clip, "clean").score(pictures)
    values, notes = summarise(pictures, scores)
    mean = np.mean([next(iter(score.scores.values())) for score in scores])
    assert values["clip"].value == pytest.approx(max(mean, 0))
    assert notes == []
    long = [Picture(key="l", path=pictures[0].path, prompt="red " * 60, group="l")]
    assert summarise(long, ClipScore(clip, "clean").score(long))[1] == [
        "1 of 1 prompts were longer than CLIP reads, and were cut"
    ]


def test_preparations():
    wide = Image.fromarray(np.random.default_rng(1).integers(0, 256, (300, 400, 3), dtype=np.uint8))
    assert centre_square(wide).size == (300, 300)
    assert np.array_equal(np.asarray(centre_square(wide)), np.asarray(wide)[:, 50:350])
    lanczos = centre_square(wide).resize((256, 256), Image.Resampling.LANCZOS)
    assert np.array_equal(np.asarray(square_256(wide)), np.asarray(lanczos))
    darker = np.asarray(square_256(wide)).astype(int) - np.asarray(square_256_through_floats(wide))
    assert set(np.unique(darker)) == {0, 1}, "the way through floats loses one step of some values"
    assert squashed_299(wide).size == (299, 299)
    flat = Image.new("RGB", (20, 10), (255, 0, 128))
    assert pytorch_fid_input(flat)[:, 5, 5].tolist() == pytest.approx([1, -1, 128 / 127.5 - 1], abs=1e-6)
    assert clean_fid_input(flat)[:, 5, 5].tolist() == pytest.approx([127 / 128, -1, 0], abs=1e-6)


def test_only_the_clean_way_antialiases():
    lines = np.zeros((897, 897, 3), np.uint8)
    lines[:, ::3] = 255
    image = Image.fromarray(lines)
    assert clean_fid_input(image)[:, 5:-5, 5:-5].mean() == pytest.approx(85 / 128 - 1, abs=0.02)
    assert (pytorch_fid_input(image)[:, :, 1:] == -1).all(), "bilinear looks between the lines"


def test_the_object_is_cut_out_on_grey():
    image = Image.new("RGB", (8, 6), (255, 0, 0))
    mask = np.zeros((6, 8), bool)
    mask[2:4, 3:5] = True
    found = Detection(name="book", score=0.9, box=(2.0, 1.0, 6.0, 5.0), mask=mask)
    cut = np.asarray(cut_out(image, found))
    assert cut.shape == (4, 4, 3)
    assert (cut[1:3, 1:3] == (255, 0, 0)).all()
    assert (cut[0] == GREY).all()


def test_colours_are_the_nearest_of_ten_averages_of_three_sentences(clip, images):
    judge = ClipColours(clip)
    found = [
        Detection(name="book", score=0.9, box=box, mask=None)
        for box in ((0.0, 0.0, 30.0, 30.0), (10.0, 5.0, 50.0, 40.0))
    ]
    colours = judge.colours(images[0], found, "book")
    for each, colour in zip(found, colours, strict=True):
        seen = clip.see([cut_out(images[0], each)])[0]
        likeness = {}
        for name in COLOURS:
            rows = [clip.read([text.format(colour=name, name="book")])[0] for text in TEMPLATES]
            mean = torch.stack(rows).mean(0)
            likeness[name] = float(seen @ mean / mean.norm())
        assert colour == max(likeness, key=likeness.get)


def test_a_folder_without_weights_is_refused(folder, tmp_path):
    for file in folder.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(RowcastError, match="loadable weights"):
        Clip(place(tmp_path))


def test_older_repositories_are_read_as_plain_tensors(folder, clip, images, tmp_path):
    from safetensors.torch import load_file

    for file in folder.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = load_file(folder / "model.safetensors")
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    assert torch.equal(Clip(place(tmp_path)).see(images), clip.see(images))
    tensors.pop("visual_projection.weight")
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(RowcastError, match=r"found none for visual_projection\.weight"):
        Clip(place(tmp_path))


def test_a_missing_model_says_what_to_fetch():
    with pytest.raises(RowcastError, match=r"expected a folder or a hub id.*check clip; the hub also needs"):
        Clip(place("openai/clip-vit-large-patch14"))
