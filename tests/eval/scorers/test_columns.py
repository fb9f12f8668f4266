"""Scorers as columns of a benchmark: a logged image is painted once and judged once."""

import pytest
import torch

from eval.samples import Sample
from eval.scorers.backends.clip import Clip
from eval.scorers.backends.shapes import Shapes
from eval.scorers.clip_scorer import ClipScore
from eval.scorers.columns import Judge, SampleColumns
from eval.scorers.geneval_scorer import GenEval
from eval.scorers.pictures import Picture
from tests.backbones.tiny import tiny_backbone
from tests.eval.scorers.tiny_models import place, save_clip

pytestmark = pytest.mark.unit

KITE = {"tag": "single_object", "prompt": "a kite", "include": [{"class": "kite", "count": 1}]}


def logged(prompt, tokens):
    """An image of a benchmark's log, with neither times nor traces."""
    untouched = dict.fromkeys(("forwards", "session"), 1) | {"latency": None, "tokens": tokens}
    untouched |= {name: {} for name in ("seconds", "acceptance", "judged")}
    untouched |= {name: [] for name in ("examined", "changed", "order")}
    known = {name: value for name, value in untouched.items() if name in Sample.__dataclass_fields__}
    return Sample(decoder="ar", prompt=prompt, sample=0, role="main", **known)


def test_samples_become_named_scores_and_are_judged_once(tmp_path):
    backbone = tiny_backbone()
    generator = torch.Generator().manual_seed(0)
    cells = backbone.grid.rows * backbone.grid.cols
    tokens = torch.randint(0, backbone.codes, (2, cells), generator=generator).tolist()
    clip = ClipScore(Clip(place(save_clip(tmp_path / "clip-vit-large-patch14"))), "clean")
    judges = [Judge(scorer=clip), Judge(scorer=GenEval(Shapes(), Shapes()), set="geneval")]
    told = {"a kite": {"set": "geneval", **KITE}, "a fox": {"set": "parti"}}

    def columns():
        return SampleColumns(backbone, judges, tmp_path / "out", lambda sample: told[sample.prompt])

    kite, fox = logged("a kite", tokens[0]), logged("a fox", tokens[1])
    first = columns()
    assert first.names(kite) == {"clip/clean", "geneval/shapes"}
    assert first.names(fox) == {"clip/clean"}, "GenEval judges its own prompts alone"
    found = first([kite, fox])
    assert [set(each) for each in found] == [first.names(kite), first.names(fox)]
    pictures = tmp_path / "out" / "pictures" / "ar-main"
    assert len(list(pictures.glob("*.png"))) == 2
    path = first._path(kite)
    assert path.parent == pictures
    pixels = backbone.decode(torch.tensor(tokens[:1]))[0].permute(1, 2, 0)
    picture = Picture(key="x", path=path, prompt="a kite", metadata=KITE)
    assert torch.equal(torch.tensor(list(picture.load().tobytes())), pixels.flatten().long())
    assert found[0]["clip/clean"] == pytest.approx(clip.score([picture])[0].scores["clip/clean"], abs=1e-3)

    logs = sorted((tmp_path / "out").glob("*.jsonl"))
    lines = [log.read_bytes() for log in logs]
    assert [len(each.splitlines()) for each in lines] == [3, 2], "the contract, then a line an image"
    assert columns()([fox, kite]) == found[::-1]
    assert [log.read_bytes() for log in logs] == lines
