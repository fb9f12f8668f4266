"""Which bundles a benchmark takes, and what it says when one is missing."""

import pytest

from backbones.errors import RowcastError
from checkpoints.bundle import save_bundle
from eval.heads import describe, find_bundles, load_bundles
from tests.backbones.tiny import tiny_backbone
from tests.eval.tiny import tiny_bank

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def backbone():
    return tiny_backbone()


@pytest.fixture(scope="module")
def folder(backbone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    save_bundle(folder, tiny_bank(), backbone=backbone, sampling=backbone.sampling, training={}, metrics={})
    return str(folder)


def test_a_decoder_takes_the_bundle_of_its_kind(folder, backbone):
    bundles = find_bundles(["nowhere", folder], {"ar": "ar", "fast": "ssd"})
    assert list(bundles) == ["ssd"]
    live = load_bundles(bundles, backbone)["ssd"]
    assert describe(live) == describe(tiny_bank())
    assert describe(live) != describe(tiny_bank(seed=1))


def test_without_a_drafting_decoder_no_bundle_is_looked_at():
    assert find_bundles("nowhere", {"ar": "ar", "rival": "jacobi"}) == {}


def test_what_is_missing_or_twice_is_named(folder):
    with pytest.raises(RowcastError, match="eagle heads for decoder rival, found ssd heads in "):
        find_bundles([folder], {"ar": "ar", "rival": "eagle"})
    with pytest.raises(RowcastError, match=r"one bundle of ssd heads, found .* and .*: leave one"):
        find_bundles([folder, folder], {"fast": "ssd"})
    with pytest.raises(RowcastError, match="head bundle in nowhere"):
        find_bundles("nowhere", {"fast": "ssd"})
