"""Weights: frozen, fingerprinted to the last, and exact where pixels need it."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from backbones.trunk import SharedTrunk
from tests.backbones.conformance.case import Case, raised


def fingerprint_is_the_same_in_another_process(case: Case) -> None:
    assert case.elsewhere in (None, case.backbone.fingerprint)
    assert case.load().fingerprint == case.backbone.fingerprint


def every_weight_is_in_the_fingerprint(case: Case) -> None:
    """One element of every tensor that the backbone holds, but for the VQ's that give pixels alone."""
    backbone = case.load()
    seen = {backbone.fingerprint}
    count = 1
    for name, weight in weights_of(backbone):
        element = weight.detach().view(-1)[-1:]
        kept = element.clone()
        element.add_(1)
        backbone.__dict__.pop("fingerprint")  # it is computed once
        seen.add(backbone.fingerprint)
        element.copy_(kept)
        count += 1
        assert len(seen) == count, f"{name} is not in the fingerprint"
    assert count > len(backbone._hashed)


def weights_of(backbone: SharedTrunk) -> Iterator[tuple[str, Tensor]]:
    """Every stored weight of the modules that a backbone or one of its parts holds."""
    found: set[int] = set()
    for path, module in modules_in(vars(backbone), ""):
        for name, weight in module.state_dict(keep_vars=True).items():
            if weight.is_floating_point() and weight.data_ptr() not in found:
                found.add(weight.data_ptr())
                yield f"{path}.{name}", weight


def modules_in(value: Any, path: str) -> Iterator[tuple[str, nn.Module]]:
    if isinstance(value, nn.Module):
        yield path, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if key != "vq":
                yield from modules_in(part, f"{path}.{key}")
    elif type(value).__module__.startswith("backbones.") and hasattr(value, "__dict__"):
        yield from modules_in(vars(value), path)


def nothing_trains(case: Case) -> None:
    modules = [module for _, module in modules_in(vars(case.backbone), "")]
    modules += [] if case.backbone.vq is None else [case.backbone.vq]
    for module in modules:
        assert not any(weight.requires_grad for weight in module.parameters())
        parts = [part for part in module.modules() if not isinstance(part, nn.Linear)]
        assert not any(part.training for part in parts), "dropout is on"
    assert not case.backbone.embed(torch.zeros(1, dtype=torch.long)).requires_grad


def low_precision_spares_the_pixels(case: Case) -> None:
    coarse, exact, tokens = case.load(dtype="bfloat16"), case.backbone, case.tokens()
    prompt = coarse.encode(case.prompts)
    step = coarse.begin(prompt)
    assert step.hidden.dtype == coarse.dtype == coarse.embed(tokens).dtype == torch.bfloat16
    assert step.logits.dtype == torch.float32
    spread = exact.begin(case.both()).logits
    assert (step.logits - spread).square().mean().sqrt() < 0.1 * spread.std(), "bf16 paints something else"
    assert coarse.fingerprint != exact.fingerprint
    if exact.paints:
        assert torch.equal(coarse.decode(tokens), exact.decode(tokens))
        assert coarse.codebook().dtype == torch.float32


def moving_closes_the_session(case: Case) -> None:
    backbone = case.load()
    backbone.begin(backbone.encode(case.prompts))
    assert backbone.to("cpu") is backbone
    assert "call begin" in raised(lambda: backbone.forward(case.tokens()[:, :1]))
