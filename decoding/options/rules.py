"""Options of the tests that drafts are put to: the strict one, and the relaxed ones by their papers' names.

A decoder takes one as a group of options with its `name`, `rule: {name: gsd, group: 14}`: a field with
`metadata=named(RULES)`. Every relaxed rule is the strict one at zero relaxation.
"""

from dataclasses import dataclass, field

from backbones.rules import above, at_least, count, one_of, within


@dataclass(frozen=True, kw_only=True)
class StrictRule:
    """Speculative sampling; keeps the backbone's law."""


@dataclass(frozen=True, kw_only=True)
class AdditionRule:
    """A constant is added to the acceptance probability (a baseline of arXiv 2508.07747)."""

    epsilon: float = field(default=0.05, metadata=within(0, 1))
    """What is added; 0 is strict."""


@dataclass(frozen=True, kw_only=True)
class AmplifyRule:
    """The acceptance probability is multiplied (a baseline of arXiv 2508.07747)."""

    factor: float = field(default=3.0, metadata=at_least(1))
    """By how much; 1 is strict."""


@dataclass(frozen=True, kw_only=True)
class CSDRule:
    """Relaxed where the target law is uncertain and near to the draft's (CSD, arXiv 2606.27829)."""

    weight: float = field(default=0.05, metadata=at_least(0))
    """Added to the acceptance probability for each unit of entropy; 0 is strict."""
    threshold: float = field(default=0.5, metadata=within(0, 1))
    """Only drafts whose law is nearer than this to the target in total variation are relaxed."""
    normalise: str = field(default="none", metadata=one_of("none", "log_k"))
    """`none`: entropy in nats; `log_k`: as a share of its largest value, the logarithm of the support."""


@dataclass(frozen=True, kw_only=True)
class CoolSDRule:
    """The acceptance probability is multiplied by a factor that cools down (Cool-SD, arXiv 2601.09212)."""

    scale: float = field(default=2.0, metadata=above(0, 1000))
    """The factor of index 0; at most 1 is strict."""
    decay: float = field(default=0.7, metadata=within(-5, 5))
    """The factor falls by exp(-decay) an index, never below 1; a negative one makes it grow."""
    by: str = field(default="place", metadata=one_of("place", "round"))
    """What the index counts: drafts in the block, or rounds that a draft has been through."""


@dataclass(frozen=True, kw_only=True)
class GSDRule:
    """A draft is tested together with tokens that are about as likely as it (GSD, arXiv 2508.07747)."""

    group: int = field(default=14, metadata=count(1))
    """Tokens tested together, the draft among them; 1 is strict."""
    probability: float = field(default=0.15, metadata=within(0, 1))
    """Members differ from the draft by less than this in target probability."""
    distance: float | None = field(default=None, metadata=above(0))
    """Members' input embeddings are nearer than this to the draft's, squared; none: at any distance."""


@dataclass(frozen=True, kw_only=True)
class LanternRule:
    """A draft also counts the mass of its neighbours in the codebook (LANTERN, arXiv 2410.03355)."""

    neighbours: int = field(default=1000, metadata=count(0))
    """Nearest codes looked at (all the others where there are fewer); 0 is strict."""
    bound: float = field(default=0.1, metadata=within(0, 1))
    """Most mass that may be counted in, which bounds the total variation; 0 is strict."""


@dataclass(frozen=True, kw_only=True)
class LanternPPRule:
    """LANTERN with a bound in proportion to the draft's own mass (LANTERN++, arXiv 2502.06352)."""

    neighbours: int = field(default=1000, metadata=count(0))
    """Nearest codes looked at (all the others where there are fewer); 0 is strict."""
    ratio: float = field(default=2.0, metadata=at_least(1))
    """Most mass of draft and neighbours together, in units of the draft's own; 1 is strict."""


RuleOptions = (
    StrictRule | AdditionRule | AmplifyRule | CSDRule | CoolSDRule | GSDRule | LanternRule | LanternPPRule
)

RULES: dict[str, type] = {
    "strict": StrictRule,
    "addition": AdditionRule,
    "amplify": AmplifyRule,
    "csd": CSDRule,
    "cool_sd": CoolSDRule,
    "gsd": GSDRule,
    "lantern": LanternRule,
    "lantern_pp": LanternPPRule,
}
"""The options of each rule by its name, without the name itself."""
