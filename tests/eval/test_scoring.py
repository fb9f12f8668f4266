"""`scores=`: what can be judged is checked before anything is painted, and the columns reach the results."""

from functools import partial

import pytest

from backbones.errors import RowcastError
from eval.benchmark import Extras
from eval.items import Item, Shard
from eval.prompt_sets.prompt import Prompt
from eval.scorers.backends.clip import Clip
from eval.scorers.clip_scorer import ClipScore
from eval.scorers.columns import Judge
from eval.scoring import Models, build_judges, judged_columns, telling
from tests.backbones.tiny import tiny_backbone
from tests.eval.scorers.test_layouts import ROWS, csv
from tests.eval.scorers.tiny_models import place, save_clip
from tests.eval.tiny import run_tiny, tiny_items

pytestmark = pytest.mark.unit

SMALL = {"images": 1, "quality": 2, "names": ("ar", "ssd_r0")}
NOWHERE = "/nowhere/model"
MODELS = Models(preset="clean", clip=NOWHERE, detector="shapes", colours=NOWHERE, vqa=NOWHERE, device="cpu")


def items(name, **details):
    prompt = Prompt(set=name, id="0", text="a kite", category="colors", details=details)
    return [Item(prompt=prompt, sample=0)]


def test_geneval_judges_its_own_prompts():
    kite = items("geneval", include=[{"class": "kite", "count": 1}])
    (judge,) = build_judges(["geneval"], MODELS, kite, None)
    assert (judge.scorer.protocol, judge.set) == ("geneval/shapes", "geneval")
    with pytest.raises(RowcastError, match=r"expected prompts of the set geneval .*found smoke.*suite=quick"):
        build_judges(["geneval"], MODELS, items("smoke"), None)
    with pytest.raises(RowcastError, match=r"class 'fox' in prompt 0 of sets\.geneval"):
        build_judges(["geneval"], MODELS, items("geneval", include=[{"class": "fox", "count": 1}]), None)


def test_missing_models_and_questions_are_named(tmp_path):
    with pytest.raises(
        RowcastError, match=r"check scoring\.clip.*scores=\[clip\] need scoring\.clip=/nowhere/model: hub ids"
    ):
        build_judges(["clip"], MODELS, items("smoke"), None)
    with pytest.raises(RowcastError, match=r"expected sets\.dpg\.path=<dpg_bench\.csv> for scores=\[dpg\]"):
        build_judges(["dpg"], MODELS, items("dpg"), None)
    path = csv(tmp_path / "dpg_bench.csv", *ROWS)
    with pytest.raises(RowcastError, match=r"check scoring\.vqa"):
        build_judges(["dpg"], MODELS, items("dpg"), path)


def test_columns_are_added_to_a_benchmark_that_was_complete_without_them(tmp_path):
    clip = ClipScore(Clip(place(save_clip(tmp_path / "tiny"))), "clean")
    columns = partial(judged_columns, [Judge(scorer=clip)], telling(tiny_items(2), None), tiny_backbone())
    out = tmp_path / "out"
    assert run_tiny(out, **SMALL) is not None

    def part(number):
        return run_tiny(out, **SMALL, extras=Extras(shard=Shard(part=number, of=2), columns=columns))

    assert part(0) is None, "the images of the other part have no such score yet"
    results = part(1)
    for judged in (*(decoder.quality for decoder in results.decoders), results.control):
        assert list(judged.scores) == ["clip/clean+tiny"]
