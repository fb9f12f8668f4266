"""Caption cleaning against what LlamaGen's published code makes of the same captions."""

import warnings

import pytest

from backbones.captions import clean
from backbones.errors import RowcastError

pytestmark = pytest.mark.unit

# The right-hand sides were computed with `T5Embedder.text_preprocessing` of the published code.
GOLDEN = [
    (
        "A blue Porsche 356 parked in front of a yellow brick wall.",
        "a blue porsche 356 parked in front of a yellow brick wall.",
    ),
    ("  A  Red\tCube\n ", "a red cube"),
    ("red+cube%20on%20blue", "red cube on blue"),
    ("a <b>red</b> cube &amp; a <person> on <br/>blue", "a red cube a person on blue"),
    ("photo by @someone via https://example.com/cats and www.shop.example.org/x?y", "photo by via and ?y"),
    ("see http://x.y, mail me@example.com", "see x. y, mail me"),
    ("a cat 猫 in アニメ style", "a cat in アニメ style"),
    ("this-is-my-cute-cat", "this is my cute cat"),
    ("a well-lit up-to-date room", "a well-lit up-to-date room"),
    ("caf\u00e9 \u2014 \u201cna\u00efve\u201d \u2018art\u2019", 'caf\u00e9 - "na\u00efve" \'art'),
    ("***SALE*** #winter #12 coat [new] {x} |y| ~z~", "sale winter coat new x y z"),
    ("coat jc6640 jc6640vc 6640vc231 j2d1a2a", "coat"),
    ("wallpaper 1024x768 free download, worldwide free shipping", "wallpaper"),
    ("IMG_0042.JPG of a dog, png images, click for more, page 12", "of a dog, ,"),
    ("meeting at 7:45 ", "meeting at 7:45"),
    ("meeting at 7:45 @me", "meeting at"),
    ("call 192.168.0.1 or 1234567, lot #123456", "call or , lot"),
    ("well... maybe . yes,no/maybe", "well maybe yes, no maybe"),
    ('"a quoted caption"', "a quoted caption"),
    ("'tis a cat-", "tis a cat"),
    ("a cat,", "a cat"),
    ("\ufb01ne \uff46\uff55\uff4c\uff4c t\u00c3\u00a9xt", "fine full t\u00e3 xt"),
    ("%2526lt;b%2526gt;", "<b>"),
    ("say \\n \"\"hello\"\" ''there''", 'say "hello" "there"'),
    ("5\u04457 print of 12.5\u00d73 m", "print of m"),
    ("a b &quot;c&quot; d : e", 'a b "c" d: e'),
]


@pytest.mark.parametrize(("caption", "expected"), GOLDEN)
def test_golden_captions(caption, expected):
    assert clean(caption) == expected


@pytest.mark.parametrize("nothing", ["", "  ", ".hidden", "***", "猫", "photo.jpg", "<b></b>"])
def test_what_leaves_nothing_is_refused(nothing):
    with pytest.raises(RowcastError, match=r"expected words, found .* leaves nothing: say what to paint"):
        clean(nothing)


@pytest.mark.parametrize("broken", ["a <![<b> cube", "a \ud800 cube"])
def test_broken_markup_is_refused(broken):
    with pytest.raises(RowcastError, match="expected a caption in plain words, found broken markup"):
        clean(broken)


@pytest.mark.parametrize("caption", ["a/b.txt", "http://x.y", "<?xml version='1.0'?> a cat"])
def test_the_parser_does_not_warn(caption):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clean(caption)
