"""The law itself: whose states, which norm, where rows end, who knows the words."""

import torch
from torch import Tensor

from backbones.contract import Prompt
from backbones.trunk import SharedTrunk
from tests.backbones.conformance.case import Case, difference, raised, require_close
from tests.backbones.walk import walk


def facts_are_consistent(case: Case) -> None:
    backbone = case.backbone
    assert min(backbone.grid.rows, backbone.grid.cols, backbone.codes, backbone.width) > 1
    assert backbone.sampling.guidance > 1
    step = backbone.begin(case.both())
    assert step.hidden.shape == (4, 1, backbone.width)
    assert step.logits.shape == (4, 1, backbone.codes)
    assert step.hidden.dtype == backbone.dtype == torch.float32
    assert step.logits.dtype == torch.float32
    assert backbone.length == 0


def logits_are_plain(case: Case) -> None:
    """Random weights must not be so flat that a mistake is lost in rounding."""
    logits = walk(case.backbone, case.both(), case.some(), case.fed).logits
    assert logits.std(-1).min() > 0.1
    assert (logits[:, 1:] - logits[:, :-1]).std() > 0.05


def states_are_pre_norm(case: Case) -> None:
    """What the trunk's last layer gives, of which the model's own final norm makes its logits."""
    backbone, prompt, tokens = case.backbone, case.both(), case.tokens()
    states, live = backbone.states(prompt, tokens), walk(backbone, prompt, case.some(), case.fed).logits
    raw = written_out(backbone, prompt, tokens)
    require_close(states, raw, "states against the trunk's output before its norm")
    own = backbone._image_head(backbone._norm(raw)).float()
    require_close(live, own[:, : case.fed + 1], "logits against norm and output layer")
    normed = backbone.head(backbone._norm(states))
    assert difference(normed, own) > 0.02, "a state normed twice would go unseen: spread the norm's gains"


def rows_end_as_written_out(case: Case) -> None:
    """Live states, entry by entry, against a sequence that is written out token by token."""
    backbone, prompt, tokens = case.backbone, case.both(), case.some()
    live = walk(backbone, prompt, tokens, backbone.grid.cols + 1).hidden
    require_close(live, written_out(backbone, prompt, case.tokens())[:, : case.fed + 1], "live states")
    if backbone._slots.row_ends:
        without = written_out(backbone, prompt, case.tokens(), row_ends=False)[:, : case.fed + 1]
        cols = backbone.grid.cols
        require_close(without[:, :cols], live[:, :cols], "the first row, which no row end precedes")
        assert difference(without[:, cols:], live[:, cols:]) > 0.01, "row ends make no difference"


@torch.no_grad()
def written_out(backbone: SharedTrunk, prompt: Prompt, tokens: Tensor, row_ends: bool = True) -> Tensor:
    """States by the stock model's own masks: prompt, tokens, and a row end after every full row but the last.

    Nothing of the adapter's slots, sessions and masks is used.
    """
    rows, cols = backbone.grid.rows, backbone.grid.cols
    row_ends = row_ends and backbone._slots.row_ends
    sequence, emits = [prompt.embeds], [prompt.embeds.shape[1] - 1]
    branches = len(prompt.embeds) // prompt.images
    for y in range(rows):
        for x in range(cols):
            sequence.append(backbone.embed(tokens[:, y * cols + x]).repeat(branches, 1)[:, None])
            if row_ends and x == cols - 1 and y < rows - 1:
                sequence.append(backbone._table[backbone.codes].expand(len(prompt.embeds), 1, -1))
            emits.append(sum(part.shape[1] for part in sequence) - 1)
    embeds = torch.cat(sequence, 1)
    image = embeds.shape[1] - prompt.embeds.shape[1]
    out = backbone._trunk(
        inputs_embeds=embeds,
        attention_mask=torch.cat([prompt.mask, prompt.mask.new_ones(len(prompt.mask), image)], 1).long(),
        position_ids=backbone.positions(prompt, image),
        use_cache=False,
    )
    return out.last_hidden_state[:, emits[:-1]]


def conditional_rows_come_first(case: Case) -> None:
    backbone, tokens, both = case.backbone, case.some(), case.both()
    assert (both.images, len(both.mask)) == (2, 4)
    plain = backbone.encode(case.prompts, guided=False)
    assert len(plain.mask) == 2
    guided, alone = walk(backbone, both, tokens, 4).logits, walk(backbone, plain, tokens, 4).logits
    require_close(guided[:2], alone, "the first rows against no guidance")
    assert difference(guided[2:], alone) > 0.01, "the prompt makes no difference"
    other = walk(backbone, backbone.encode(case.others), tokens, 4).logits
    require_close(other[2:], guided[2:], "unconditional rows beside other words")
    assert difference(other[:2], guided[:2]) > 0.01, "the words make no difference"


def empty_prompts_are_refused(case: Case) -> None:
    for prompt in ("", "  "):
        assert "expected" in raised(lambda prompt=prompt: case.backbone.encode([prompt]))
