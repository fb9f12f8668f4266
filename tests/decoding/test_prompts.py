"""Prompts from options and files."""

import pytest

from backbones.errors import RowcastError
from decoding.prompts import read_prompts, resolve_prompts

pytestmark = pytest.mark.unit


def test_one_prompt_a_line(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_bytes("\ufeffa red shoe \r\n\n  a caf\u00e9, \u5317\n".encode())
    assert read_prompts(path) == ["a red shoe", "a caf\u00e9, \u5317"]
    assert resolve_prompts(str(path)) == read_prompts(path)
    assert resolve_prompts(["a bag", str(path)]) == ["a bag", *read_prompts(path)]


def test_texts_are_prompts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert resolve_prompts("a red shoe") == ["a red shoe"]
    assert resolve_prompts(["a", "a"]) == ["a", "a"]
    assert resolve_prompts(3) == ["3"]  # a class of LlamaGen, as the command line reads prompt=3
    assert resolve_prompts([0, "7"]) == ["0", "7"]
    assert resolve_prompts("x" * 5000) == ["x" * 5000]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "at least one prompt in .*, found none"),
        (b" \n\t\n", "at least one prompt in .*, found none"),
        (b"a shoe\na caf\xe9\n", r"UTF-8 text in .*, found byte 0xe9 in line 2"),
        ("a shoe".encode("utf-16"), r"UTF-8 text in .*, found byte 0xff in line 1"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, message):
    path = tmp_path / "prompts.txt"
    path.write_bytes(content)
    with pytest.raises(RowcastError, match=message):
        read_prompts(path)


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(RowcastError, match="No such file"):
        resolve_prompts(str(tmp_path / "absent.txt"))
    with pytest.raises(RowcastError, match="Is a directory"):
        read_prompts(tmp_path)


@pytest.mark.parametrize("value", [3.5, True, None, "", "  ", ["a", ""], ["a", 3.5], []])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(RowcastError, match="expected"):
        resolve_prompts(value)
