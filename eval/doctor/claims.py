"""What heads claim to predict, held against what they do predict on images that the backbone paints now."""

from collections.abc import Callable, Mapping

from backbones.fingerprint import NORM_TAP
from backbones.proof import Proof
from data.harvest import check_harvest
from eval.doctor.case import Case
from eval.doctor.prediction import Evidence, distance_of
from heads.offsets import AnyOffset, Offset

MARGIN = 0.98
"""Something else is predicted better if its error is below this share of the claimed one's. The
places are the same, so that little of the difference is chance."""

Errors = Mapping[str, float]
"""Of one head, by what it is compared with."""


def norm_side(case: Case) -> Proof:
    """States before the final norm: by word of the bundle, live logits and predictions."""
    expected = f"heads that predict {NORM_TAP} states, as the backbone gives them"
    if case.config.backbone.states != NORM_TAP:
        return Proof(expected=expected, found=case.config.backbone.states, ok=False, advice=case.retrain)
    live = f"live logits within {check_harvest(case.backbone, case.rollouts[:2]).error:.1e}"
    if case.evidence is None:
        return Proof(expected=expected, found=f"{live}; {case.not_asked}", ok=None)
    nearest = min(case.evidence.bank.offsets, key=lambda each: distance_of(each, case.backbone.grid))
    place = distance_of(nearest, case.backbone.grid)
    before, after = (case.evidence.errors(nearest, [place], normed=normed)[0] for normed in (False, True))
    return Proof(
        expected=expected,
        found=f"{live}; {nearest.label} errs by {before:.0%} before the norm, {after:.0%} after it",
        ok=after >= MARGIN * before,
        advice=f"the heads were trained on states after the norm: {case.retrain}",
    )


def offset(case: Case) -> Proof:
    """Heads along the row (or the raster) predict the place that they claim, from state and token in step."""
    return _best_at_home(
        case,
        "heads that predict their own places best, fed with the token that each state emits",
        _neighbours,
        lambda each: not _goes_down(each),
        "states, tokens or targets were paired wrongly",
    )


def grid(case: Case) -> Proof:
    """Rows are as long as in training: by word of the bundle, and by what heads down a column predict."""
    trained, live = case.config.backbone, case.backbone.grid
    expected = f"{trained.rows}x{trained.cols} tokens, and heads that predict best by rows of {trained.cols}"
    if (trained.rows, trained.cols) != (live.rows, live.cols):
        found = f"{live.rows}x{live.cols} tokens"
        return Proof(expected=expected, found=found, ok=False, advice="pass model.size= as in training")
    advice = "rows were counted wrongly in training (row ends, another size?)"
    return _best_at_home(case, expected, _other_rows, _goes_down, advice)


def _best_at_home(
    case: Case,
    expected: str,
    compare: Callable[[Evidence, AnyOffset], tuple[float, Errors]],
    asked: Callable[[AnyOffset], bool],
    advice: str,
) -> Proof:
    """Every head that is asked predicts its own place better than what it is compared with."""
    if case.evidence is None:
        return Proof(expected=expected, found=case.not_asked, ok=None)
    seen = []
    for each in filter(asked, case.evidence.bank.offsets):
        own, others = compare(case.evidence, each)
        for name, error in others.items():
            if error < MARGIN * own:
                found = f"{each.label} errs by {own:.0%} at its own place, {error:.0%} {name}"
                return Proof(expected=expected, found=found, ok=False, advice=f"{advice}: {case.retrain}")
        seen.append(f"{each.label} {own:.0%}")
    found = f"errors beside copying: {', '.join(seen)}" if seen else "no such heads"
    return Proof(expected=expected, found=found, ok=True if seen else None)


def _neighbours(evidence: Evidence, each: AnyOffset) -> tuple[float, Errors]:
    """A place before and behind, and the embedding of the token before and after."""
    place = distance_of(each, evidence.grid)
    own, behind = evidence.errors(each, [place, place + 1])
    others = {"a place further": behind}
    if place > 1:
        others["a place nearer"] = evidence.errors(each, [place, place - 1])[1]
    for lag, name in ((1, "there with the next token"), (-1, "there with the token before")):
        others[name] = evidence.errors(each, [place], lag=lag)[0]
    return own, others


def _other_rows(evidence: Evidence, each: AnyOffset) -> tuple[float, Errors]:
    """Rows of other lengths: a little longer or shorter, half, double."""
    cols, down = evidence.grid.cols, distance_of(each, evidence.grid) // evidence.grid.cols
    lengths = {cols - 2, cols - 1, cols + 1, cols + 2, cols // 2, 2 * cols}
    fits = sorted(one for one in lengths if 0 < down * one < evidence.grid.size - cols)
    own, *others = evidence.errors(each, [down * one for one in (cols, *fits)])
    return own, {f"by rows of {one}": error for one, error in zip(fits, others, strict=True)}


def _goes_down(each: AnyOffset) -> bool:
    return isinstance(each, Offset) and each.down > 0
