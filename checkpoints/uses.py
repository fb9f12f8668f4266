"""What each kind of draft heads is and which decoders it is for, in the words of a card."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Use:
    """What heads of a kind are and what they are for."""

    summary: str
    decoders: str
    decoder: str
    """The one to begin with: lossless."""


_LAWFUL = "is lossless: its images follow the backbone's own law."
USES = {
    "ssd": Use(
        summary="Heads for Spatially Speculative Decoding (SSD, arXiv 2606.20543): they predict the states "
        "of image tokens ahead of the frozen backbone, which then verifies whole rows of a {rows}x{cols} "
        "token grid at a time.",
        decoders=f"`decoder=ssd_exact` {_LAWFUL} `decoder=ssd`, with a fixed number of verification rounds, "
        "is lossy: its images are close to that law, not drawn from it.",
        decoder="ssd_exact",
    ),
    "mtp": Use(
        summary="Heads for one-dimensional multi-token prediction, a rival of Spatially Speculative "
        "Decoding: they predict the states of the next tokens of a {rows}x{cols} token grid in painting "
        "order.",
        decoders=f"`decoder=mtp_strict` {_LAWFUL} `decoder=mtp`, with a fixed number of verification rounds, "
        "is lossy: its images are close to that law, not drawn from it.",
        decoder="mtp_strict",
    ),
    "eagle": Use(
        summary="A drafter in the manner of EAGLE (arXiv 2401.15077), a rival of Spatially Speculative "
        "Decoding: one transformer layer that runs ahead of the frozen backbone, token by token over a "
        "{rows}x{cols} token grid.",
        decoders=f"`decoder=eagle` {_LAWFUL} `decoder=lantern` and `decoder=lantern_pp`, with relaxed tests, "
        "are lossy: their images are close to that law, not drawn from it.",
        decoder="eagle",
    ),
}
