"""The scorers with their models loaded; what is missing or broken is named before anything is judged."""

from collections.abc import Mapping, Sequence

from eval.scorers.backends.load import Place
from eval.scorers.clip_scorer import ClipScore
from eval.scorers.dpg import Question
from eval.scorers.dpg_scorer import Dpg
from eval.scorers.geneval_scorer import GenEval

SHAPES = "shapes"
"""The detector that needs no weights, for flat drawings."""


def build_geneval(detector: Place, colours: Place, max_overlap: float = 1.0) -> GenEval:
    """GenEval's scorer.

    Args:
        detector: a Mask2Former, or `shapes`, which names the colours too.
        colours: the CLIP that names colours.
        max_overlap: share of a box that a more confident one may cover.

    Raises:
        RowcastError: if a model is missing or broken.
    """
    if detector.path == SHAPES:
        from eval.scorers.backends.shapes import Shapes

        shapes = Shapes()
        return GenEval(shapes, shapes, max_overlap)
    from eval.scorers.backends.clip import Clip, ClipColours
    from eval.scorers.backends.mask2former import Mask2Former

    return GenEval(Mask2Former(detector), ClipColours(Clip(colours)), max_overlap)


def build_clip(place: Place, preset: str) -> ClipScore:
    """CLIP-score's.

    Raises:
        RowcastError: if the model is missing or broken.
    """
    from eval.scorers.backends.clip import Clip

    return ClipScore(Clip(place), preset)


def build_dpg(place: Place, questions: Mapping[str, Sequence[Question]]) -> Dpg:
    """DPG-Bench's.

    Raises:
        RowcastError: if the model is missing or broken.
    """
    from eval.scorers.backends.vqa import load_vqa

    return Dpg(load_vqa(place), questions)
