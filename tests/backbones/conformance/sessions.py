"""However a session is fed, batched and rolled back, it gives the same states."""

import torch

from backbones.contract import Prompt
from tests.backbones.conformance.case import Case, difference, require_close
from tests.backbones.walk import walk


def block_equals_step(case: Case) -> None:
    backbone, prompt, tokens = case.backbone, case.both(), case.some()
    steps, cols = walk(backbone, prompt, tokens, 1), backbone.grid.cols
    for block in {2, cols - 1, cols, cols + 1, case.fed} - {0, 1}:
        blocks = walk(backbone, prompt, tokens, block)
        require_close(blocks.hidden, steps.hidden, f"states in blocks of {block}")
        require_close(blocks.logits, steps.logits, f"logits in blocks of {block}")


def states_equal_steps(case: Case) -> None:
    backbone, prompt, tokens = case.backbone, case.both(), case.tokens()
    steps = walk(backbone, prompt, case.some(), 1)
    states = backbone.states(prompt, tokens)
    assert states.shape == (4, backbone.grid.size, backbone.width)
    require_close(states[:, : case.fed + 1], steps.hidden, "teacher-forced states")
    require_close(backbone.head(states)[:, : case.fed + 1], steps.logits, "logits of teacher-forced states")
    assert not states.is_inference(), "training could not use the states"
    assert difference(states[:, :-1], states[:, 1:]) > 0.01, "neighbouring states are alike"


def states_leave_the_session_alone(case: Case) -> None:
    backbone, prompt, tokens = case.backbone, case.both(), case.some()
    expected = walk(backbone, prompt, tokens, 1).hidden
    backbone.begin(prompt)
    backbone.forward(tokens[:, :5])
    backbone.states(prompt, case.tokens(seed=1))
    assert backbone.length == 5
    require_close(backbone.forward(tokens[:, 5:7]).hidden, expected[:, 6:8], "after states()")


def rollback_is_exact(case: Case) -> None:
    """Bit for bit: a session that took a wrong turn is the session that did not."""
    backbone, prompt, tokens, wrong = case.backbone, case.both(), case.some(), case.some(seed=1)
    end = min(3 + backbone.grid.cols + 1, case.fed)
    backbone.begin(prompt)
    backbone.forward(tokens[:, :3])
    straight = backbone.forward(tokens[:, 3:end])
    backbone.begin(prompt)
    backbone.forward(tokens[:, :3])
    backbone.forward(wrong[:, 3 : end + 1])
    backbone.keep(3)
    again = backbone.forward(tokens[:, 3:end])
    assert torch.equal(again.hidden, straight.hidden)
    assert torch.equal(again.logits, straight.logits)


def any_length_can_be_kept(case: Case) -> None:
    backbone, prompt, tokens = case.backbone, case.both(), case.some()
    expected = walk(backbone, prompt, tokens, 1).hidden
    for cut in range(case.fed):
        backbone.begin(prompt)
        backbone.forward(tokens[:, : case.fed])
        backbone.keep(cut)
        assert backbone.length == cut
        again = backbone.forward(tokens[:, cut:-1]).hidden
        require_close(again, expected[:, cut + 1 :], f"after keep({cut})")


def a_new_session_forgets(case: Case) -> None:
    backbone, fresh, tokens = case.backbone, case.load(), case.some()
    walk(backbone, case.both(), case.some(seed=1), 3)
    again = walk(backbone, backbone.encode(case.others), tokens, 2)
    alone = walk(fresh, fresh.encode(case.others), tokens, 2)
    assert torch.equal(again.hidden, alone.hidden), "something of the session before was left"


def batch_equals_single(case: Case) -> None:
    backbone, tokens, both = case.backbone, case.tokens(), case.both()
    batch, states = walk(backbone, both, case.some(), 3), backbone.states(both, tokens)
    for i, text in enumerate(case.prompts):
        alone = backbone.encode([text])
        single = walk(backbone, alone, case.some()[i : i + 1], 3)
        require_close(batch.hidden[i::2], single.hidden, f"states of image {i} in a batch")
        require_close(batch.logits[i::2], single.logits, f"logits of image {i} in a batch")
        require_close(states[i::2], backbone.states(alone, tokens[i : i + 1]), f"states() of image {i}")
    if not both.mask.all():
        unmasked = Prompt(embeds=both.embeds, mask=torch.ones_like(both.mask), images=2)
        assert difference(backbone.states(unmasked, tokens), states) > 0.01, "padding makes no difference"


def trees_reduce_to_raster_order(case: Case) -> None:
    """`forward_at` with a causal mask is `forward`, row ends and padding included."""
    backbone, prompt, tokens = case.backbone, case.both(), case.some()
    expected = walk(backbone, prompt, tokens, 1).hidden
    end = min(case.fed, 3 + backbone.grid.cols)
    backbone.begin(prompt)
    backbone.forward(tokens[:, :3])
    sees = torch.ones(end - 3, end, dtype=torch.bool).tril(3)
    step = backbone.forward_at(tokens[:, 3:end], range(3, end), sees)
    require_close(step.hidden, expected[:, 4 : end + 1], "a chain as a tree")
    backbone.keep_entries(range(4))
    again = backbone.forward(tokens[:, 4:end]).hidden
    require_close(again, expected[:, 5 : end + 1], "after keep_entries")
