"""The results of a benchmark as a card reads them: of these heads, whole, and as plain text."""

import json
import re

import pytest

from backbones.errors import RowcastError
from checkpoints.card import Publication, render_card
from checkpoints.config import read_config
from checkpoints.figures import acceptance_table, decoder_table
from checkpoints.measured import read_measured

pytestmark = pytest.mark.integration


def read(folder):
    return read_measured(folder, read_config(folder))


def card_of(folder):
    return render_card(read_config(folder), 1, ["h+1"], Publication(measured=read(folder)))


def refused(folder, message):
    with pytest.raises(RowcastError, match=message) as caught:
        read(folder)
    assert "\n" not in str(caught.value)


def test_results_of_other_heads_or_damaged_ones_are_refused(bundle):
    path = bundle / "results.json"
    whole = json.loads(path.read_text())
    for change, message in [
        ({"weights_sha256": "0" * 64}, "results of the weights .* found those of 0000000000000000; measure"),
        ({"subject": {"fingerprint": "1" * 64}}, "results of the backbone .* found those of 1111"),
        ({"environment": []}, r"found '\[\]' in place of an object at environment"),
        ({"decoders": [{"name": 3}]}, r"at decoders.0"),
        ({"created": None}, "None in place of a str at created"),
        ({"control": {"nll_delta": {"value": 10**400}}}, "found 1000.* at control.nll_delta.value"),
    ]:
        path.write_text(json.dumps({**whole, **change}))
        refused(bundle, message)
    path.write_text('{"weights_sha256": NaN}')
    refused(bundle, "text that is not JSON")


def test_hostile_names_in_results_stay_text(bundle):
    hostile = "<img src=x onerror=alert(1)> | [x](http://e.vil) `\n# head"
    path = bundle / "results.json"
    whole = json.loads(path.read_text())
    whole["decoders"][0]["name"] = whole["baseline"] = whole["environment"]["device"] = hostile
    path.write_text(json.dumps(whole))
    card = card_of(bundle)
    assert re.findall(r"(?<!\\)(<img|\[x\]\(|`\n# head)", card) == []
    assert "\n# head" not in card


def test_the_control_and_missing_figures(bundle):
    path = bundle / "results.json"
    whole = json.loads(path.read_text())
    for decoder in whole["decoders"]:
        decoder["quality"], decoder["acceptance"] = None, {}
    path.write_text(json.dumps({**whole, "control": None}))
    found = read(bundle)
    heading, rows = decoder_table(found)
    assert len(heading) == 6
    assert {len(row) for row in rows} == {6}
    assert acceptance_table(found, ["h+1"]) is None
    assert "## Acceptance" not in card_of(bundle)
    assert "Measured" not in render_card(read_config(bundle), 1, ["h+1"])
