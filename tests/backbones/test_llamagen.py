"""LlamaGen on tiny random checkpoints: a second implementation of the published model is the oracle."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import T5EncoderModel

from backbones import llamagen
from backbones.contract import Grid, Sampling
from backbones.errors import RowcastError
from backbones.llamagen import Shape
from backbones.llamagen_model import ClassLlamaGen, LlamaGen
from backbones.llamagen_trunk import GridRotation
from backbones.pixels import to_uint8
from backbones.registry import load_backbone, rollout_prompts
from tests.backbones.checkpoints.llamagen import (
    CLASSES,
    LONGEST,
    caption_tensors,
    class_tensors,
    vq_tensors,
    write_llamagen_c2i,
    write_llamagen_t2i,
)
from tests.backbones.llamagen_reference import Reference, pixels
from tests.backbones.walk import images, walk

pytestmark = pytest.mark.integration

HEADS, SIDE, FED = 2, 16, 40
CAPTIONS = ["a cat", "a red cube on blue, 7 cats", "a cat " * 100]
"""Of different lengths; the last one is cut off at 120 tokens, so that nothing is padded."""
Options = dict[str, Any]


@pytest.fixture(scope="module")
def c2i(tmp_path_factory: pytest.TempPathFactory) -> Options:
    return write_llamagen_c2i(tmp_path_factory.mktemp("c2i"))


@pytest.fixture(scope="module")
def t2i(tmp_path_factory: pytest.TempPathFactory) -> Options:
    return write_llamagen_t2i(tmp_path_factory.mktemp("t2i"))


@pytest.fixture(scope="module")
def classes(c2i: Options) -> LlamaGen:
    return load_backbone("llamagen_c2i", device="cpu", **c2i)


@pytest.fixture(scope="module")
def captions(t2i: Options) -> LlamaGen:
    return load_backbone("llamagen_t2i", device="cpu", **t2i)


def error(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    return float((found - expected).abs().max())


def class_logits(numbers: list[int], codes: Tensor) -> Tensor:
    """The reference's, conditional rows first."""
    reference = Reference(class_tensors(), HEADS, SIDE)
    rows = [*numbers, *[CLASSES] * len(numbers)]
    return torch.stack([reference.classes(row, c) for row, c in zip(rows, codes.repeat(2, 1), strict=True)])


@torch.no_grad()
def caption_logits(t2i: Options, ids: list[list[int]], codes: Tensor) -> Tensor:
    """The reference's at 120 slots, as published: padded on the right, encoded, rolled to the right end."""
    reference, encoder = (
        Reference(caption_tensors(), HEADS, SIDE),
        T5EncoderModel.from_pretrained(t2i["text_encoder"]),
    )
    rows: list[list[Tensor]] = [[], []]
    for row, code in zip(ids, codes, strict=True):
        mask = torch.tensor([[1] * len(row) + [0] * (LONGEST - len(row))])
        padded = torch.tensor([row + [0] * (LONGEST - len(row))])
        features = encoder.eval()(input_ids=padded, attention_mask=mask).last_hidden_state[0]
        features = (features * mask[0, :, None]).roll(LONGEST - len(row), 0)
        seen = mask[0].flip(0).bool().tolist()
        learned = caption_tensors()["cls_embedding.uncond_embedding"]
        for branch, condition in enumerate((features, learned)):
            rows[branch].append(reference.captions(condition, seen, code))
    return torch.stack(rows[0] + rows[1])


def test_facts(classes, captions):
    for backbone in (classes, captions):
        assert backbone.grid == Grid(rows=16, cols=16)
        assert (backbone.codes, backbone.width, backbone.paints) == (48, 128, True)
        assert backbone._trunk.config.num_attention_heads == HEADS
    assert classes.sampling == Sampling(guidance=4.0, temperature=1.0, top_k=2000)
    assert captions.sampling == Sampling(guidance=7.5, temperature=1.0, top_k=1000)
    assert rollout_prompts("llamagen_c2i") == [str(number) for number in range(1000)]
    assert classes.prompt_ids("7") == [7]
    assert classes.unconditional_ids([7]) == [CLASSES]
    assert captions.unconditional_ids([5, 6, 1]) == [117, 118, 119]
    assert captions.encode(["a cat"]).mask.shape == (2, len(captions.prompt_ids("a cat")))


@pytest.mark.parametrize("block", [1, 5, 16, FED])
def test_class_logits(classes, block):
    tokens = images(classes, 2)
    prompt, expected = classes.encode(["3", "7"]), class_logits([3, 7], tokens[:, :FED])
    assert error(walk(classes, prompt, tokens[:, : FED + 1], block).logits, expected) < 1e-5
    assert expected.std() > 0.5


def test_class_states_to_the_last_token(classes):
    tokens = images(classes, 1)
    logits = classes.head(classes.states(classes.encode(["3"]), tokens))
    assert error(logits, class_logits([3], tokens[:, :-1])) < 1e-5


@pytest.mark.parametrize("block", [1, 5, 16, FED])
def test_caption_logits(captions, t2i, block):
    tokens = images(captions, 3)
    ids = [captions.prompt_ids(caption) for caption in CAPTIONS]
    assert len({len(row) for row in ids}) == 3
    assert len(ids[2]) == LONGEST
    expected = caption_logits(t2i, ids, tokens[:, :FED])
    walked = walk(captions, captions.encode(CAPTIONS), tokens[:, : FED + 1], block)
    assert error(walked.logits, expected) < 1e-5
    assert error(expected[:3], expected[3:]) > 0.1


@pytest.mark.parametrize("picked", [[0], [2], [0, 1]], ids=["short", "full", "padded"])
def test_caption_states(captions, t2i, picked):
    """Alone and in batches; a caption of 120 slots leaves no mask that could hide wrong positions."""
    texts, tokens = [CAPTIONS[i] for i in picked], images(captions, len(picked))
    expected = caption_logits(t2i, [captions.prompt_ids(text) for text in texts], tokens[:, :FED])
    states = captions.states(captions.encode(texts), tokens)
    assert error(captions.head(states)[:, : FED + 1], expected) < 1e-5


def unordered(monkeypatch):
    monkeypatch.setattr("backbones.llamagen_trunk.halves", lambda weight, heads: weight)


def counted_from_the_prompt(monkeypatch):
    shift = ClassLlamaGen.positions
    monkeypatch.setattr(ClassLlamaGen, "positions", lambda *args: shift(*args) + 1)


def transposed(monkeypatch):
    def swapped(self, prompt, slots):
        cells = torch.arange(SIDE * SIDE).view(SIDE, SIDE).T.flatten()
        return torch.cat([torch.tensor([-1]), cells])[None]

    monkeypatch.setattr(ClassLlamaGen, "positions", swapped)


def heard(monkeypatch):
    """The condition is treated like cell 0, instead of silenced."""
    turn = GridRotation.forward
    monkeypatch.setattr(
        GridRotation, "forward", lambda self, x, position_ids: turn(self, x, position_ids.clamp_min(0))
    )


@pytest.mark.parametrize("mistake", [unordered, counted_from_the_prompt, transposed, heard])
def test_a_wrong_rotation_shows(c2i, mistake, monkeypatch):
    with monkeypatch.context() as patch:
        mistake(patch)
        backbone = load_backbone("llamagen_c2i", device="cpu", **c2i)
        tokens = images(backbone, 1)
        found = walk(backbone, backbone.encode(["3"]), tokens[:, : FED + 1], 8).logits
    assert error(found, class_logits([3], tokens[:, :FED])) > 0.05


def test_pixels(captions):
    tokens = images(captions, 1)
    expected = to_uint8(pixels(vq_tensors(), tokens[0], SIDE)[None])
    assert (captions.decode(tokens).int() - expected.int()).abs().max() <= 1
    assert torch.allclose(captions.codebook().norm(dim=-1), torch.ones(48))


@pytest.mark.parametrize("bad", ["10", "-1", "3.0", "007", "", "  ", "a cat", "\u0663", "99999999999"])
def test_class_prompts_are_checked(classes, bad):
    with pytest.raises(
        RowcastError, match=r"the number of a class, 0 to 9, found .*llamagen_t2i takes words"
    ):
        classes.encode(["3", bad])


def test_caption_prompts_are_checked(captions):
    for bad, message in (("", "leaves nothing"), ("%2526lt;pad%2526gt; cat", "a special token")):
        with pytest.raises(RowcastError, match=message):
            captions.encode(["a cat", bad])


def test_callers_autocast_changes_no_condition(captions):
    expected = captions.encode(["a cat"]).embeds
    captions.to("cpu")
    assert captions._captions._features == {}
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(captions.encode(["a cat"]).embeds, expected)


@pytest.mark.parametrize(
    ("model", "path", "grid", "width"),
    [
        ("llamagen_c2i", None, 16, 768),
        ("llamagen_c2i", "FoundationVision/LlamaGen/c2i_3B_384.pt", 24, 3200),
        ("llamagen_t2i", None, 16, 1280),
        ("llamagen_t2i", "peizesun/llamagen_t2i/t2i_XL_stage2_512.pt", 32, 1280),
    ],
)
def test_random_weights_have_a_published_shape(model, path, grid, width):
    backbone = load_backbone(model, weights="random", device="meta", dtype="bfloat16", path=path)
    assert (backbone.grid.rows, backbone.grid.cols) == (grid, grid)
    assert (backbone.codes, backbone.width, backbone.dtype) == (16_384, width, torch.bfloat16)
    assert backbone.codebook().shape == (16_384, 8)
    assert backbone.codebook().dtype == torch.float32
    size, side = ("256x256", 16) if grid == 32 else ("512x512", 32)
    other = load_backbone(model, weights="random", device="meta", path=path, size=size)
    assert (other.grid.rows, other.width) == (side, width)
    with pytest.raises(RowcastError, match=r"name of a published file, .*found 'mine_256\.pt'"):
        load_backbone(model, weights="random", device="meta", path="mine_256.pt")


@pytest.mark.parametrize("model", ["llamagen_c2i", "llamagen_t2i"])
def test_random_weights_run(model, monkeypatch):
    tiny = Shape(layers=2, heads=2, width=128, inner=64, codes=48)
    monkeypatch.setattr(llamagen, "SHAPES", dict.fromkeys(llamagen.SHAPES, tiny))
    backbone = load_backbone(model, weights="random", device="cpu", size="256x256")
    prompts = ["207", "3"] if model == "llamagen_c2i" else ["a red cube", "a cat"]
    prompt, tokens = backbone.encode(prompts), images(backbone, 2)
    live = walk(backbone, prompt, tokens[:, :20], 4)
    assert error(backbone.states(prompt, tokens)[:, :20], live.hidden) < 1e-5
    assert error(live.logits[:2], live.logits[2:]) > 1e-3
