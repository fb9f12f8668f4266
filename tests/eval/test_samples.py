"""The log of a benchmark: what a kill leaves, what a contract separates, what is refused."""

import dataclasses

import pytest

from backbones.errors import RowcastError
from eval.samples import Sample, SampleLog, log_files, read_into

pytestmark = pytest.mark.unit

CONTRACT = {"heads": "abc", "seed": 1}


def sample(prompt="a hat", session=1, **changes):
    whole = Sample(
        decoder="ar",
        prompt=prompt,
        sample=0,
        role="main",
        session=session,
        latency=0.5,
        tokens=[1, 2, 3],
        forwards=3,
        seconds={"total": 0.5},
        acceptance={"h+1": [1, 2]},
        examined=[2],
        changed=[1],
        judged={"right/0": ["6", "2"]},
        order=[1, 2, 3],
    )
    return dataclasses.replace(whole, **changes)


def test_everything_comes_back(tmp_path):
    log = SampleLog(tmp_path / "new" / "folder", CONTRACT)
    one, two = sample(), sample("ünï <b> \n line")
    log.add([one, two])
    log.score({two.key: {"nll": 1.5}})
    log.score({two.key: {"garment": 1.0}})
    log.close()
    again = SampleLog(tmp_path / "new" / "folder", CONTRACT)
    assert again.images == {one.key: one, two.key: two}
    assert again.scores == log.scores == {two.key: {"nll": 1.5, "garment": 1.0}}
    assert again.next_session == 2


def test_cut_anywhere_loses_at_most_the_last_line(tmp_path):
    log = SampleLog(tmp_path, CONTRACT)
    images = [sample(f"prompt {index}") for index in range(2)]
    log.add(images)
    log.close()
    whole = log.path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for cut in {0, 1, *range(5, len(whole), 41), *ends, *(end - 1 for end in ends)}:
        log.path.write_bytes(whole[:cut])
        again = SampleLog(tmp_path, CONTRACT)
        complete = sum(end <= cut for end in ends)
        assert len(again.images) == max(0, complete - 1)
        again.add([image for image in images if image.key not in again.images])
        again.close()
        assert log.path.read_bytes() == whole


def test_contracts_do_not_mix(tmp_path):
    first = SampleLog(tmp_path, CONTRACT)
    first.add([sample()])
    other = SampleLog(tmp_path, {**CONTRACT, "heads": "def"})
    assert other.images == {}
    assert other.path != first.path
    assert len(SampleLog(tmp_path, CONTRACT).images) == 1


def test_a_spoilt_line_is_named(tmp_path):
    log = SampleLog(tmp_path, CONTRACT)
    log.add([sample(), sample("another")])
    log.close()
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(lines[0] + b"{spoilt\n" + lines[2])
    with pytest.raises(RowcastError, match=r"line 2 of .*delete that line"):
        SampleLog(tmp_path, CONTRACT)


def test_a_timed_image_replaces_an_untimed_one(tmp_path):
    log = SampleLog(tmp_path, CONTRACT)
    log.add([sample(latency=None)])
    log.add([sample(latency=0.25)])
    log.close()
    assert [image.latency for image in SampleLog(tmp_path, CONTRACT).images.values()] == [0.25]


def test_unwritable_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RowcastError, match=r"expected to write .*folder="):
        SampleLog(tmp_path / "file", CONTRACT)


def test_full_disk_is_one_line_and_keeps_what_is_there(tmp_path):
    log = SampleLog(tmp_path, CONTRACT)
    log.add([sample()])
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123
        kept, log._file = log._file, full
        with pytest.raises(RowcastError, match="No space left"):
            log.add([sample("another")])
        assert ("ar", "another", 0, "main") not in log.images
        log._file = kept
    log.close()
    assert len(SampleLog(tmp_path, CONTRACT).images) == 1


def test_parts_read_each_other_and_write_their_own_file(tmp_path):
    first, second = (SampleLog(tmp_path, CONTRACT, part) for part in ("1-of-2", "2-of-2"))
    first.add([sample("one")])
    second.add([sample("two")])
    first.path.write_bytes(first.path.read_bytes() + b'{"image": {"half')
    second.refresh()
    assert {key[1] for key in second.images} == {"one", "two"}
    assert first.path.read_bytes().endswith(b"half"), "another process's line is left alone"
    assert len(log_files(tmp_path, first.contract)) == 2
    whole = SampleLog(tmp_path, CONTRACT)
    assert {key[1] for key in whole.images} == {"one", "two"}


def test_a_timed_image_of_another_part_stays(tmp_path):
    for part, latency in (("1-of-2", 0.5), ("2-of-2", None)):
        SampleLog(tmp_path, CONTRACT, part).add([sample(latency=latency)])
    images = {}
    for path in log_files(tmp_path, SampleLog(tmp_path, CONTRACT).contract):
        read_into(path, images, {})
    assert [image.latency for image in images.values()] == [0.5]


def test_another_schema_is_refused(tmp_path):
    log = SampleLog(tmp_path, CONTRACT)
    log.close()
    log.path.write_text(log.path.read_text().replace('"schema":3', '"schema":2'))
    with pytest.raises(RowcastError, match="schema 3 in line 1"):
        SampleLog(tmp_path, CONTRACT)
