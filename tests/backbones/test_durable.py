"""Files are whole or as they were; a folder has one writer."""

import pytest

from backbones.durable import only_writer, write_durably, write_synced
from backbones.errors import RowcastError

pytestmark = pytest.mark.unit


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    write_durably(path, "one")
    write_durably(path, b"two")
    assert path.read_text() == "two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_refused_write_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    write_durably(path, "one")
    (tmp_path / "file.tmp").mkdir()  # the temporary name is taken
    with pytest.raises(OSError, match="directory"):
        write_durably(path, "two")
    assert path.read_text() == "one"


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path):
    def half(path):
        path.write_text("ha")
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write_synced(tmp_path / "file", half)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_has_one_writer_at_a_time(tmp_path):
    with only_writer(tmp_path, "folder="), pytest.raises(RowcastError, match="another folder="):
        only_writer(tmp_path, "folder=")
    only_writer(tmp_path, "folder=").close()
