"""The card says what a reader needs, and nothing in it can act as markup."""

import dataclasses
import re

import pytest

from checkpoints.card import escape, render_card
from checkpoints.config import read_config
from tests.backbones.tiny import tiny_backbone
from tests.checkpoints.bundles import random_bank, random_heads, save

pytestmark = pytest.mark.unit

HOSTILE = "```\n<script>alert(1)</script> | ![x](http://e.vil) `code`\n# head *bold* &lt;"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    backbone, folder = tiny_backbone(), tmp_path_factory.mktemp("card")
    save(
        folder,
        random_bank(backbone),
        backbone,
        training={"steps": 40, "prompts": ["a red sneaker", "a blue bag"]},
        metrics={"accepted": {"h+1": 0.51234, "v+1": 0.4}, "best": None},
    )
    return read_config(folder)


def test_card_states_the_facts(config):
    card = render_card(config, 1234567, ["h+1", "h+2", "h+3", "v+1", "v+2"])
    for line in [
        "- Base model: tiny, states in float32 before the final norm",
        "- Kind: ssd, drafting h+1, h+2, h+3, v+1, v+2",
        "- Weights: 1,234,567, in float32",
        "| guidance | 2 |",
        "| steps | 40 |",
        "| prompts | a red sneaker, a blue bag |",
        "| accepted.h+1 | 0.5123 |",
        "| best | none |",
    ]:
        assert line in card.splitlines()
    assert "python -m decoding model=tiny heads=" in card
    assert "lossy" in card


@pytest.mark.parametrize(
    ("kind", "lossless", "lossy"),
    [
        ("mtp", "mtp_strict", "`decoder=mtp`, "),
        ("eagle", "eagle", "`decoder=lantern` and `decoder=lantern_pp`"),
    ],
)
def test_card_of_another_kind_names_its_own_decoders(tmp_path, kind, lossless, lossy):
    backbone = tiny_backbone()
    save(tmp_path, random_heads(backbone, kind), backbone)
    card = (tmp_path / "README.md").read_text()
    assert f"heads=path/to/this/folder decoder={lossless} prompt" in card
    assert f"`decoder={lossless}` is lossless" in card
    assert lossy in card
    assert f"- Kind: {kind}, drafting t+1" in card
    assert "decoder=ssd" not in card


def test_card_without_measurements_says_so(config):
    bare = dataclasses.replace(config, training={}, metrics={})
    assert render_card(bare, 1, []).count("None given.") == 2


def test_names_prompts_and_values_are_escaped(config):
    hostile = dataclasses.replace(
        config,
        backbone=dataclasses.replace(config.backbone, name=HOSTILE),
        training={"prompt": HOSTILE, HOSTILE: 1},
        metrics={},
    )
    parts = re.split(r"^```.*$", render_card(hostile, 1, []), flags=re.MULTILINE)
    assert len(parts) == 5  # our two code blocks and no more
    shown = "".join(parts[::2])
    assert re.findall(r"(?<!\\)(<script|!\[x|`code|\*bold|&lt;)", shown) == []
    assert "\n# head" not in shown
    assert len([line for line in shown.splitlines() if line.startswith("| prompt ")]) == 1


def test_escape_keeps_plain_text():
    assert escape("a red sneaker on blue, 100 %") == "a red sneaker on blue, 100 %"
    assert escape("a|b\n<i>") == r"a\|b \<i\>"
