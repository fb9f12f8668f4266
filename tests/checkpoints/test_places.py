"""Names on a hub, and what is none."""

import pytest

from backbones.errors import RowcastError
from checkpoints.places import HubPlace, hub_place, require_repository, require_revision

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("text", ["me/heads", "Org-1/a.b_c-d", "me/heads@v1", "me/h@refs/pr/1", "_a/b@0a1b"])
def test_a_name_reads_back(text):
    assert str(hub_place(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "heads",
            "a/b/c",
            "/a/b",
            "a/b/",
            "../b",
            "a/..",
            "a/.b",
            "-a/b",
            "a/b.",
            "a/b--c",
            "a/b..c",
            "a b/c",
        ),
        *(
            "a/b@",
            "a/b@/x",
            "a/b@x/",
            "a/b@../x",
            "a/b@x@y",
            "a/b@.x",
            "a/\u0435",
            "a/b\n",
            "~/b",
            f"a/{'b' * 95}",
        ),
    ],
)
def test_other_texts_are_none(text):
    assert hub_place(text) is None


def test_a_file_of_a_repository():
    assert hub_place("a/b/c/d.pt@v1", with_file=True) == HubPlace("a/b", "v1", "c/d.pt")
    assert hub_place("a/b", with_file=True) == HubPlace("a/b")
    assert hub_place("a/b/../c", with_file=True) is None
    assert hub_place("a/b/c@v1", with_file=True).path == "a/b/c"


def test_options_are_refused_with_their_name():
    assert require_repository("me/heads", "repo") == "me/heads"
    assert require_revision("try/v2", "revision") == "try/v2"
    for text in ("../x", "me/heads@v1", "heads", ""):
        with pytest.raises(RowcastError, match="expected organisation/name for repo, found"):
            require_repository(text, "repo")
    for text in ("../x", "a//b", "", "a b"):
        with pytest.raises(RowcastError, match="expected the name of a branch for revision, found"):
            require_revision(text, "revision")
