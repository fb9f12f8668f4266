"""The pocket model's prompt format, the same in pretraining and in use.

`<s> a red sneaker on blue <begin_of_image>`; unconditional: every id between the first and the last
replaced by the pad id and attended, as Janus does it. Batches are padded on the left.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from backbones.errors import RowcastError
from backbones.pocket.architecture import BOI


def prompt_ids(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Token ids of one prompt; the last one predicts image token 0.

    Raises:
        RowcastError: if the prompt is empty, too long or holds a word that the model never saw.
    """
    words = prompt.lower().split()
    limit = tokenizer.model_max_length - 2
    if not 1 <= len(words) <= limit:
        raise RowcastError(f"expected a prompt of 1 to {limit} words, found {len(words)}: {prompt[:80]!r}")
    special = set(tokenizer.all_special_tokens)
    known = tokenizer.get_vocab()
    unknown = [word for word in words if word not in known or word in special]
    if unknown:
        choices = ", ".join(sorted(set(known) - special))
        raise RowcastError(
            f"expected words that the pocket model knows, found {unknown[0]!r} in {prompt[:80]!r}: "
            f"write a prompt such as 'a red sneaker on blue' with {choices}"
        )
    ids = tokenizer.convert_tokens_to_ids([str(tokenizer.bos_token), *words, BOI])
    assert isinstance(ids, list)
    return ids


def unconditional_ids(ids: list[int], pad: int) -> list[int]:
    """The same prompt with its words replaced by pads."""
    return [ids[0], *[pad] * (len(ids) - 2), ids[-1]]


def left_padded(rows: list[list[int]], pad: int) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"]]:
    """Rows of different lengths as one batch and its mask (true where a row has a token)."""
    length = max(map(len, rows))
    ids = torch.tensor([[pad] * (length - len(row)) + row for row in rows])
    mask = torch.tensor([[False] * (length - len(row)) + [True] * len(row) for row in rows])
    return ids, mask
