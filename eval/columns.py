"""The quality columns: what each is called, which way is better, and how small a difference counts as none.

A column's name may carry a protocol behind a slash (`geneval/mask2former-hf`): scores of two protocols are
two columns, never averaged. The margins are conventions, stated here and printed beside every test.
"""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Column:
    """One score of an image."""

    name: str
    title: str
    higher_is_better: bool
    margin: float | None
    """Of the equivalence test, in the unit of the score."""
    form: str
    """How a value is written."""
    share: bool = False
    """Whether the values are between 0 and 1 and shown in per cent."""
    balanced: bool = False
    """Whether categories count alike in the mean, not prompts."""
    ratio: bool = False
    """Whether the values are logarithms, and differences are shown as what they multiply by, in per cent."""

    def shown(self, value: float) -> float:
        """A mean value, out of its logarithm."""
        return math.exp(value) if self.ratio else value

    def text(self, value: float) -> str:
        """A mean value, written."""
        return self.form.format(100 * value if self.share else self.shown(value))

    def change(self, value: float, sign: bool = True) -> str:
        """A difference, or with no sign the size of one."""
        form = self.form.replace(":", ":+") if sign else self.form
        if self.ratio:
            return f"{100 * math.expm1(value):{'+' if sign else ''}.1f} %"
        return form.format(100 * value if self.share else value)


def _lower(name: str, title: str, margin: float) -> Column:
    return Column(name=name, title=title, higher_is_better=False, margin=margin, form="{:.3f}")


def _share(name: str, title: str, margin: float | None, balanced: bool = False) -> Column:
    return Column(
        name=name,
        title=title,
        higher_is_better=True,
        margin=margin,
        form="{:.1f}",
        share=True,
        balanced=balanced,
    )


NLL, CONDITIONAL = "nll", "nll_conditional"

KNOWN = {
    column.name: column
    for column in (
        _lower(NLL, "NLL", 0.1),
        _lower(CONDITIONAL, "NLL, conditional", 0.1),
        Column(name="clip", title="CLIP-score", higher_is_better=True, margin=0.2, form="{:.2f}"),
        _share("dpg", "DPG %", 0.01),
        _share("geneval", "GenEval %", 0.02, balanced=True),
        _share("garment", "garment %", 0.05),
        _share("colour", "colour %", 0.05),
        _share("background", "background %", 0.05),
    )
}
"""By name, in the order in which tables show them."""


def column(name: str) -> Column:
    """The column of a score; an unknown one is shown as it is, higher better, and never called equivalent."""
    kind, _, protocol = name.partition("/")
    if kind not in KNOWN:
        return Column(name=name, title=name, higher_is_better=True, margin=None, form="{:.4g}")
    known = KNOWN[kind]
    return replace(known, name=name, title=f"{known.title} ({protocol})" if protocol else known.title)


def ordered(names: set[str]) -> list[str]:
    """Known columns first, in their order; then the others by name."""
    places = {kind: place for place, kind in enumerate(KNOWN)}
    return sorted(names, key=lambda name: (places.get(name.partition("/")[0], len(places)), name))
