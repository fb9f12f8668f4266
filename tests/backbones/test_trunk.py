"""The session of the shared trunk: every way through an image gives the same states."""

import pytest
import torch
from torch import Tensor

from backbones.contract import Prompt
from backbones.errors import RowcastError
from tests.backbones.tiny import BOI, TinyBackbone, tiny_backbone
from tests.backbones.walk import images, walk

pytestmark = pytest.mark.unit

PROMPTS = ["one", "a much longer prompt than that"]


@pytest.fixture(params=[False, True], ids=["plain", "row ends"])
def backbone(request: pytest.FixtureRequest) -> TinyBackbone:
    return tiny_backbone(row_end=request.param)


def close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("block", [2, 3, 4, 5, 11])
def test_block_equals_step(backbone: TinyBackbone, block: int) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    steps, blocks = walk(backbone, prompt, tokens, 1), walk(backbone, prompt, tokens, block)
    assert close(blocks.hidden, steps.hidden)
    assert close(blocks.logits, steps.logits)


def test_states_equal_steps(backbone: TinyBackbone) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    steps = walk(backbone, prompt, tokens, 1)
    states = backbone.states(prompt, tokens)
    assert close(states, steps.hidden)
    assert close(backbone.head(states), steps.logits)
    assert not states.is_inference()
    assert not torch.allclose(states[:, :-1], steps.hidden[:, 1:], atol=0.1)


def test_states_leave_the_session_alone(backbone: TinyBackbone) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    expected = walk(backbone, prompt, tokens, 1).hidden
    backbone.begin(prompt)
    backbone.forward(tokens[:, :5])
    backbone.states(prompt, images(backbone, 2, seed=1))
    assert backbone.length == 5
    assert close(backbone.forward(tokens[:, 5:7]).hidden, expected[:, 6:8])


def test_rollback_is_exact(backbone: TinyBackbone) -> None:
    prompt, tokens, wrong = backbone.encode(PROMPTS), images(backbone, 2), images(backbone, 2, seed=1)
    backbone.begin(prompt)
    backbone.forward(tokens[:, :3])
    straight = backbone.forward(tokens[:, 3:8])
    backbone.begin(prompt)
    backbone.forward(tokens[:, :3])
    backbone.forward(wrong[:, 3:9])
    backbone.keep(3)
    again = backbone.forward(tokens[:, 3:8])
    assert torch.equal(again.hidden, straight.hidden)
    assert torch.equal(again.logits, straight.logits)


@pytest.mark.parametrize("cut", range(12))
def test_keep_across_row_borders(backbone: TinyBackbone, cut: int) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    expected = walk(backbone, prompt, tokens, 1).hidden
    backbone.begin(prompt)
    backbone.forward(tokens)
    backbone.keep(cut)
    assert backbone.length == cut
    if cut < 11:
        assert close(backbone.forward(tokens[:, cut:-1]).hidden, expected[:, cut + 1 :])


def test_a_kept_token_that_differs_shows(backbone: TinyBackbone) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    expected = walk(backbone, prompt, tokens, 1).hidden
    backbone.begin(prompt)
    backbone.forward(tokens[:, :4])
    assert not close(backbone.forward(tokens[:, 5:]).hidden[:, :1], expected[:, 6:7])


@pytest.mark.parametrize("shorter", [False, True], ids=["same length", "short unconditional"])
def test_batch_equals_single(backbone: TinyBackbone, shorter: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if shorter:  # as in the families whose unconditional prompt is the image header alone
        monkeypatch.setattr(backbone, "unconditional_ids", lambda ids: [BOI])
    tokens = images(backbone, 2)
    both = backbone.encode(PROMPTS)
    assert not both.mask.all()
    batch, states = walk(backbone, both, tokens, 3), backbone.states(both, tokens)
    unmasked = Prompt(embeds=both.embeds, mask=torch.ones_like(both.mask), images=2)
    for i, text in enumerate(PROMPTS):
        single = walk(backbone, backbone.encode([text]), tokens[i : i + 1], 3)
        assert close(batch.hidden[i::2], single.hidden)
        assert close(states[i::2], single.hidden)
    assert not close(backbone.states(unmasked, tokens), states)


def test_conditional_rows_come_first(backbone: TinyBackbone) -> None:
    prompt = backbone.encode(PROMPTS)
    assert prompt.images == 2
    assert len(prompt.mask) == 4
    conditional = backbone.encode(PROMPTS, guided=False)
    assert len(conditional.mask) == 2
    tokens = images(backbone, 2)
    guided, plain = walk(backbone, prompt, tokens, 4), walk(backbone, conditional, tokens, 4)
    assert close(guided.logits[:2], plain.logits)
    assert not close(guided.logits[2:], plain.logits)
    # The unconditional rows do not know the words.
    other = walk(backbone, backbone.encode(["two", "b other words of same count"]), tokens, 4)
    assert close(guided.logits[2:], other.logits[2:])


def test_row_ends_against_the_written_out_sequence() -> None:
    backbone = tiny_backbone(row_end=True)
    prompt, tokens = backbone.encode(["a prompt"]), images(backbone, 1)
    rows, cols = backbone.grid.rows, backbone.grid.cols
    sequence, emits = list(prompt.embeds[0]), [prompt.embeds.shape[1] - 1]
    for y in range(rows):
        for x in range(cols):
            sequence.append(backbone.embed(tokens[0, y * cols + x]))
            if x == cols - 1:
                sequence.append(backbone._table[backbone.codes])
            emits.append(len(sequence) - 1)
    hidden = backbone._trunk(inputs_embeds=torch.stack(sequence)[None], use_cache=False).last_hidden_state[0]
    conditional = backbone.states(prompt, tokens)[0]
    assert close(hidden[emits[:-1]], conditional)
    stride_w = torch.arange(rows * cols) + emits[0]
    assert not close(hidden[stride_w], conditional)
    assert close(hidden[stride_w][:cols], conditional[:cols])


def test_head_takes_states_before_the_norm_only() -> None:
    backbone = tiny_backbone()
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    live = walk(backbone, prompt, tokens, 1).logits
    states = backbone.states(prompt, tokens)
    assert close(backbone.head(states), live)
    assert not torch.allclose(backbone.head(backbone._norm(states)), live, atol=0.1)


def test_logits_are_fp32_and_weights_frozen() -> None:
    backbone = tiny_backbone()
    assert backbone.begin(backbone.encode(PROMPTS)).logits.dtype == torch.float32
    assert not any(p.requires_grad for m in backbone._hashed.values() for p in m.parameters())


def test_autocast_of_the_caller_changes_nothing(backbone: TinyBackbone) -> None:
    prompt, tokens = backbone.encode(PROMPTS), images(backbone, 2)
    states = backbone.states(prompt, tokens)
    logits = backbone.head(states)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(backbone.states(prompt, tokens), states)
        assert torch.equal(backbone.head(states), logits)


def test_session_ends_with_a_move() -> None:
    backbone = tiny_backbone()
    backbone.begin(backbone.encode(["a"]))
    backbone.to("cpu")
    with pytest.raises(RowcastError, match="found none: call begin"):
        backbone.forward(images(backbone, 1)[:, :1])


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
