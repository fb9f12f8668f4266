"""The pocket model's prompt format, the same in pretraining and in use.

`<s> a red sneaker on blue <begin_of_image>`, whole words only.
"""

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
