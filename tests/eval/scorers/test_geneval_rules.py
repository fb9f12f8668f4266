"""Golden cases of every GenEval rule, each boundary on both sides; and defects that are the rule."""

import hashlib

import numpy as np
import pytest

from backbones.errors import RowcastError
from eval.scorers.geneval import (
    CLASS_NAMES,
    TAGS,
    Detection,
    objects_by_name,
    overlap,
    relations,
    require_metadata,
    verdict,
)

pytestmark = pytest.mark.unit

HERE = (0.0, 0.0, 10.0, 10.0)


def seen(name, score=0.95, box=HERE):
    return Detection(name=name, score=score, box=corners(*box))


def corners(*edges):
    return tuple(map(float, edges))


def judged(detections, include=(), exclude=(), tag="two_object", colours=()):
    answers = iter(colours)
    return verdict(
        objects_by_name(detections, tag),
        {"include": list(include), "exclude": list(exclude)},
        lambda _, found: [next(answers) for _ in found],
    )


def clause(name, count=1, **more):
    return {"class": name, "count": count, **more}


def test_the_classes_are_those_of_the_official_file():
    listed = "".join(f"{name}\n" for name in CLASS_NAMES)
    digest = hashlib.sha256(listed.encode()).hexdigest()
    assert digest.startswith("608f6a0e")
    assert digest.endswith("bacd")
    assert sum(TAGS.values()) == 553


@pytest.mark.parametrize(("tag", "threshold"), [("two_object", 0.3), ("counting", 0.9)])
def test_confidence_has_to_exceed_the_threshold(tag, threshold):
    assert not objects_by_name([seen("cat", threshold)], tag)
    assert objects_by_name([seen("cat", threshold + 1e-6)], tag)


def test_objects_are_sorted_by_confidence_and_at_most_16_a_class():
    scores = np.random.default_rng(0).permutation(np.linspace(0.4, 0.9, 20))
    found = objects_by_name([seen("cat", float(score)) for score in scores] + [seen("dog", 0.35)], "colors")
    assert [each.score for each in found["cat"]] == sorted(scores, reverse=True)[:16]
    assert len(found["dog"]) == 1


def test_17_objects_count_as_16():
    many = [seen("cat", box=(i, 0, i + 1, 1)) for i in range(17)]
    assert judged(many, [clause("cat", 16)], [clause("cat", 17)], tag="counting").correct
    assert not judged(many, [clause("cat", 17)], tag="counting").correct


def test_overlap_counts_corner_pixels_as_inside():
    box = corners(0, 0, 9, 9)
    assert overlap(box, box) == 1
    assert overlap(box, corners(9, 0, 18, 9)) == pytest.approx(10 / 190)  # one column is shared
    assert overlap(box, corners(10, 0, 19, 9)) == 0
    assert overlap(corners(5, 5, 3, 3), corners(5, 5, 3, 3)) == 0


def test_suppression_is_off_unless_asked_for():
    twins = [seen("cat", 0.9), seen("cat", 0.8), seen("cat", 0.7, (50, 50, 60, 60))]
    assert len(objects_by_name(twins, "colors")["cat"]) == 3
    assert [each.score for each in objects_by_name(twins, "colors", max_overlap=0.9)["cat"]] == [0.9, 0.7]


def test_suppression_comes_after_the_limit_of_16():
    twins = [seen("cat", 0.9 - i / 1000) for i in range(16)] + [seen("cat", 0.5, (50, 50, 60, 60))]
    assert len(objects_by_name(twins, "colors", max_overlap=0.5)["cat"]) == 1


def test_an_object_has_to_be_there_often_enough():
    two = [seen("cat"), seen("cat", box=(20, 20, 30, 30))]
    assert judged(two, [clause("cat", 2)]).correct
    wrong = judged(two, [clause("cat", 3)])
    assert not wrong.correct
    assert wrong.reasons == ["expected cat>=3, found 2"]
    assert judged(two, [clause("cat", 1)]).correct, "more than asked for is right without an exclude clause"


def test_exclude_fails_from_its_count_on():
    two = [seen("cat"), seen("cat", box=(20, 20, 30, 30))]
    assert judged(two, [clause("cat", 2)], [clause("cat", 3)], tag="counting").correct
    assert judged(two, [clause("cat", 1)], [clause("cat", 2)], tag="counting").reasons == [
        "expected cat<2, found 2"
    ]


def test_clauses_are_independent():
    """The published evaluator's way: one cat satisfies both clauses."""
    assert judged([seen("cat")], [clause("cat"), clause("cat")]).correct


def test_colours_of_the_most_confident_objects_alone_count():
    two = [seen("cat", 0.9), seen("cat", 0.8, (20, 20, 30, 30))]
    assert judged(two, [clause("cat", color="red")], colours=["red"]).correct
    wrong = judged(two, [clause("cat", color="red")], colours=["blue", "red"])
    assert wrong.reasons == ["expected red cat>=1, found blue"], "the second, red cat is never looked at"
    assert not judged(two, [clause("cat", 2, color="red")], colours=["red", "blue"]).correct


def test_colours_are_asked_for_only_where_enough_objects_are():
    def refuse(*_):
        raise AssertionError

    assert not verdict({}, {"include": [clause("cat", color="red")]}, refuse).correct


def boxes(dx, dy, size=10.0):
    """A box whose centre is off the other's by (dx, dy)."""
    return corners(dx, dy, dx + size, dy + size), corners(0, 0, size, size)


@pytest.mark.parametrize(
    ("offset", "held"),
    [
        ((-20, 0), {"left of"}),
        ((20, 0), {"right of"}),
        ((0, -20), {"above"}),
        ((0, 20), {"below"}),
        ((20, 20), {"right of", "below"}),  # (20 - 2) / 28.3 on both axes
        ((-20, -20), {"left of", "above"}),
        ((0, 0), set()),
        ((2, 0), set()),  # all of it is margin: 0.1 x (10 + 10)
        ((4.0, 0), set()),  # (4 - 2) / 4 is exactly a half
        ((4.01, 0), {"right of"}),
        ((20, 9), {"right of"}),  # 7 / 21.9 is below a half
        ((20, 18), {"right of", "below"}),  # 16 / 26.9
        ((6, 6), set()),  # the length is that of the unshrunk offset: 4 / 8.5
    ],
)
def test_relations(offset, held):
    assert relations(*boxes(*offset)) == held


def test_the_margin_grows_with_both_boxes_and_with_each_axis_alone():
    small, large = (0.0, 0.0, 2.0, 2.0), (10.0, -20.0, 14.0, 22.0)
    assert relations(small, large) == {"left of"}  # offset (-11, 0), margins 0.6 and 4.4
    assert relations((0.0, 0.0, 2.0, 2.0), (0.0, 4.0, 2.0, 44.0)) == {"above"}  # 23 less 4.2


def test_place_is_judged_against_the_clause_it_names():
    left, right = seen("dog", box=(0, 0, 10, 10)), seen("cat", box=(50, 0, 60, 10))
    place = clause("dog", position=["left of", 0])
    assert judged([left, right], [clause("cat"), place]).correct
    wrong = judged([left, right], [clause("cat"), clause("dog", position=["above", 0])])
    assert wrong.reasons == ["expected dog above target, found left of target"]


def test_every_pair_has_to_stand_so():
    cats = [seen("cat", 0.9, (50, 0, 60, 10)), seen("cat", 0.8, (-60, 0, -50, 10))]
    dog = seen("dog", box=(0, 0, 10, 10))
    place = clause("dog", position=["left of", 0])
    assert judged([*cats, dog], [clause("cat", 1), place]).correct, "only the more confident cat is a target"
    assert not judged([*cats, dog], [clause("cat", 2), place]).correct


def test_a_target_that_failed_is_none():
    dog, cat = seen("dog", box=(0, 0, 10, 10)), seen("cat", box=(50, 0, 60, 10))
    wrong = judged(
        [dog, cat], [clause("cat", color="red"), clause("dog", position=["left of", 0])], colours=["blue"]
    )
    assert wrong.reasons == ["expected red cat>=1, found blue", "no target for dog to be left of"]


def test_place_is_not_judged_where_the_colour_is_wrong():
    dog, cat = seen("dog", box=(80, 0, 90, 10)), seen("cat", box=(50, 0, 60, 10))
    both = clause("dog", color="red", position=["left of", 0])
    assert judged([dog, cat], [clause("cat"), both], colours=["blue"]).reasons == [
        "expected red dog>=1, found blue"
    ]
    assert "left of" in judged([dog, cat], [clause("cat"), both], colours=["red"]).reasons[0]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"tag": "colour"}, "tag 'colour'"),
        ({"include": [clause("mouse")]}, "class 'mouse'"),
        ({"include": [clause("cat", 0)]}, "count 0"),
        ({"include": [clause("cat", True)]}, "count True"),
        ({"include": [clause("cat", color="grey")]}, "color 'grey'"),
        ({"include": [clause("cat", position=["left of", 0])]}, "position"),
        ({"include": [clause("cat"), clause("dog", position=["beside", 0])]}, "position"),
        ({"include": [clause("cat"), clause("dog", position=["left of", -1])]}, "position"),
        ({"include": []}, "no clause"),
    ],
)
def test_metadata_that_cannot_be_judged_is_refused(change, found):
    good = {"tag": "colors", "include": [clause("cat", color="red")]}
    require_metadata(good, "x")
    with pytest.raises(RowcastError, match=f"expected a line of the GenEval set, found .*{found}.* in x"):
        require_metadata({**good, **change}, "x")
