"""The plan: every prompt once before any comes again, for any order of the list and any set size."""

import pytest

from data.plan import Plan

pytestmark = pytest.mark.unit

PROMPTS = [f"prompt {i}" for i in range(7)]


def test_each_cycle_takes_every_prompt_once_in_its_own_order():
    plan = Plan(PROMPTS, seed=0)
    cycles = [[plan[7 * cycle + place] for place in range(7)] for cycle in range(3)]
    for cycle, images in enumerate(cycles):
        assert sorted(images) == [(prompt, cycle) for prompt in PROMPTS]
    orders = [[prompt for prompt, _ in images] for images in cycles]
    assert orders[0] != orders[1] != orders[2] != PROMPTS


def test_the_order_of_the_list_and_repeated_prompts_do_not_matter():
    plan, other = Plan(PROMPTS, seed=3), Plan([*PROMPTS[::-1], PROMPTS[0]], seed=3)
    assert [plan[i] for i in range(20)] == [other[i] for i in range(20)]
    assert [plan[i] for i in range(20)] != [Plan(PROMPTS, seed=4)[i] for i in range(20)]


def test_the_plan_is_the_same_on_every_machine():
    """Images already made would silently change their meaning if this order moved."""
    assert [int(Plan(PROMPTS, seed=0)[i][0][-1]) for i in range(7)] == [1, 4, 6, 0, 5, 2, 3]
