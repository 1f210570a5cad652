"""The page is one file that shows everything and loads nothing."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from recombine.core import registry
from recombine.core.claim import CLAIMS
from recombine.core.error import Refused
from recombine.core.registry import find
from recombine.report.page import page
from recombine.report.sections import MOST, anchor
from recombine.runs.judge import Judged, judge
from recombine.runs.record import Record
from recombine.runs.store import Store

NAME = "liang2025.hidden_square"
EVIL = "<script>alert(1)</script>"


class Tags(HTMLParser):
    """Collect the tags of a page and refuse one that is not closed."""

    VOID = ("meta", "link", "br", "hr", "img", "path", "rect", "use", "image", "circle", "input")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def loads(text):
    """List everything that a page would fetch by itself; links wait to be followed."""
    addresses = [
        value
        for tag, attrs in Tags(text).tags
        for key, value in attrs.items()
        if key in ("src", "href", "xlink:href", "srcset", "data", "poster", "action")
        and tag != "a"
        and not re.match(r"#|data:", value or "#")
    ]
    styles = re.findall(r"@import|url\((?!#|[\"']?data:)[^)]*\)", text)
    return addresses + styles


def articles(text):
    return re.findall(r'<section class="card"><h5>(.*?)</h5>', text)


def test_same_records_in_any_order_give_the_same_page(rich, rich_page, judged):
    store, records = rich
    assert page(store, records[::-1], judged) == rich_page


def test_page_is_whole_and_self_contained(rich_page):
    parsed = Tags(rich_page)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert not loads(rich_page)
    assert not [tag for tag, _ in parsed.tags if tag in ("iframe", "object", "img")]
    assert all(
        attrs.get("aria-label") or attrs.get("aria-hidden")
        for tag, attrs in parsed.tags
        if tag == "svg"
    )


def test_every_link_within_the_page_leads_somewhere(rich_page):
    parsed = Tags(rich_page)
    targets = {
        attrs["href"][1:] for tag, attrs in parsed.tags if attrs.get("href", "").startswith("#")
    }
    assert targets
    assert targets <= set(parsed.ids)


def test_the_check_of_loads_sees_a_violation():
    bad = '<img src="http://a/b.png"><div style="background: url(x.png)"></div><a href="x"></a>'
    assert loads(bad) == ["http://a/b.png", "url(x.png)"]


def test_page_shows_claims_conditions_and_size(smoke, rich_page, judged):
    (_, records), text = smoke, rich_page
    for j in judged:
        assert j.claim.sentence in unescape(text)
        assert f"{j.verdict.outcome} · {j.claim.role}" in text
        assert f'data-copy="recombine reproduce {j.claim.name} --size smoke"' in text
    assert "<b>1.08</b>" in text
    assert "[1.02, 1.14]" in text
    assert '<span class="size">smoke</span>' in text
    assert find("experiment", NAME).sentence in text
    assert articles(text) == ["MLP", "CNN", "product of two profiles"]
    assert records[0].versions["torch"] in text
    assert records[0].id in text


def test_page_opens_with_the_paper(rich_page):
    text = unescape(rich_page)
    assert "Compositional Generalization via Forced Rendering of Disentangled Latents" in text
    assert "Qiyao Liang, Daoyuan Qian, Liu Ziyin, Ila Fiete" in text
    assert text.index('id="papers"') < text.index('id="claims"') < text.index('id="experiments"')
    assert 'data-copy="recombine reproduce liang2025"' in text


def test_a_finding_says_what_its_number_must_be_and_the_page_what_verdicts_mean(rich_page):
    card = re.search(r'<ul class="findings".*?</ul>', rich_page, re.DOTALL)[0]
    assert re.search(r"<small[^>]*>error, needed above 0.5</small>", card)
    meaning = re.search(r"<p>A claim is a sentence.*?</p>", rich_page)[0]
    assert all(word in meaning for word in ("holds", "does not hold", "inconclusive"))


def test_a_claim_links_to_its_runs_records_and_source_line(smoke, judged, tmp_path):
    store, records = smoke
    where = tmp_path / "pages" / "report.html"
    text = page(store, records, judged[:1], where)
    links = re.findall(r'href="([^"#]*\.json)"', text)
    targets = [(where.parent / link).resolve() for link in links]
    own = [r for r in records if r.config["decoder"] == "mlp"]
    assert targets == [store.path(r).resolve() for r in own]
    assert f'href="#{anchor(NAME, "smoke")}-0">MLP</a>' in text
    assert articles(text)[0] == "MLP"  # as in the paper's figures
    assert re.search(r"<code>failures\.py:\d+</code>", text)


def test_a_claim_lists_only_the_records_that_decided_it(smoke, judged, tmp_path):
    store, records = smoke
    (first, *_) = judged
    later = replace(first, verdict=replace(first.verdict, seeds=2, start=1))
    text = page(store, records, [later], tmp_path / "report.html")
    seeds = re.findall(r'<a href="[^"#]*\.json" title="\w+">(\d)</a>', text)
    assert seeds == ["1", "2"]


def test_page_shows_what_went_wrong_and_escapes_it(rich_page):
    text = rich_page
    assert EVIL not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2
    assert "ValueError: it was &lt;b&gt;wrong&lt;/b&gt;" in text
    assert "seed 8: <b>diverged</b>. The loss was not finite." in text
    assert "2 of them without a result" in text
    assert "(2 runs: MLP)" in text
    assert "mine.own" in text
    assert "0.550" in text  # the mean of an unknown experiment's score


def test_a_verdict_that_differs_from_the_published_one_is_marked(smoke, judged):
    store, records = smoke
    holds, fails = (replace(j, size="quick") for j in judged[:2])
    text = page(store, records, [holds, fails])
    assert text.count("<dt>published verdict</dt><dd>agrees</dd>") == 1
    assert text.count("<b>published: holds</b>") == 1
    assert "published verdict" not in page(store, records, judged)  # smoke is another size


def test_the_page_names_the_processor(smoke):
    store, records = smoke
    known = [replace(r, processor="Model T") for r in records]
    assert "Model T</p>" in page(store, known, [])
    some = [replace(known[0], processor=""), *known[1:]]
    assert "Model T (not recorded for 1 run)" in page(store, some, [])
    old = [replace(r, processor="") for r in records]
    assert "processor not recorded" in page(store, old, [])


def test_missing_and_damaged_arrays_leave_a_sentence(smoke, judged, tmp_path):
    source, records = smoke
    store, records = Store(tmp_path), records[::5]
    for r in records:
        store.write(r)
    text = page(store, records, judged)
    assert "no arrays were stored for any condition" in text
    assert not articles(text)
    assert "One dot per seed" in text
    for r in records[1:]:
        store.write(r, source.arrays(r))
    store.path(records[0]).with_suffix(".npz").write_bytes(b"PK\x03\x04 cut")
    text = page(store, records, judged)
    assert "no arrays were stored for MLP." in text
    assert "seed 0, are left out" in text
    assert articles(text) == ["CNN", "product of two profiles"]


def test_only_failures_still_make_a_page(smoke):
    store, records = smoke
    failed = [replace(r, status="failed", scores={}, history={}, error="no") for r in records]
    text = page(store, failed, [])
    assert "Runs without a result" in text
    assert "<svg" not in text


def test_sizes_are_kept_apart(smoke, judged):
    store, records = smoke
    text = page(store, [records[0], replace(records[0], size="paper")], judged)
    assert text.count('<article class="experiment"') == 2
    assert text.index(">smoke</span></h4>") < text.index(">paper</span></h4>")


def test_no_records_are_refused(tmp_path):
    with pytest.raises(Refused, match=r"There are no records in .*recombine reproduce"):
        page(Store(tmp_path), [], [])


def test_many_conditions_are_listed_and_the_first_are_drawn(tmp_path):
    records = [
        Record(f"{i:016x}", "mine.own", "quick", {"k": i}, 0, scores={"risk_id": 0.1 + i})
        for i in range(MOST + 3)
    ]
    text = page(Store(tmp_path), records, [])
    assert f"The first {MOST} conditions are plotted" in text
    assert f"k {MOST + 2}" in text


def test_numbers_without_randomness_have_no_seeds(tmp_path):
    record = Record("a", "lippl2025.phases", "quick", {}, 0, scores={"mismatches": 0.0})
    text = page(Store(tmp_path), [record], [])
    assert "1 condition, computed in closed form." in text
    assert "One dot per seed" not in text
    other = replace(record, experiment="mine.own")
    assert "1 condition, 1 seed. One dot per seed" in page(Store(tmp_path), [other], [])


def test_arrays_are_read_once(smoke, judged, monkeypatch):
    store, records = smoke
    reads = []
    whole = Store.arrays
    monkeypatch.setattr(Store, "arrays", lambda self, r: reads.append(r.id) or whole(self, r))
    page(store, records, judged)
    assert sorted(reads) == sorted(r.id for r in records)


def test_what_a_plugin_raises_costs_one_sentence_each_and_nothing_else(tmp_path, monkeypatch):
    """A figure, the names of conditions and the runs of a claim; the rest of the page is there."""

    def levels(records, arrays_of):
        """Levels by seed."""
        raise ValueError("not enough\nlevels")

    def wrong(records, arrays_of):
        """A drawing that is no figure."""
        return "a picture"

    def ends(records, arrays_of):
        """Leave."""
        raise SystemExit(3)

    def names(config):
        raise TypeError("no <level>")

    broken = {f"{NAME}: {f.__name__}": f for f in (levels, wrong, ends)}
    monkeypatch.setattr("recombine.report.sections.FIGURES", broken)
    monkeypatch.setitem(registry.NAMES, NAME, names)
    claim = next(c for c in CLAIMS.values() if c.experiment == NAME)
    claim = replace(claim, runs=lambda size: {"mlp": {"surely": "unknown"}})
    runs = [
        Record(f"{s:016x}", NAME, "quick", {"decoder": "mlp"}, s, scores={"risk_ood": 0.5 + s})
        for s in range(5)
    ]
    verdict = judge(claim, runs, "quick")
    said = []
    text = unescape(
        page(Store(tmp_path), runs, [Judged(claim, "quick", verdict)], note=said.append)
    )
    assert len(said) == len(broken) + 1
    assert (
        f"Figure '{NAME}: levels' of {__name__} could not be drawn: ValueError: not enough levels"
        in said
    )
    assert any("wrong" in s and "AttributeError" in s for s in said)
    assert any(s.endswith("could not be drawn: SystemExit: 3") for s in said)
    assert any(s.endswith("are left out: TypeError: no <level>") for s in said)
    assert all(text.count(sentence) == 1 for sentence in said)
    assert "could not be decided" in text
    assert claim.sentence in text
