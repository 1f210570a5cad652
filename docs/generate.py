"""Write all files that are generated from records and the list of papers: `make claims`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from math import floor, log10
from pathlib import Path

from recombine.core.claim import CLAIMS, interval
from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS
from recombine.core.registry import shelves
from recombine.core.score import range_of
from recombine.papers.brady2024.figures.objects import label, place_of
from recombine.report.bibliography import own_papers
from recombine.report.markdown import markdown
from recombine.report.numbers import measured
from recombine.report.outcomes import tally
from recombine.report.published import Published
from recombine.runs.judge import Judged, judge_all
from recombine.runs.record import DONE, Record, ids, jsonable
from recombine.runs.store import Store

ROOT = Path(__file__).parents[1]
PLACEHOLDER = re.compile(r"\{([\w.]+)(?:\|([^|}]+)(?:\|(\w+))?|: (\w+))\}")
HEADLINES = (ROOT / "docs" / "headlines.txt").read_text(encoding="utf-8")


def generated() -> dict[str, str]:
    """Return the text of every generated file, by path."""
    shelves()
    records = list(Store(ROOT / "results").records())
    judged = judge_all(records)
    texts = [HEADLINES, *(p.finding for p in own_papers().values())]
    shipped = published_json(judged, records, texts, needed("quick"))
    published = Published(**json.loads(shipped))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs/papers/brady2024.md").read_text(encoding="utf-8")
    foresight = (ROOT / "docs" / "foresight.md").read_text(encoding="utf-8")
    return {
        "docs/papers/brady2024.md": fill(page, "ablation", ablation(records)),
        "docs/foresight.md": fill(foresight, "foresight", verdicts(judged, "foresight")),
        "docs/claims.md": markdown(judged),
        "src/recombine/papers/published.json": shipped,
        "README.md": fill(
            fill(readme, "papers", table(published)),
            "headlines",
            quote(published, HEADLINES.strip()),
        ),
    }


def published_json(
    judged: Iterable[Judged], records: Sequence[Record], texts: Iterable[str], runs: Container[str]
) -> str:
    """Return verdicts, the CPU time of these runs (ids), and scores that texts quote, as JSON.

    Times are those of `python -m benchmarks.cost`, or else of the records, which are of several
    processors and versions.
    """
    claims = {
        j.claim.name: {
            "outcome": j.verdict.outcome,
            "value": _rounded(j.verdict.value),
            "interval": [_rounded(end) for end in j.verdict.interval or ()] or None,
            "seeds": j.verdict.seeds,
        }
        for j in judged
        if j.size == "quick"
    }
    counted = [r for r in records if r.size == "quick" and r.id in runs]
    counts = Counter(r.experiment for r in counted)
    seconds = dict.fromkeys(counts, 0.0)
    for r in counted:
        seconds[r.experiment] += r.cpu_seconds
    for name, cost in json.loads((ROOT / "benchmarks/cost.json").read_text("utf-8")).items():
        if name in counts:
            seconds[name] = cost["seconds"] / cost["runs"] * counts[name]
    seconds = {name: round(value, 2) for name, value in seconds.items()}
    lines = [f"  {json.dumps(name)}: {json.dumps(claims[name])}" for name in sorted(claims)]
    scores = {name: _rounded(value) for name, value in quoted_scores(records, texts).items()}
    processors = sorted({r.processor for r in records if r.processor})
    return (
        '{"claims": {\n' + ",\n".join(lines) + "\n},\n"
        f'"seconds": {json.dumps(seconds, sort_keys=True)},\n'
        f'"runs": {json.dumps(counts, sort_keys=True)},\n'
        f'"scores": {json.dumps(scores)},\n'
        f'"processors": {json.dumps(processors)}}}\n'
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def needed(size: str) -> set[str]:
    """Return the ids of the runs that `reproduce` needs for all claims."""
    runs = set()
    for claim in CLAIMS.values():
        experiment = EXPERIMENTS[claim.experiment]
        for run in claim.runs(size).values():
            cfg = experiment.configure(size, **run)
            runs.update(ids(experiment, cfg, claim.planned(size), size))
    return runs


def quoted_scores(records: Iterable[Record], texts: Iterable[str]) -> dict[str, float]:
    """Return the scores that texts quote, each a mean over the seeds of the default run."""
    places = {(m[1], m[4]) for text in texts for m in PLACEHOLDER.finditer(text) if m[4]}
    values: dict[str, list[float]] = {}
    for r in records:
        for name, score in places:
            if (r.experiment, r.size, r.status) == (name, "quick", DONE):
                config = jsonable(EXPERIMENTS[name].configure("quick"))
                if config | dict(r.config) == config:
                    values.setdefault(f"{name}: {score}", []).append(r.scores[score])
    return {place: sum(v) / len(v) for place, v in sorted(values.items())}


def quote(published: Published, text: str) -> str:
    """Replace the placeholders of a text by numbers; refuse a verdict that has changed.

    - `{claim|verdict}`: the claim's number, with two significant digits
    - `{claim|verdict|percent}`, `{claim|verdict|power}`: as a percentage; ten to its power
    - `{claim|verdict|interval}`: with its interval
    - `{experiment: score}`: a score of the experiment's default run

    >>> known = Published({"a.b": {"outcome": "holds", "value": 0.626}}, {}, [])
    >>> quote(known, "{a.b|holds|percent} of an error of {a.b|holds}")
    '63 % of an error of 0.63'
    """

    def number(match: re.Match[str]) -> str:
        name, verdict, kind, score = match.groups()
        if score:
            return brief(published.scores[f"{name}: {score}"])
        claim = published.claims.get(name)
        outcome = claim["outcome"] if claim else "not among the published claims"
        if claim is None or outcome != verdict:
            raise Refused(
                f"{name} is written as {verdict!r}, but it is {outcome!r}; rewrite the text."
            )
        value = claim["value"]
        if kind == "interval":
            return " ".join(measured(value, claim["interval"])).replace("-", "−")
        if kind == "percent":
            return "100 %" if round(value, 2) == 1 else f"{brief(100 * value)} %"
        return brief(10.0**value if kind == "power" else value)

    return PLACEHOLDER.sub(number, text)


def brief(value: float) -> str:
    """Write a number for a sentence: two significant digits and a true minus sign.

    >>> brief(0.6313), brief(-0.1002), brief(0.00259), brief(2667.0), brief(0.99), brief(1.0)
    ('0.63', '−0.10', '0.0026', '2,700', '0.99', '1')
    """
    if value in (0, 1):
        return f"{value:g}"
    decimals = 1 - floor(log10(abs(value)) + 1e-12)
    return f"{round(value, decimals):,.{max(0, decimals)}f}".replace("-", "−")


def verdicts(judged: Sequence[Judged], family: str) -> str:
    """Tabulate the claims of one family at quick size, with their numbers."""
    lines = ["| claim | measured | verdict |", "| --- | --- | --- |"]
    for j in judged:
        v = j.verdict
        if j.claim.family == family and j.size == "quick":
            value = f"{' '.join(measured(*v.numbers))}: {v.why}" if v.value is not None else v.why
            lines.append(f"| {j.claim.sentence} | {value} | **{v.outcome}** |")
    return "\n".join(lines)


def table(published: Published) -> str:
    """Tabulate the papers: what they claim, what we found, and the command that repeats it."""
    lines = [
        "| paper | what it claims | what we found | command (CPU time) |",
        "| --- | --- | --- | --- |",
    ]
    for paper in own_papers().values():
        outcomes = published.outcomes(paper.key)
        counts = ", ".join(map(str, tally(outcomes)))
        cells = [
            f"[{paper.label}]({paper.link}): *{paper.title}*",
            paper.idea,
            f"{quote(published, paper.finding)} Of {len(outcomes)} claims: {counts}.",
            f"`recombine reproduce {paper.key}` ({published.minutes(paper.key)})",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ablation(records: Iterable[Record]) -> str:
    """Tabulate means over seeds with intervals for every setting of brady2024.objects."""
    settings: dict[str, list[Record]] = {}
    for record in records:
        if record.experiment == "brady2024.objects" and record.status == DONE:
            settings.setdefault(label(record.config), []).append(record)
    columns = {"J-ARI": "j_ari_id", "JIS": "jis_id", "R²": "r2_id", "KL (nats)": "kl"}
    columns |= {"R², recombined": "r2_recombined", "J-ARI of the first restart": "j_ari_1"}
    lines = [f"| setting | seeds | {' | '.join(columns)} |", "| --- " * (len(columns) + 2) + "|"]
    for name in sorted(settings, key=lambda name: place_of(settings[name][0].config)):
        runs = settings[name]
        cells = [name, str(len(runs))]
        for score in columns.values():
            values = [r.scores[score] for r in runs if score in r.scores]
            within = range_of(score, "brady2024.objects")
            low, high = interval(values, within=within) if values else (0.0, 0.0)
            mean = sum(values) / max(1, len(values))
            cells.append(f"{mean:.2f} [{low:.2f}, {high:.2f}]" if any(values) else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def fill(text: str, mark: str, content: str) -> str:
    """Replace the text between two comments of a page."""
    begin, end = f"<!-- {mark}: generated by `make claims` -->", f"<!-- end of {mark} -->"
    pattern = re.escape(begin) + r".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{content}\n{end}", text, flags=re.DOTALL)


def main() -> None:
    """Write the files that changed."""
    for name, text in generated().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")


if __name__ == "__main__":
    main()
