"""Where weights come from: local folders, the hub's cache, and what is said when there is neither."""

from pathlib import Path

import huggingface_hub.constants
import pytest
import torch

from backbones.errors import RowcastError
from backbones.source import Source, fetch, fetch_file, first_line, require_files

pytestmark = pytest.mark.unit

FILES = ("*.json",)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache with one repository in it; the network is off."""
    repository = tmp_path / "hub" / "models--some--model"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return snapshot


def test_a_folder_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch(str(tmp_path), None, FILES) == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "weights").mkdir()
    assert fetch("~/weights", None, FILES) == tmp_path / "weights"
    with pytest.raises(RowcastError, match=r"expected no model\.revision beside the local .*, found 'v1'"):
        fetch(str(tmp_path), "v1", FILES)


def test_a_cached_repository_needs_no_network(cache: Path) -> None:
    assert fetch("some/model", None, FILES) == cache
    assert fetch("some/model", COMMIT, FILES) == cache


def test_a_repository_that_is_not_cached_is_refused_in_one_line(cache: Path) -> None:
    with pytest.raises(RowcastError, match=r"hub id, found 'some/other' \(.*HF_HUB_OFFLINE") as caught:
        fetch("some/other", None, FILES, option="model.tokenizer")
    assert "check model.tokenizer" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["/no/such/folder", "not a name", "a/b/c", "", "a\0b"])
def test_what_is_no_place_at_all_is_said_to_be_none(cache: Path, place: str) -> None:
    with pytest.raises(RowcastError) as caught:
        fetch(place, None, FILES, option="model.tokenizer")
    expected = f"expected a folder or a hub id, found {place!r}, which is neither: check model.tokenizer"
    assert str(caught.value) == expected


@pytest.mark.parametrize("place", ["x" * 5000, "~nobody-of-this-name/weights"])
def test_a_place_that_the_system_cannot_look_at_is_refused(place: str) -> None:
    for use in (lambda: fetch(place, None, FILES), lambda: fetch_file(place, None, "model.path")):
        with pytest.raises(
            RowcastError, match=r"expected a place that can be read, found .*model\.path"
        ) as e:
            use()
        assert len(str(e.value)) < 400


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(RowcastError, match=r"a folder or a hub id, found the file .*: check model\.path"):
        fetch(str(tmp_path / "model.safetensors"), None, FILES)


def test_a_revision_that_is_not_cached_is_refused(cache: Path) -> None:
    with pytest.raises(RowcastError, match="found 'some/model'"):
        fetch("some/model", "v2", FILES)


def test_missing_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "model-00001-of-00002.safetensors").touch()
    require_files(tmp_path, "model*.safetensors")
    with pytest.raises(RowcastError, match=r"expected a\.json, b\*\.txt in .*: point model\.pixels at"):
        require_files(tmp_path, "a.json", "model*.safetensors", "b*.txt", option="model.pixels")


def test_options_without_use_are_refused() -> None:
    source = Source(name="some", pixels="somewhere", dtype="bfloat16")
    source.refuse("tokenizer", "text_encoder")
    with pytest.raises(RowcastError, match=r"no option model\.pixels for model some, found 'somewhere'"):
        source.refuse("tokenizer", "pixels")
    assert source.torch_dtype == torch.bfloat16
    assert not source.is_random
    assert Source(name="some", weights="random").is_random


def test_a_place_is_asked_for() -> None:
    assert Source(name="some", path="here").place("an/example") == "here"
    with pytest.raises(RowcastError, match=r"weights for some, found none: pass model\.path, .* an/example"):
        Source(name="some").place("an/example")


def test_errors_of_libraries_become_one_line() -> None:
    assert first_line(OSError("  first\nsecond")) == "first"
    assert first_line(KeyError()) == "KeyError"
