"""The shared trunk: the conformance suite on a tiny backbone of its own, and what families cannot show."""

import pytest
import torch
from torch import Tensor

from backbones.errors import RowcastError
from tests.backbones.conformance import CHECKS, Case
from tests.backbones.tiny import BOI, TinyBackbone, tiny_backbone
from tests.backbones.walk import images, walk

pytestmark = pytest.mark.unit

PROMPTS = ("one", "a much longer prompt than that")
OTHERS = ("two", "b other words of same count")


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "row ends"])
def row_end(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(scope="module")
def case(row_end: bool) -> Case:
    def load(dtype: str = "float32") -> TinyBackbone:
        return tiny_backbone(row_end=row_end, dtype=getattr(torch, dtype))

    return Case(load=load, backbone=load(), prompts=PROMPTS, others=OTHERS)


@pytest.fixture
def backbone(row_end: bool) -> TinyBackbone:
    return tiny_backbone(row_end=row_end)


def close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conforms(case: Case, check) -> None:
    check(case)


def test_a_kept_token_that_differs_shows(backbone: TinyBackbone) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    expected = walk(backbone, prompt, tokens, 1).hidden
    backbone.begin(prompt)
    backbone.forward(tokens[:, :4])
    assert not close(backbone.forward(tokens[:, 5:]).hidden[:, :1], expected[:, 6:7])


def test_a_short_unconditional_prompt_is_padded_too(
    backbone: TinyBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the families whose unconditional prompt is the image header alone."""
    monkeypatch.setattr(backbone, "unconditional_ids", lambda ids: [BOI])
    tokens, both = images(backbone, 2), backbone.encode(PROMPTS)
    assert both.mask.sum(1).tolist() == [2, 7, 1, 1]
    batch, states = walk(backbone, both, tokens, 3), backbone.states(both, tokens)
    for i, text in enumerate(PROMPTS):
        single = walk(backbone, backbone.encode([text]), tokens[i : i + 1], 3)
        assert close(batch.hidden[i::2], single.hidden)
        assert close(states[i::2], single.hidden)


def test_autocast_of_the_caller_changes_nothing(backbone: TinyBackbone) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    states = backbone.states(prompt, tokens)
    logits = backbone.head(states)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(backbone.states(prompt, tokens), states)
        assert torch.equal(backbone.head(states), logits)


def test_shapes_alone_compute_nothing(backbone: TinyBackbone) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    hidden = backbone.states(prompt, tokens)
    backbone.to("meta")
    for use in (
        lambda: backbone.begin(prompt),
        lambda: backbone.states(prompt, tokens),
        lambda: backbone.head(hidden.to("meta")),
        lambda: backbone.to("cpu"),
    ):
        with pytest.raises(RowcastError, match=r"found shapes alone \(model\.device=meta\): pass"):
            use()


def test_errors_say_what_to_do() -> None:
    backbone = tiny_backbone()
    prompt, tokens = backbone.encode(["a"]), images(backbone, 1)
    for early in (lambda: backbone.forward(tokens), lambda: backbone.keep(0), lambda: backbone.length):
        with pytest.raises(RowcastError, match="expected an open session, found none: call begin"):
            early()
    backbone.begin(prompt)
    backbone.forward(tokens[:, :10])
    with pytest.raises(RowcastError, match=r"at most 12 image tokens \(3x4\), found 13"):
        backbone.forward(tokens[:, :3])
    assert backbone.length == 10
    for length in (-1, 11):
        with pytest.raises(RowcastError, match=f"expected to keep 0 to 10 image tokens, found {length}"):
            backbone.keep(length)
    with pytest.raises(RowcastError, match=r"expected 12 tokens an image \(3x4\), found 11"):
        backbone.states(prompt, tokens[:, :-1])
    for bad in (-1, 11):
        with pytest.raises(RowcastError, match=r"expected image codes 0 to 10, found .*another backbone"):
            backbone.decode(tokens.clone().index_fill_(1, torch.tensor([3]), bad))


def test_a_twin_has_the_weights_and_a_session_of_its_own():
    backbone = tiny_backbone()
    twin = backbone.twin()
    one, other = backbone.encode(["a bag"]), backbone.encode(["a longer prompt"])
    alone = [
        torch.cat([trunk.begin(prompt).logits, trunk.forward(torch.tensor([[3]])).logits])
        for trunk, prompt in ((tiny_backbone(), one), (tiny_backbone(), other))
    ]
    mixed = [[backbone.begin(one).logits], [twin.begin(other).logits]]
    mixed[0].append(backbone.forward(torch.tensor([[3]])).logits)
    mixed[1].append(twin.forward(torch.tensor([[3]])).logits)
    assert all(torch.equal(torch.cat(part), whole) for part, whole in zip(mixed, alone, strict=True))
    twin.close()
    with pytest.raises(RowcastError, match="expected an open session, found none"):
        twin.forward(torch.tensor([[3]]))
    assert backbone.length == 1
    assert twin.fingerprint == backbone.fingerprint
