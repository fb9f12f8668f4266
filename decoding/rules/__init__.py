"""The tests of speculative decoding: which drafts stay, and what replaces the others."""

from collections.abc import Callable
from typing import Any

from decoding.options.rules import (
    AdditionRule,
    AmplifyRule,
    CoolSDRule,
    CSDRule,
    GSDRule,
    LanternPPRule,
    LanternRule,
    RuleOptions,
    StrictRule,
)
from decoding.rules.grouped import Grouped
from decoding.rules.pooled import Pooled
from decoding.rules.relaxed import Additive, Amplified, Annealed, Entropic
from decoding.rules.rule import Rule, Strict

_KINDS: dict[type, Callable[[Any], Rule]] = {
    StrictRule: lambda _: Strict(),
    AdditionRule: Additive,
    AmplifyRule: Amplified,
    CSDRule: Entropic,
    CoolSDRule: Annealed,
    GSDRule: Grouped,
    LanternRule: Pooled,
    LanternPPRule: Pooled,
}


def build_rule(options: RuleOptions) -> Rule:
    """The rule of these options."""
    return _KINDS[type(options)](options)
