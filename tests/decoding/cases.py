"""The joint law of whole images by chi-square against the enumerated law of a tiny backbone."""

import itertools
from dataclasses import replace

import torch
from scipy import stats

from decoding.engine import generate
from decoding.methods.ssd import SSD
from decoding.methods.ssd_exact import SSDExact
from decoding.noise import Noise
from decoding.options import parse_options
from decoding.warp import Warp
from tests.decoding.banks import random_bank

IMAGES = 4_000
ALONE = 2_000
"""Of a decoder that paints one at a time; the controls show that it is enough."""
LEAST = 1e-4
"""A law is refused below this p-value."""


class Case:
    """A tiny grid, its enumerated joint law, and draft heads that know nothing."""

    def __init__(self, backbone, temperature):
        self.backbone = backbone
        self.bank = random_bank(backbone.width)
        codes, size = backbone.codes, backbone.grid.size
        images = torch.tensor(list(itertools.product(range(codes), repeat=size)))
        self.sampling = replace(backbone.sampling, temperature=temperature)
        guided = self.sampling.guidance != 1
        states = backbone.states(backbone.encode(["a b"] * len(images), guided), images)
        laws = Warp(self.sampling)(backbone.head(states), 1 + guided).double()
        self.law = laws.gather(2, images[..., None])[..., 0].prod(1)
        self.weights = codes ** torch.arange(size - 1, -1, -1)

    def counts(self, method, images):
        counts = torch.zeros(len(self.law), dtype=torch.long)
        for samples in torch.arange(images).split(20_000 if method.lockstep else 1):
            noise = Noise(7, ["a b"] * len(samples), samples.tolist())
            tokens = generate(self.backbone, ["a b"] * len(samples), method, noise, self.sampling).tokens
            counts += torch.bincount(tokens @ self.weights, minlength=len(self.law))
        return counts

    def p_value(self, method, images=None):
        images = images or (IMAGES if method.lockstep else ALONE)
        counts = self.counts(method, images)
        order = (self.law * images).sort().indices
        expected, observed = (self.law * images)[order], counts[order].double()
        # The rarest cells together make one that is expected at least five times.
        few = int((expected.cumsum(0) < 5).sum()) + 1
        few = max(few, int((expected < 5).sum()))
        expected = torch.cat([expected[:few].sum()[None], expected[few:]])
        observed = torch.cat([observed[:few].sum()[None], observed[few:]])
        return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue

    def distance(self, method, images=IMAGES):
        return float((self.counts(method, images) / images - self.law).abs().sum() / 2)

    def ssd(self, kind=SSD, **options):
        return kind(parse_options("ssd", options), self.bank)

    def exact(self, kind=SSDExact, correction=0.0, **options):
        bank = self.bank
        if correction:
            bank = random_bank(self.backbone.width, correction=correction)
            bank.correction.down.weight.mul_(8)  # laws so far off that a wrong use of them shows
        return kind(parse_options("ssd_exact", options), bank)
