"""The pages: complete in themselves, and what a browser makes of them: loaded, read, walked through by keyboard."""

import html
import math
import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest

from portable_ffn import feed_forward
from portable_ffn.testing import Comparison, Layer, Report, Row, check
from portable_ffn.testing._models.page import page as layers_page
from portable_ffn.testing._report.html import page
from portable_ffn.testing._report.page import figure, text
from tests.testing import chromium

CASES = ("curve", "ordinary", "single numbers", "an infinity")
HOSTILE = "<script>console.error(1)</script><img src=x onerror=alert(1)>\"'&\u202e\ud800\0" + "w" * 200
FAILING = "✕ 549"


@pytest.fixture(scope="module")
def report():
    """A tanh GELU where the exact one is meant, a sound network, a hostile row, a gap, an error, a missing backend."""
    wrong = check(
        partial(feed_forward, activation="gelu_tanh"),
        activation="gelu",
        backends=["numpy", "torch"] if not backend_missing("torch") else "numpy",
        cases=CASES,
    )
    sound = check(feed_forward, backends="numpy", cases=CASES)
    template = sound.rows[0]
    extra = (
        replace(template, backend=HOSTILE, activation=HOSTILE, case=HOSTILE, message=HOSTILE, causes=(HOSTILE,),
                status="fail", worst=math.inf),
        replace(template, backend="jax", dtype="float64", status="gap", message="float64 served as float32"),
        replace(template, backend="mlx", status="error", worst=math.nan, message=f"TypeError: {HOSTILE}"),
        replace(template, backend="torch:meta", worst=math.nan),
        Row("cupy", "", "", "relu", False, True, "", "error", math.nan, message="cupy was asked for, but is not there"),
    )  # fmt: skip
    absent = {"jax:gpu": "JAX finds no GPU"}
    return Report(
        (*wrong.rows, *sound.rows, *extra), {"numpy": np.__version__}, absent, (*wrong.networks, *sound.networks)
    )


def backend_missing(name):
    from portable_ffn.testing import BACKENDS

    return BACKENDS[name].missing()


@pytest.fixture(scope="module")
def comparison():
    """A hundred layers, of which one differs, one could not be compared, and one has a hostile name."""
    base = Layer("model.layers.0.mlp", "model.layers.0.mlp", "main", 0, None, "float32", "pass", 1e-3, 1e-4)
    layers = [replace(base, layer=i, name=f"model.layers.{i}.mlp", worst=10.0 ** (i % 7 - 7)) for i in range(100)]
    wrong = check(partial(feed_forward, activation="silu"), activation="gelu", backends="numpy", cases="ordinary")
    layers[40] = replace(
        layers[40], status="fail", worst=7e4, median=3e4, causes=("b2 missing",), message="the answer must be 1",
        example=wrong.failures()[0].example,
    )  # fmt: skip
    layers[41] = replace(layers[41], status="error", worst=math.nan, median=math.nan, message=HOSTILE)
    layers[42] = replace(layers[42], name=HOSTILE, other=HOSTILE, status="fail", worst=math.inf, causes=(HOSTILE,))
    return Comparison(HOSTILE, "b", tuple(layers), ("only.here",), (), (7,))


@pytest.fixture(scope="module")
def browser():
    program = chromium.find()
    if program is None:
        pytest.skip("no Chromium here: PORTABLE_FFN_BROWSER is not set, and there is no program chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright drives the browser")
    with playwright.sync_playwright() as started:
        found = chromium.Browser(started, program)
        yield found
        found.browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, report, comparison):
    """Both pages as files."""
    folder = tmp_path_factory.mktemp("pages")
    report.to_html(folder / "check.html")
    comparison.to_html(folder / "compare.html")
    return {name: folder / f"{name}.html" for name in ("check", "compare")}


# Without a browser


class Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes = set(), set()
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update((name, value) if name in ("href", "src") else (name, None) for name, value in attributes)


def test_a_page_needs_nothing_else(pages):
    for path in pages.values():
        source = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in source
        assert not re.search(r"https?://|@import|url\(", source)
        found = Elements(source)
        assert not found.tags & {"script", "img", "iframe", "object", "embed", "form", "base", "video", "audio"}
        assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "srcset")]
        links = {value for name, value in found.attributes if name == "href"}
        assert all(link == "data:," or link.startswith("#") for link in links)


def test_hostile_text_is_text(pages):
    for path in pages.values():
        source = path.read_text(encoding="utf-8")
        assert html.escape("<script>console.error(1)</script>") in source
        assert "\u202e" not in source
        assert "\\x202e\\xd800\\x00" in source


def test_two_pages_of_one_report_are_equal(report, comparison):
    assert page(report) == page(report)
    assert layers_page(comparison) == layers_page(comparison)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(math.nan, "-"), (math.inf, "∞"), (0.0, "0"), (1e-9, "<0.01"), (0.5, "0.50"), (9.994, "9.99"), (548.6, "549"),
     (1.47e11, "1e11"), (1e300, "1e300"), (5e-324, "<0.01")],
)  # fmt: skip
def test_figures_fit_a_cell(value, shown):
    assert figure(value) == shown
    assert len(shown) <= 5


def test_text_keeps_what_can_be_seen():
    assert text("a < b & 'c'\n\"é\" ∞") == "a &lt; b &amp; &#x27;c&#x27;\n&quot;é&quot; ∞"


def test_an_empty_report_is_a_page():
    source = page(Report((), {}, {}))
    assert "Not passed" in source
    assert "no row was run" in source
    assert "The models could not be compared" in layers_page(Comparison("a", "b", ()))


def test_a_cell_that_fails_and_raises_says_both(report):
    """Its text has room for one word alone."""
    failed, raised = report.failures()[0], next(row for row in report.rows if row.message.startswith("TypeError"))
    where = {"backend": "numpy", "device": "cpu", "dtype": "float64", "activation": "relu"}
    source = page(Report((replace(failed, **where), replace(raised, **where))))
    assert "numpy cpu float64, relu, raises an error and fails, because" in source


# In a browser


def test_the_browser_tells_what_goes_wrong(browser, tmp_path):
    """A page that does what no page of ours may: each of its faults is seen."""
    image = "http://page.invalid/a.png"
    (tmp_path / "bad.html").write_text(f"<script>console.error('one'); throw Error('two')</script><img src='{image}'>")
    browser.open(tmp_path / "bad.html")
    told = " ".join(browser.complaints())
    assert "one" in told
    assert "two" in told
    assert image in told


@pytest.mark.parametrize("name", ["check", "compare"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_loads_without_an_error_and_fits(browser, pages, name, width, dark):
    browser.open(pages[name], width, dark=dark)
    assert browser.complaints() == []
    assert browser.run("document.querySelectorAll('script, img').length") == 0
    browser.run("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    browser.run("document.querySelectorAll('[popover]')[0]?.showPopover()")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    cut = browser.run(
        "[...document.querySelectorAll('.cell, h1, h2, h3, dd, td, p')]"
        ".filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).map(one => one.textContent)"
    )
    assert cut == [], "text that is wider than what holds it"
    small = browser.run(
        "[...document.querySelectorAll('body *')].filter(one => one.childNodes.length && "
        "parseFloat(getComputedStyle(one).fontSize) < 11).length"
    )
    assert small == 0


# The luminance of WCAG 2.1 and the ratio of a text's to what is behind it.
CONTRAST = """
(() => {
  const channels = (color) => color.match(/[0-9.]+/g).map(Number);
  const light = (color) => channels(color).slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      const [, , , alpha = 1] = channels(color);
      if (alpha > 0.99) return color;
    }
    return "rgb(255, 255, 255)";
  };
  let low = [];
  for (const one of document.querySelectorAll("h1, h2, h3, p, .cell, th, td, dt, dd, .legend span, .chips button")) {
    if (!one.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5 && one.textContent.trim() && one.className != "none")
      low.push(`${one.textContent.slice(0, 20)} ${one.className} ${ratio}`);
  }
  return low;
})()
"""


@pytest.mark.parametrize("name", ["check", "compare"])
def test_both_colour_schemes_can_be_read(browser, pages, name):
    colours = []
    for dark in (False, True):
        browser.open(pages[name], dark=dark)
        assert browser.run(CONTRAST) == []
        style = "getComputedStyle(document.body)"
        colours.append((browser.run(f"{style}.backgroundColor"), browser.run(f"{style}.color")))
        red, green, blue = map(int, re.findall(r"\d+", colours[-1][0])[:3])
        assert (red + green + blue < 200) == dark
    assert colours[0][0] != colours[1][0]
    assert colours[0][1] != colours[1][1]


FOCUSED = "document.activeElement.textContent"
OPEN = "document.querySelector(':popover-open')?.innerText ?? ''"


def test_the_failing_cell_is_found_by_its_text_and_opened_by_keyboard(browser, pages):
    browser.open(pages["check"], 400)
    seen = []
    for _ in range(80):
        browser.press("Tab")
        seen.append(browser.run(FOCUSED))
        if seen[-1] == FAILING:
            break
    assert seen[-1] == FAILING, seen
    label = browser.run("document.activeElement.getAttribute('aria-label')")
    assert label.startswith(FAILING)
    assert label.endswith("numpy cpu float32, gelu, fails, because gelu_tanh where gelu is meant")
    assert browser.run(OPEN) == ""
    browser.press("Enter")
    told = browser.run(OPEN)
    for part in (
        "numpy cpu float32, gelu", "gelu_tanh where gelu is meant", "The smallest input that shows it",
        "case 'ordinary', position (", "alone it is enough", "expected", "curve\t549\tfail", "x",
    ):  # fmt: skip
        assert part in told
    browser.press("Tab")
    assert browser.run(FOCUSED) == "close"
    browser.press("Escape")
    assert browser.run(OPEN) == ""
    assert browser.run(FOCUSED) == FAILING
    browser.press("Space")
    assert "numpy cpu float32" in browser.run(OPEN)


def test_the_smallest_input_is_the_one_that_fails(browser, pages, report):
    """What the page shows is what the row says: x, what came, what is expected."""
    rows = [r for r in report.rows if (r.backend, r.dtype, r.activation) == ("numpy", "float32", "gelu")]
    shown = [row.example for row in rows if row.status == "fail"]
    smallest = min(shown, key=lambda one: (not one.alone, len(one.x)))
    assert smallest.alone
    assert len(smallest.x) == 8
    assert abs(smallest.got - smallest.expected) > smallest.bound
    browser.open(pages["check"])
    browser.run(f"[...document.querySelectorAll('.cell')].find(one => one.textContent == '{FAILING}').click()")
    told = browser.run(OPEN)
    assert f"[{', '.join(map(repr, smallest.x))}]" in told
    assert repr(smallest.got) in told
    assert f"{smallest.expected!r} ± {smallest.bound:.3g}" in told


def test_every_cell_is_reached_by_tab(browser, pages):
    browser.open(pages["check"])
    cells = browser.run("document.querySelectorAll('.cell').length")
    reached = set()
    for _ in range(browser.run("document.querySelectorAll('button, summary, a').length")):
        browser.press("Tab")
        named = browser.run("document.activeElement.className.includes('cell') ? document.activeElement.ariaLabel : ''")
        if named:
            reached.add(named)
    assert len(reached) == cells


def test_what_a_screen_reader_is_told(browser, pages):
    browser.open(pages["check"])
    named = browser.told("columnheader")
    buttons = [name for role, name in named if role == "button"]
    assert any(name.startswith(FAILING) for name in buttons), buttons
    assert all(buttons)
    assert {"table", "rowheader", "columnheader", "heading", "main"} <= {role for role, _ in named}
    assert ("columnheader", "bfloat16") in named
    browser.open(pages["compare"])
    images = [name for role, name in browser.told("image") if role == "image"]
    assert images == ["Error by layer over the bound: 100 layers, the worst 7e4"]


def test_what_cannot_be_seen_is_said(browser, pages):
    browser.open(pages["check"])
    folds = browser.run("[...document.querySelectorAll('details.card')].map(one => one.innerText)")
    assert any(re.match(r"gelu: \d+ faults", fold) for fold in folds)
    browser.run("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    told = browser.run("document.querySelector('main').innerText")
    hidden = re.search(r"gelu_tanh where gelu is meant\s+seen\s+seen\s+hidden, \S+\s+hidden, \S+", told)
    assert hidden, told
    assert "JAX finds no GPU" in told
    assert "cupy was asked for, but is not there" in told


def test_a_comparison_shows_its_layers(browser, pages):
    browser.open(pages["compare"], 400)
    assert browser.run("document.querySelectorAll('svg rect').length") == 99
    heights = browser.run("[...document.querySelectorAll('svg rect')].map(one => one.getBoundingClientRect().height)")
    assert max(heights) <= browser.run("document.querySelector('svg').getBoundingClientRect().height") + 0.5
    assert heights[40] > heights[39]
    found = "[...document.querySelectorAll('summary')].find(one => one.innerText.includes('✕ 7e4'))"
    assert not browser.run(f"{found}.parentElement.open")
    browser.press("Tab")
    assert browser.run(FOCUSED) == "layer 40 (model.layers.40.mlp)"
    browser.press("Enter")
    assert browser.run(f"{found}.parentElement.open"), "the link to the first layer that differs opens it"
    told = browser.run(f"{found}.parentElement.innerText")
    for part in ("b2 missing", "The smallest input that shows it", "the answer must be 1", "worst", "median"):
        assert part in told
    browser.press("Tab")
    assert "✕ error" in browser.run(FOCUSED), "the fold behind it is next"
    browser.press("Enter")
    assert browser.run("document.activeElement.parentElement.open")
