"""`.pt` files: every layout that training jobs leave, and what is refused."""

import pickle
import warnings
from argparse import Namespace

import pytest
import torch

from backbones.errors import RowcastError
from backbones.source import fetch_file
from backbones.torch_file import own, read_tensors

pytestmark = pytest.mark.unit

TENSORS = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}
BESIDE = {"optimizer": {"state": {}, "lr": 1e-4}, "steps": 7, "args": Namespace(seed=0, path=None)}


class Foreign:
    """Would run code when it is unpickled."""

    def __reduce__(self):
        return print, ("this must not be printed",)


@pytest.mark.parametrize("layout", ["model", "module", "state_dict", "bare"])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_layouts(tmp_path, layout, zipped):
    stored = TENSORS if layout == "bare" else {layout: TENSORS, **BESIDE}
    torch.save(stored, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    found = read_tensors(tmp_path / "x.pt", "model.path")
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())


def test_own_is_no_view_of_the_file(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(TENSORS, path)
    mapped = read_tensors(path, "model.path")["a.weight"]
    copied = own(mapped, torch.float32)
    assert copied.data_ptr() != mapped.data_ptr()
    assert own(mapped.T, torch.bfloat16).is_contiguous()


@pytest.mark.parametrize("form", ["zip", "legacy", "bare pickle"])
def test_no_code_of_a_file_is_run(tmp_path, capsys, form):
    stored = {"model": TENSORS, "extra": Foreign()}
    if form == "bare pickle":
        (tmp_path / "x.pt").write_bytes(pickle.dumps(stored))
    else:
        torch.save(stored, tmp_path / "x.pt", _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(
        RowcastError, match="found another kind of file or objects that are no tensors"
    ) as error:
        read_tensors(tmp_path / "x.pt", "model.path")
    assert "weights_only" not in str(error.value)
    assert "this must not" not in capsys.readouterr().out


def test_a_compiled_program_is_refused_without_bad_advice(tmp_path):
    path = tmp_path / "x.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(RowcastError, match="found objects that are no tensors") as error,
    ):
        read_tensors(path, "model.path")
    assert "weights_only" not in str(error.value)


def test_broken_and_empty_files_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"model": TENSORS}, path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:1000] + whole[1400:], b"<html>not found</html>", b""):
        path.write_bytes(content)
        with pytest.raises(
            RowcastError, match=r"expected a file of tensors .*x\.pt: .*another model\.pixels"
        ) as e:
            read_tensors(path, "model.pixels")
        assert "\n" not in str(e.value)
    for empty in ({"model": {}}, {"model": 3}, [torch.ones(1)], {"steps": 3}):
        torch.save(empty, path)
        with pytest.raises(RowcastError, match="found no named tensors"):
            read_tensors(path, "model.path")


def test_fetch_file_takes_a_file_as_it_is(tmp_path, monkeypatch):
    path = tmp_path / "c2i_B_256.pt"
    path.touch()
    assert fetch_file(str(path), None, "model.path") == path
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetch_file("~/c2i_B_256.pt", None, "model.path") == path


def test_fetch_file_asks_the_hub_for_one_file(monkeypatch, tmp_path):
    asked = []

    def download(repository: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((repository, revision, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "file.pt").touch()
    assert fetch_file("org/repo/some/file.pt", "abc", "model.path") == tmp_path / "some" / "file.pt"
    assert asked == [("org/repo", "abc", ["some/file.pt"])]
    with pytest.raises(RowcastError, match=r"'org/repo/none\.pt', which is not in that repository: check"):
        fetch_file("org/repo/none.pt", None, "model.path")
    with pytest.raises(RowcastError, match=r"'org/repo/\.\./secret\.pt': check model\.path"):
        fetch_file("org/repo/../secret.pt", None, "model.path")


@pytest.mark.parametrize("place", ["{folder}", "{folder}/none.pt", "none.pt", "org/repo", "org/repo/"])
def test_fetch_file_refuses_what_is_no_file(tmp_path, place):
    with pytest.raises(
        RowcastError, match=r"or organisation/repository/file on the hub, .*check model\.pixels"
    ):
        fetch_file(place.format(folder=tmp_path), None, "model.pixels")


def test_fetch_file_says_why_the_hub_failed():
    with pytest.raises(
        RowcastError, match=r"found 'org/repo/file\.pt' \(.+\): check model\.path; .*HF_HUB_OFFLINE"
    ):
        fetch_file("org/repo/file.pt", None, "model.path")
