"""Proofs that a copy of a backbone's weights is right, and that its adapter reads them right, in order.

A proof says what was expected, what was found, and whether they agree. Guidance and sampling come in as a
`Law`, since `decoding` alone defines them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial

from jaxtyping import Int
from torch import Tensor

from backbones.check_law import batches, blocks, greedy, guidance, pre_norm, rollback, trained
from backbones.check_pixels import coherent, pixels
from backbones.contract import Backbone
from backbones.proof import Law, Proof, Walk, lengths_of, sample_rows, timed


def proofs(
    backbone: Backbone,
    *,
    official: Law,
    plain: Law,
    prompts: Sequence[str],
    seed: int,
    reference: Int[Tensor, " T"] | Proof,
    untrained: bool,
) -> Iterator[Proof]:
    """Every proof that this backbone can be given, one after the other.

    Args:
        backbone: as it was loaded.
        official: guidance and sampling of the family.
        plain: guidance alone.
        prompts: some of the family's own.
        seed: of what is sampled.
        reference: the most likely tokens of the first prompt by the library's own generate(), or why there
            are none.
        untrained: the weights are random on purpose.
    """
    yield timed("facts", partial(facts, backbone))
    yield timed("words", partial(words, backbone, prompts[0]))
    yield timed("greedy tokens", partial(greedy, backbone, plain, prompts[0], reference))
    walks: list[Walk] = []
    yield timed("sampling", partial(sampling, backbone, official, prompts, seed, walks))
    for walk in walks:  # one, or none where sampling failed
        yield timed("guidance", partial(guidance, backbone, walk, prompts))
        yield timed("pre-norm states", partial(pre_norm, backbone, walk))
        yield timed("block against step", partial(blocks, backbone, walk))
        yield timed("batch against single", partial(batches, backbone, walk))
        yield timed("rollback", partial(rollback, backbone, walk))
        yield _unless(untrained, timed("trained", partial(trained, backbone, walk)))
    if backbone.paints:
        yield timed("pixels", partial(pixels, backbone, seed))
        for walk in walks:
            yield _unless(untrained, timed("coherent", partial(coherent, backbone, walk, seed)))
    else:
        yield timed("pixels", no_pixels)
    yield timed("fingerprint", partial(fingerprint, backbone))


def loaded(backbone: Backbone) -> Proof:
    """How much was loaded, as what, to where."""
    weights = {id(weight): weight for part in backbone.parts.values() for weight in part.parameters()}
    count = sum(weight.numel() for weight in weights.values())
    kind, pixels = str(backbone.dtype).removeprefix("torch."), "with" if backbone.paints else "without"
    found = f"{count / 1e6:,.3f} million weights in {kind} on {backbone.device}, {pixels} pixels"
    found += "" if backbone.source is None else f", {backbone.source}"
    return Proof(expected="every weight of the model", found=found, ok=True)


def facts(backbone: Backbone) -> Proof:
    """What the checkpoint says of itself."""
    grid = backbone.grid
    limits = [f"{name} {value:g}" for name, value in asdict(backbone.sampling).items() if value is not None]
    found = f"{grid.rows}x{grid.cols} tokens of {backbone.codes} codes, states {backbone.width} wide, "
    return Proof(expected="those of the model's card", found=found + ", ".join(limits), ok=True)


def words(backbone: Backbone, prompt: str) -> Proof:
    """The words of a prompt can be read back from its ids, special tokens around them."""
    spelled = backbone.spell(prompt)
    if not spelled:
        return Proof(expected="words as ids", found="prompts that are no text", ok=None)
    shown = [f"{number} {text!r}" for number, text in spelled]
    found = f"{len(spelled)} ids: " + ", ".join(shown if len(shown) < 9 else [*shown[:4], "...", *shown[-4:]])
    return Proof(
        expected=f"{prompt!r} read back from its ids",
        found=found,
        ok=_letters(prompt) in _letters("".join(text for _, text in spelled)),
        advice="pass the tokenizer that was published with the model",
    )


def sampling(backbone: Backbone, law: Law, prompts: Sequence[str], seed: int, walks: list[Walk]) -> Proof:
    """Samples what further proofs need, of the shortest prompt and the longest, and adds it to `walks`."""
    lengths = lengths_of(backbone, prompts)
    pair = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
    found = sample_rows(backbone, law, pair, seed)
    finite = bool(found.logits.isfinite().all())
    walks += [found] if finite else []
    return Proof(
        expected="finite logits",
        found=f"{found.tokens.shape[1]} tokens of 2 images, {1000 * found.seconds:.0f} ms a forward"
        + ("" if finite else ", not all of them finite"),
        ok=finite,
        advice="set model.dtype=float32",
    )


def no_pixels() -> Proof:
    """Tokens can be had without pictures."""
    return Proof(expected="pictures", found="no VQ weights: pass model.pixels to test them too", ok=None)


def fingerprint(backbone: Backbone) -> Proof:
    """What heads will be tied to."""
    return Proof(expected="a hash over every weight", found=backbone.fingerprint, ok=True)


def _unless(untrained: bool, proof: Proof) -> Proof:
    """A failure of random weights to look trained is none."""
    if untrained and proof.ok is False:
        return replace(proof, ok=None, found=f"{proof.found}, as random weights do")
    return proof


def _letters(text: str) -> str:
    """Without what tokenizers and cleaning change."""
    return "".join(filter(str.isalnum, text.casefold()))
