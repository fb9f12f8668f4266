"""Golden cases of DPG-Bench's rules, fixed and official; a brute-force twin of the official script's loop."""

import random

import pytest

from eval.scorers.dpg import Question, image_score, prompt_score, summarise

pytestmark = pytest.mark.unit


def asked(*parents, first_row=False, categories=None):
    """Questions 1, 2, ... with these parents."""
    return [
        Question(
            id=number,
            text=f"q{number}",
            category=categories[number - 1] if categories else "entity - whole",
            parents=tuple(of),
            first_row=first_row and number == 1,
        )
        for number, of in enumerate(parents, 1)
    ]


def answered(*values):
    return {number: float(value) for number, value in enumerate(values, 1)}


def test_a_score_is_the_share_of_yes():
    assert image_score(asked((), (), (), ()), answered(1, 0, 1, 1), "fixed") == 0.75


@pytest.mark.parametrize("compat", ["fixed", "official"])
def test_a_no_strikes_out_what_depends_on_it_through_generations(compat):
    chain = asked((), (1,), (2,), ())
    assert image_score(chain, answered(0, 1, 1, 1), compat) == 0.25
    assert image_score(chain, answered(1, 0, 1, 1), compat) == 0.5
    assert image_score(chain, answered(1, 1, 0, 1), compat) == 0.75
    both = asked((), (), (1, 2))
    assert image_score(both, answered(1, 0, 1), compat) == pytest.approx(1 / 3), "any parent strikes"


def test_a_parent_that_comes_later_is_seen_through_by_the_fixed_rules_alone():
    backwards = asked((2,), (3,), ())  # 1 hangs on 2, which hangs on 3
    assert image_score(backwards, answered(1, 1, 0), "fixed") == 0
    assert image_score(backwards, answered(1, 1, 0), "official") == pytest.approx(1 / 3)


def test_circles_end():
    assert image_score(asked((2,), (1,)), answered(1, 0), "fixed") == 0
    assert image_score(asked((2,), (1,)), answered(1, 1), "fixed") == 1


def test_a_prompt_is_the_mean_over_its_images():
    images = [answered(1, 1), answered(0, 1), answered(1, 0), answered(0, 0)]
    for compat in ("fixed", "official"):
        assert prompt_score(asked((), ()), images, compat).score == 0.5


def test_categories_count_raw_answers_of_every_image_or_of_the_last():
    questions = asked((), (1,), categories=["entity - whole", "attribute - color"])
    images = [answered(0, 1), answered(1, 1), answered(1, 1), answered(1, 0)]
    fixed, official = (prompt_score(questions, images, compat) for compat in ("fixed", "official"))
    assert fixed.by_category == {"entity - whole": [0, 1, 1, 1], "attribute - color": [1, 1, 1, 0]}
    assert official.by_category == {"entity - whole": [1], "attribute - color": [0]}
    assert fixed.score == official.score == pytest.approx((0 + 1 + 1 + 0.5) / 4)


def test_the_first_row_is_lost_to_the_official_script():
    questions = asked((), (), (), first_row=True)
    images = [answered(0, 1, 1)]
    assert prompt_score(questions, images, "fixed").score == pytest.approx(2 / 3)
    assert prompt_score(questions, images, "official").score == 1


def test_the_official_script_drops_a_prompt_that_depends_on_the_first_row():
    questions = asked((), (1,), first_row=True)
    whole = {"a": questions, "b": asked((), ())}
    answers = {"a": [answered(1, 1)], "b": [answered(1, 0)]}
    fixed, official = (summarise(whole, answers, compat) for compat in ("fixed", "official"))
    assert (fixed.overall, fixed.dropped) == (0.75, [])
    assert (official.overall, official.dropped) == (0.5, ["a"])


def test_a_missing_answer_is_never_a_no():
    found = summarise({"a": asked((), ())}, {"a": [{1: 1.0}]}, "fixed")
    assert (found.overall, found.dropped) == (None, ["a"])


def test_categories_of_a_set_are_pooled_over_answers():
    questions = {
        "a": asked((), (), categories=["attribute - color", "attribute - size"]),
        "b": asked((), categories=["attribute - color"]),
    }
    found = summarise(questions, {"a": [answered(1, 0)], "b": [answered(0)]}, "fixed")
    assert found.broad == {"attribute": (1 / 3, 3)}
    assert found.detailed == {"attribute - color": (0.5, 2), "attribute - size": (0.0, 1)}


def official_loop(parents, raw):
    """The published loop, as it is: one pass in order, scores looked up while they change."""
    scores = dict(enumerate(raw, 1))
    for number, of in enumerate(parents, 1):
        for parent in of:
            if scores[parent] == 0:
                scores[number] = 0
                break
    return sum(scores.values()) / len(scores)


def test_random_graphs_against_the_loop():
    rng = random.Random(0)
    for _ in range(300):
        size = rng.randint(1, 7)
        parents = [
            tuple(rng.sample([p for p in range(1, size + 1) if p != n], rng.randint(0, min(2, size - 1))))
            for n in range(1, size + 1)
        ]
        raw = [rng.randint(0, 1) for _ in range(size)]
        questions = asked(*parents)
        assert image_score(questions, answered(*raw), "official") == official_loop(parents, raw)
        forwards = [tuple(p for p in of if p < n) for n, of in enumerate(parents, 1)]
        questions = asked(*forwards)
        same = {image_score(questions, answered(*raw), compat) for compat in ("official", "fixed")}
        assert same == {official_loop(forwards, raw)}, "equal wherever parents come first"
