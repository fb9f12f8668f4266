"""The report in a real browser: everything is drawn, nothing is fetched, nothing complains."""

import os

import pytest

from eval.benchmark import Extras
from tests.eval.browser import chromium, running
from tests.eval.test_ladder import slow_loop
from tests.eval.tiny import HOSTILE, run_tiny

pytestmark = pytest.mark.integration

REQUIRED = "ROWCAST_BROWSER"
"""Set by `.ci/run`, where the browser has to be there."""

BROKEN = "[...document.images].filter(image => !image.complete || !image.naturalWidth).length"
SHOWN = "(selector => [...document.querySelectorAll(selector)].filter(one => one.checkVisibility()).length)"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    program = chromium()
    if program is None:
        wanted = "expected Chromium, found none: apt-get install chromium"
        if os.environ.get(REQUIRED):
            pytest.fail(wanted)
        pytest.skip(wanted)
    folder = tmp_path_factory.mktemp("browser")
    run_tiny(folder, extras=Extras(reference=slow_loop(), loop="a slow loop"), reference_images=2)
    # A file that asks for everything that the report must not: what the test sees then is what it looks for.
    bad = folder / "bad.html"
    bad.write_text('<script src="http://127.0.0.1:1/x.js"></script><script>undefined.x</script>')
    with running(program) as browser:
        browser.open((folder / "report.html").as_uri())
        yield browser, folder


def test_gallery_plots_and_maps_are_drawn(page):
    browser, _ = page
    count = f"{SHOWN}('%s')"
    assert browser.value(count % ".gallery img") == 3 * 4
    assert browser.value(count % "svg.plot circle") == 4, "the plot that is not folded"
    assert browser.value(count % ".maps img") >= 3, "the headline decoder's maps"
    assert browser.value("document.querySelectorAll('details .maps img').length") >= 8
    assert browser.value(BROKEN) == 0
    titles = browser.value("[...document.querySelectorAll('h2')].map(title => title.textContent)")
    assert {"Images", "Speed", "The ladder", "Quality", "The grid, cell by cell"} <= set(titles)
    texts = browser.value("[...document.querySelectorAll('h3')].map(title => title.textContent)")
    assert HOSTILE in texts
    assert browser.value("document.documentElement.scrollWidth") <= 1200
    assert len(browser.picture()) > 10_000


def test_nothing_is_fetched_and_nothing_complains(page):
    browser, folder = page
    browser.value("document.querySelectorAll('details').forEach(part => part.open = true)")
    browser.value(f"document.body.offsetHeight + {BROKEN}")
    asked = [event["request"]["url"] for event in browser.of("Network.requestWillBeSent")]
    report = (folder / "report.html").as_uri()
    assert [address for address in asked if not address.startswith("data:")] == [report]
    complaints = browser.of("Log.entryAdded") + browser.of("Runtime.exceptionThrown")
    assert complaints + browser.of("Runtime.consoleAPICalled") == []


def test_a_bad_page_would_be_seen(page):
    _, folder = page
    with running(chromium()) as other:
        other.open((folder / "bad.html").as_uri())
        asked = [event["request"]["url"] for event in other.of("Network.requestWillBeSent")]
        assert "http://127.0.0.1:1/x.js" in asked
        assert other.of("Runtime.exceptionThrown")
