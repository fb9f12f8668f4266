"""Adapters with one mistake each, as authors of a new family make them: the conformance suite must see it."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from backbones.contract import Prompt
from backbones.slots import Slots
from backbones.trunk import SharedTrunk
from tests.backbones.tiny import TinyBackbone, tiny_backbone


class EarlyRowEnd(Slots):
    """The row end stands before the last token of its row."""

    def before(self, token: int) -> int:
        return token + min((token + 1) // self.grid.cols, self.grid.rows - 1)


class LateEntry(Slots):
    """The law of a row's first token is read at the token before its row end, as without row ends."""

    def place(self, tokens, start, row_end):
        ids, entries = super().place(tokens, start, row_end)
        if entries is not None:
            ends = torch.tensor([(start + t + 1) % self.grid.cols == 0 for t in range(len(entries))])
            entries = entries - ends.long() * (entries > 0)
        return ids, entries


def early_row_end(backbone: TinyBackbone) -> None:
    backbone._slots = EarlyRowEnd(grid=backbone.grid, row_ends=True)


def late_entry(backbone: TinyBackbone) -> None:
    backbone._slots = LateEntry(grid=backbone.grid, row_ends=True)


def post_norm_states(backbone: TinyBackbone) -> None:
    """`hidden_states[-1]` of a stock model: normed, and so a head without the norm fits it."""
    call, norm = backbone._call, backbone._norm
    backbone._call = lambda *inputs: norm(call(*inputs))
    backbone.head = lambda hidden: backbone._image_head(hidden).float()


def post_norm_harvest(backbone: TinyBackbone) -> None:
    """Live states are right, teacher-forced ones are normed."""
    states, norm = backbone.states, backbone._norm
    backbone.states = lambda prompt, tokens: norm(states(prompt, tokens))


def norm_twice(backbone: TinyBackbone) -> None:
    call, norm = backbone._call, backbone._norm
    backbone._call = lambda *inputs: norm(call(*inputs))


def unconditional_first(backbone: TinyBackbone) -> None:
    encode = backbone.encode

    def swapped(prompts, guided=True):
        prompt = encode(prompts, guided)
        if not guided:
            return prompt
        return replace(prompt, embeds=_swap(prompt.embeds), mask=_swap(prompt.mask))

    backbone.encode = swapped


def interleaved_pairs(backbone: TinyBackbone) -> None:
    """conditional, unconditional, conditional, ... as some original code has it."""
    encode = backbone.encode

    def interleaved(prompts, guided=True):
        prompt = encode(prompts, guided)
        order = torch.arange(len(prompt.mask)).view(-1, prompt.images).T.flatten()
        return replace(prompt, embeds=prompt.embeds[order], mask=prompt.mask[order])

    backbone.encode = interleaved


def attended_padding(backbone: TinyBackbone) -> None:
    encode = backbone.encode
    backbone.encode = lambda prompts, guided=True: _unmasked(encode(prompts, guided))


def image_positions_count_padding(backbone: TinyBackbone) -> None:
    """The image begins at the padded length, so that a short prompt has a gap behind it."""
    positions = backbone.positions

    def gapped(prompt, image_slots):
        found, padding = positions(prompt, image_slots), (~prompt.mask).sum(1, keepdim=True)
        shift = torch.cat([torch.zeros_like(prompt.mask), padding.expand(-1, image_slots)], 1)
        return found + (shift if padding.any() else 0)

    backbone.positions = gapped


def unconditional_rows_with_words(backbone: TinyBackbone) -> None:
    backbone.unconditional_ids = lambda ids: ids[1:]


def keeps_one_too_many(backbone: TinyBackbone) -> None:
    keep = backbone.keep

    def kept(length):
        before = backbone.length
        keep(min(length + 1, before))
        backbone._open().length = length

    backbone.keep = kept


def keeps_everything(backbone: TinyBackbone) -> None:
    def kept(length):
        backbone._open().length = length

    backbone.keep = kept


def states_one_late(backbone: TinyBackbone) -> None:
    states = backbone.states
    backbone.states = lambda prompt, tokens: states(prompt, tokens).roll(-1, 1)


def states_in_the_open_session(backbone: TinyBackbone) -> None:
    states, begin = backbone.states, backbone.begin

    def replacing(prompt, tokens):
        result = states(prompt, tokens)
        begin(prompt)
        return result

    backbone.states = replacing


def states_need_the_last_token(backbone: TinyBackbone) -> None:
    states = backbone.states
    backbone.states = lambda prompt, tokens: states(prompt, tokens.sort(1).values)


def unchecked_codes(backbone: TinyBackbone) -> None:
    backbone.check_images = lambda tokens: None


def other_table(backbone: TinyBackbone) -> None:
    """Gives heads the embeddings before an aligner that the trunk is fed through."""
    table = backbone._table.clone()
    backbone.embed = lambda tokens: (table * 1.1)[tokens]


def shifted_codebook(backbone: TinyBackbone) -> None:
    backbone._codebook = torch.cat([backbone._codebook[:1], backbone._codebook])


def columns_for_rows(backbone: TinyBackbone) -> None:
    decode = backbone.decode
    rows, cols = backbone.grid.rows, backbone.grid.cols

    def transposed(tokens: Tensor) -> Tensor:
        backbone.check_images(tokens)
        return decode(tokens.unflatten(1, (cols, rows)).transpose(1, 2).flatten(1))

    backbone.decode = transposed


def a_weight_that_is_not_hashed(backbone: TinyBackbone) -> None:
    del backbone._hashed["table"]
    backbone._unhashed = nn.Embedding(3, 4).requires_grad_(False).eval()


def random_fingerprint(backbone: TinyBackbone) -> None:
    backbone.__dict__["fingerprint"] = str(torch.rand(()).item())


def trainable(backbone: TinyBackbone) -> None:
    backbone._image_head.requires_grad_(True)


def dropout(backbone: TinyBackbone) -> None:
    backbone._trunk.train()


def codebook_in_low_precision(backbone: TinyBackbone) -> None:
    backbone._codebook = backbone._codebook.to(backbone.dtype)


def open_after_moving(backbone: TinyBackbone) -> None:
    backbone.to = lambda device: backbone


def empty_prompts(backbone: TinyBackbone) -> None:
    prompt_ids = backbone.prompt_ids
    backbone.prompt_ids = lambda prompt: prompt_ids(prompt.strip() or "nothing")


def acausal_blocks(backbone: TinyBackbone) -> None:
    """Tokens of a block see those that follow them."""
    call = backbone._call
    backbone._call = lambda embeds, mask, positions, cache: call(
        embeds, None if mask is None else torch.ones_like(mask), positions, cache
    )


def blind_trees(backbone: TinyBackbone) -> None:
    """`forward_at` lets every new token see all others."""
    forward_at = backbone.forward_at
    backbone.forward_at = lambda tokens, places, sees: forward_at(tokens, places, torch.ones_like(sees))


def session_that_stays(backbone: TinyBackbone) -> None:
    """The second `begin` rolls back to the first one's prompt."""
    begin, first = backbone.begin, []

    def again(prompt):
        if not first:
            first.append(begin(prompt))
        else:
            backbone.keep(0)
        return first[0]

    backbone.begin = again


def wrong_width(backbone: TinyBackbone) -> None:
    backbone.width += 1


def flat_logits(backbone: TinyBackbone) -> None:
    backbone._image_head.weight.mul_(0.01)


BROKEN: dict[str, tuple[Callable[[TinyBackbone], None], ...]] = {
    "facts_are_consistent": (wrong_width,),
    "logits_are_plain": (flat_logits,),
    "block_equals_step": (acausal_blocks,),
    "trees_reduce_to_raster_order": (blind_trees,),
    "a_new_session_forgets": (session_that_stays,),
    "low_precision_spares_the_pixels": (codebook_in_low_precision,),
    "rows_end_as_written_out": (early_row_end, late_entry),
    "states_are_pre_norm": (post_norm_states, norm_twice, early_row_end),
    "states_equal_steps": (post_norm_harvest, states_one_late, states_need_the_last_token),
    "conditional_rows_come_first": (
        unconditional_first,
        interleaved_pairs,
        unconditional_rows_with_words,
    ),
    "batch_equals_single": (attended_padding, image_positions_count_padding, interleaved_pairs),
    "rollback_is_exact": (keeps_one_too_many, keeps_everything),
    "any_length_can_be_kept": (keeps_one_too_many, keeps_everything),
    "states_leave_the_session_alone": (states_in_the_open_session,),
    "nothing_but_whole_images_of_codes": (unchecked_codes,),
    "the_grid_is_all_there_is": (states_need_the_last_token,),
    "embeddings_are_what_is_fed": (other_table,),
    "codebook_has_a_vector_a_code": (shifted_codebook,),
    "pixels_lie_where_their_tokens_do": (columns_for_rows,),
    "every_weight_is_in_the_fingerprint": (a_weight_that_is_not_hashed,),
    "fingerprint_is_the_same_in_another_process": (random_fingerprint,),
    "nothing_trains": (trainable, dropout),
    "moving_closes_the_session": (open_after_moving,),
    "empty_prompts_are_refused": (empty_prompts,),
}
"""Mistakes by the check that has to see them."""


def broken_backbone(mistake: Callable[[TinyBackbone], None], dtype: str = "float32") -> SharedTrunk:
    """The tiny backbone with row ends, then `mistake`."""
    backbone = tiny_backbone(row_end=True, dtype=getattr(torch, dtype))
    mistake(backbone)
    return backbone


def _swap(rows: Tensor) -> Tensor:
    conditional, unconditional = rows.chunk(2)
    return torch.cat([unconditional, conditional])


def _unmasked(prompt: Prompt) -> Prompt:
    return replace(prompt, mask=torch.ones_like(prompt.mask))
