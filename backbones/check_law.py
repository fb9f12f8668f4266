"""Proofs about the law of the next token: it is the same however it is computed, and a trained model's."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from backbones.contract import Backbone
from backbones.errors import RowcastError
from backbones.proof import TOLERANCES, Law, Proof, Walk, error_of, lengths_of, teacher_forced, whole

UNTRAINED = 0.88
"""Share of log V from which on an entropy means that nothing was learned. Random weights of the published
shapes have 0.9 to 1; the pocket model has 0.3, and larger ones should have less than 0.8."""


@torch.no_grad()
def guidance(backbone: Backbone, walk: Walk, prompts: Sequence[str]) -> Proof:
    """Conditional rows come first and know the words; unconditional rows do not."""
    tokens, texts = walk.tokens[:1], _of_one_length(backbone, prompts)
    one, other = (teacher_forced(backbone, backbone.encode([text]), tokens) for text in texts)
    alone = teacher_forced(backbone, backbone.encode(texts[:1], guided=False), tokens)
    order, leak, told = error_of(one[:1], alone), error_of(other[1:], one[1:]), error_of(other[:1], one[:1])
    tolerance = TOLERANCES[backbone.dtype]
    return Proof(
        expected=f"one branch that knows the words, the first, and one that does not, within {tolerance:.1%}",
        found=f"other words change the first by {told:.0%}, the second by {100 * leak:.2g}%",
        ok=max(order, leak) <= tolerance < told,
        advice="encode() mixes the branches up, or the text embeddings are not those of the model",
    )


@torch.no_grad()
def pre_norm(backbone: Backbone, walk: Walk) -> Proof:
    """States of a teacher-forced forward are the live ones, and come before the final norm."""
    prompt, count = backbone.encode(walk.prompts[:1]), walk.tokens.shape[1]
    live = teacher_forced(backbone, prompt, walk.tokens[:1])
    states = backbone.states(prompt, whole(walk.tokens[:1], backbone.grid.size))[:, :count]
    tolerance, error = TOLERANCES[backbone.dtype], error_of(backbone.head(states), live)
    normed = error_of(backbone.head(backbone.parts["norm"](states)), live)
    telling = normed > 4 * error  # a norm whose gains are all alike can be applied twice and nobody knows
    return Proof(
        expected=f"head(states) within {tolerance:.1%} of the live logits, of normed states far from it",
        found=f"{100 * error:.2g}% off, normed states {normed:.0%}"
        + ("" if telling else ", which tells nothing"),
        ok=False if not error <= tolerance else True if telling else None,
        advice="states() must return what the last layer gives, before the final norm",
    )


@torch.no_grad()
def blocks(backbone: Backbone, walk: Walk) -> Proof:
    """A whole block gives the laws that single tokens gave."""
    error = error_of(teacher_forced(backbone, walk.prompt, walk.tokens), walk.logits)
    return _agreement(
        backbone,
        error,
        f"in a block of {walk.tokens.shape[1] - 1} tokens",
        "causal masks, positions or row ends of a block are wrong",
    )


@torch.no_grad()
def batches(backbone: Backbone, walk: Walk) -> Proof:
    """An image alone has the laws that it has beside another, behind left padding."""
    both = teacher_forced(backbone, walk.prompt, walk.tokens)
    errors = []
    for i, text in enumerate(walk.prompts):
        single = teacher_forced(backbone, backbone.encode([text]), walk.tokens[i : i + 1])
        errors.append(error_of(single, both[i::2]))
    padded = "prompts of two lengths" if not walk.prompt.mask.all() else "no padding in this family"
    advice = "padding is attended to, or counted in the positions"
    return _agreement(backbone, max(errors), padded, advice)


@torch.no_grad()
def rollback(backbone: Backbone, walk: Walk) -> Proof:
    """A session that took back a wrong block is, bit for bit, the session that never took it."""
    wrong, end = (walk.tokens + 1) % backbone.codes, min(walk.tokens.shape[1] - 1, backbone.grid.cols + 4)
    results = []
    for detour in (False, True):
        backbone.begin(walk.prompt)
        backbone.forward(walk.tokens[:, :3])
        if detour:
            backbone.forward(wrong[:, 3:end])
            backbone.keep(3)
        results.append(backbone.forward(walk.tokens[:, 3:end]))
    apart = float((results[0].logits - results[1].logits).abs().max())
    return Proof(
        expected="the same bits after a block taken back",
        found=f"largest difference {apart:g}",
        ok=torch.equal(results[0].logits, results[1].logits),
        advice="the cache keeps something of what was taken back",
    )


@torch.no_grad()
def greedy(backbone: Backbone, law: Law, prompt: str, reference: Int[Tensor, " T"] | Proof) -> Proof:
    """The most likely token is the one that the library's own `generate` chose, at every place.

    Fed with `reference`, so that one near-tie does not end the comparison.
    """
    if isinstance(reference, Proof):
        return reference
    reference = reference[: backbone.grid.size].to(backbone.device)
    logits = teacher_forced(backbone, backbone.encode([prompt]), reference[None])
    laws = law(logits, 2)[0].log()
    best, chosen = laws.max(-1).values, laws.gather(-1, reference[:, None])[:, 0]
    gaps = best - chosen
    differ, widest = int((gaps > 0).sum()), float(gaps.max())
    slack = TOLERANCES[backbone.dtype] * backbone.sampling.guidance * float(logits.std(-1).mean())
    first = f", another at {int((gaps > 0).nonzero()[0])}" if differ else ""
    return Proof(
        expected=f"those of the library's own generate(), but for near-ties within {slack:.2g} nats",
        found=f"{len(reference) - differ} of {len(reference)} equal{first}, largest gap {widest:.2g} nats",
        ok=widest <= slack and differ <= len(reference) / 10,
        advice="output layer, special tokens, row ends or guidance are not those of the model",
    )


def trained(backbone: Backbone, walk: Walk) -> Proof:
    """The law given the words is far from uniform."""
    laws = walk.logits[:2].log_softmax(-1)
    entropy = float(-(laws.exp() * laws).sum(-1).mean())
    share = entropy / math.log(backbone.codes)
    return Proof(
        expected=f"an entropy below {UNTRAINED:.0%} of log V",
        found=f"{entropy:.2f} nats, {share:.0%}" + ("" if share < UNTRAINED else ": looks untrained"),
        ok=share < UNTRAINED,
        advice="the weights are random, of another model or read into the wrong places: fetch them again",
    )


def _agreement(backbone: Backbone, error: float, where: str, advice: str) -> Proof:
    """Two ways to the same logits."""
    tolerance = TOLERANCES[backbone.dtype]
    return Proof(
        expected=f"the same logits within {tolerance:.1%} of their spread, {where}",
        found=f"{100 * error:.2g}% off",
        ok=error <= tolerance,
        advice=advice,
    )


def _of_one_length(backbone: Backbone, prompts: Sequence[str]) -> tuple[str, str]:
    """Two prompts that take equally many tokens: the unconditional branch may follow their length."""
    by_length: dict[int, str] = {}
    for prompt, length in lengths_of(backbone, prompts).items():
        if length in by_length:
            return by_length[length], prompt
        by_length[length] = prompt
    raise RowcastError(f"expected two of {len(prompts)} prompts to be of equal length, found none: report it")
