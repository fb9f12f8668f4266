"""The causes in the order in which one hides the next. Each is a proof that it does not hold."""

from collections.abc import Callable, Iterator, Sequence

from backbones.proof import Proof, timed
from eval.doctor import claims, facts
from eval.doctor.case import Case

CAUSES: dict[str, Callable[[Case], Proof]] = {
    "norm side": claims.norm_side,
    "dtype": facts.dtype,
    "offset": claims.offset,
    "grid": claims.grid,
    "guidance": facts.guidance,
    "sampling drift": facts.sampling,
    "fingerprint": facts.fingerprint,
    "library version": facts.library,
    "acceptance": facts.acceptance,
}


def examine(case: Case) -> Iterator[Proof]:
    """Every proof as it finishes."""
    for name, cause in CAUSES.items():
        yield timed(name, lambda cause=cause: cause(case))


def first_cause(proofs: Sequence[Proof]) -> str:
    """The diagnosis in a line."""
    for proof in proofs:
        if proof.ok is False:
            return f"first cause: {proof.name}: {proof.advice}"
    untested = [proof.name for proof in proofs if proof.ok is None]
    return "none of the known causes" + (f"; untested: {', '.join(untested)}" if untested else "")
