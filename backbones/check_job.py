"""Checks a copy of a backbone from its options: the reference, the load, the proofs, the slow painting."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor

from backbones.check import loaded, proofs
from backbones.contract import Backbone, Sampling
from backbones.errors import RowcastError
from backbones.proof import Law, Proof, forward_seconds, timed
from backbones.registry import device_of, family, load_backbone, rollout_prompts
from backbones.report import Report
from backbones.source import Source, first_line

CANDIDATES = 12
"""Prompts from the start of the model's own list, and as many from all over it, to look for lengths among."""
REFERENCE = 128
"""Tokens to compare with the library's own generate(): beyond the first row of every published grid."""

Painter = Callable[[Backbone, str], str]
"""Paints a prompt by autoregression and returns what was written, where."""


def check_copy(
    report: Report,
    model: Mapping[str, str | None],
    *,
    prompt: str | None,
    seed: int,
    warp: Callable[[Sampling], Law],
    paint: Painter | None,
) -> None:
    """Adds every proof to `report` as it finishes.

    Args:
        report: takes the lines.
        model: the options of `model`.
        prompt: what is painted; none takes the first of the model's own list.
        seed: of what is sampled.
        warp: makes laws of sampling settings (`decoding.warp`).
        paint: paints the last proof; none leaves it out.

    Raises:
        RowcastError: if an option is wrong, the files cannot be loaded, or the model cannot take the prompt.
    """
    if model["device"] == "meta":
        raise RowcastError(
            "expected a device that computes, found meta: pass model.device=auto, cpu or cuda:0"
        )
    own = rollout_prompts(str(model["name"]))
    own = own[:CANDIDATES] + own[:: max(1, len(own) // CANDIDATES)][1:CANDIDATES]
    prompts = own if prompt is None else [prompt, *own]
    reference = greedy_reference(model, prompts[0])
    start = time.perf_counter()
    backbone = load_backbone(**model)  # pyright: ignore[reportArgumentType]
    report.add(replace(loaded(backbone), name="load", seconds=time.perf_counter() - start))
    backbone.encode(prompts[:1])  # a prompt that the model can't take is the user's mistake, not the copy's
    found = proofs(
        backbone,
        official=warp(backbone.sampling),
        plain=warp(Sampling(guidance=backbone.sampling.guidance)),
        prompts=prompts,
        seed=seed,
        reference=reference,
        untrained=model["weights"] == "random",
    )
    for proof in found:
        report.add(proof)
    if paint is not None and backbone.paints:
        report.add(timed("painting", partial(painting, backbone, prompts[0], paint)))


def greedy_reference(model: Mapping[str, str | None], prompt: str) -> Int[Tensor, " T"] | Proof:
    """The most likely tokens of a prompt by the library's own generate(), or why there are none.

    It is asked before the backbone is loaded, so that the weights are never held twice.

    Raises:
        RowcastError: if the files cannot be loaded.
    """
    source = Source(**{name: value for name, value in model.items() if name != "device"})  # pyright: ignore
    generate = getattr(family(source.name), "greedy_reference", None)
    if generate is None or source.is_random:
        found = "no files to load into it" if source.is_random else "no generate() for this family"
        return Proof(expected="the tokens of the library's own generate()", found=found, ok=None)
    print(f"{REFERENCE} tokens by the library's own generate() first ...", file=sys.stderr)
    try:
        return generate(source, prompt, REFERENCE, device_of(str(model["device"])))
    except RowcastError:
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {first_line(error)}"
        return Proof(expected="the tokens of the library's own generate()", found=found, ok=False)
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def painting(backbone: Backbone, prompt: str, paint: Painter) -> Proof:
    """One image, for the eye."""
    seconds = backbone.grid.size * forward_seconds(backbone, prompt)
    duration = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    print(
        f"painting {backbone.grid.size} tokens, about {duration}; paint=false leaves it out", file=sys.stderr
    )
    return Proof(expected=f"a picture of {prompt!r}: look at it", found=paint(backbone, prompt), ok=True)
