"""Assemble the site from documents, records and docstrings, and build it: `make docs`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import yaml
from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).parent))
from doctests import fence
from generate import quote

from recombine.core.paper import Paper
from recombine.core.registry import shelves
from recombine.report.bibliography import own_papers
from recombine.report.numbers import measured
from recombine.report.outcomes import tally
from recombine.report.published import published
from recombine.report.sections import anchor, pictures
from recombine.runs.discover import load_figures
from recombine.runs.judge import Judged, judge_all
from recombine.runs.record import DONE, Record
from recombine.runs.store import Store

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "docs"  # pages, configuration, and the site
OUTSIDE = {  # pages that live elsewhere in the repository
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
GROUPS = {  # of the API reference, by the package of a name
    "core": "Spaces, supports, tasks and claims",
    "theory": "Theory",
    "tables": "Tables",
    "audits": "Audit",
    "maps": "Maps",
    "diagnostics": "Diagnostics",
    "models": "Models",
    "tasks": "Codes of inputs",
    "training": "Training",
    "runs": "Runs and records",
    "report": "Figures of reports",
    "lab": "The lab",
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every page."""
    shelves()
    load_figures()
    store = Store(ROOT / "results")
    records = list(store.records())
    judged = judge_all(records)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT / "docs").as_posix()
        text = path.read_text(encoding="utf-8")
        if (paper := own_papers().get(path.stem)) and path.parent.name == "papers":
            text = fill(text, paper, store, records, judged)
        yield name, finish(narrow(text) if name == "claims.md" else text, name)
    for source, name in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        yield name, finish(relocate(text, source), name)
    yield from reference()
    yield "decisions.md", decisions()


def finish(text: str, name: str) -> str:
    """Fence doctests, convert mathematics to MathML, and unlink files that are not pages."""
    up = "../" * name.count("/")
    text = text.replace("](decisions)", "](decisions.md)")
    text = text.replace("](CHANGELOG.md)", "](changelog.md)")
    text = re.sub(r"\]\((?:\.\./)*benchmarks/README\.md\)", f"]({up}benchmarks.md)", text)
    text = text.replace("[notebooks](notebooks)", "notebooks (`notebooks/`)")
    text = re.sub(
        r"\[([^\]]+)\]\((?:\.\./)*(CITATION\.cff|CONTRIBUTING\.md|SECURITY\.md)\)",
        r"\1 (`\2`)",
        text,
    )
    return mathematics(fence(text))


def narrow(text: str) -> str:
    """Merge the eleven columns of the table of claims into five, which fit the page."""
    lines = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 11 and cells[0] == "claim":
            line = "| claim | the paper | ours | verdict | decided by |"
        elif len(cells) == 11 and cells[0] == "---":
            line = "| --- | --- | --- | --- | --- |"
        elif len(cells) == 11:
            claim, role, number, source, value, ends, seeds, size, verdict, why, oracle = cells
            remarks = role if oracle == "–" else f"{role}; oracle: {oracle}"
            ours = unbroken(value, ends)
            many, start, first = seeds.partition(" from ")
            count = f"{many} seed{'s' * (many != '1')}{start}{first}, {size}"
            folded = ((claim, remarks), (number, source), (ours, count))
            pairs = [f"{above}<br><small>{below}</small>" for above, below in folded]
            line = f"| {' | '.join([*pairs, verdict, why])} |"
        lines.append(line)
    return "\n".join(lines)


def unbroken(*numbers: str) -> str:
    """Mark numbers in which lines must not break, such as at the sign of an exponent.

    >>> unbroken("1e-14", "[0, 1]")
    '<span class="number">1e-14</span> <span class="number">[0, 1]</span>'
    """
    return " ".join(f'<span class="number">{number}</span>' for number in numbers if number)


def relocate(text: str, source: str) -> str:
    """Rewrite the links of a page that is moved into the docs folder."""
    prefix = "../docs/" if "/" in source else "docs/"
    return text.replace(f"]({prefix}", "](")


def mathematics(text: str) -> str:
    r"""Convert $...$ and $$...$$ outside code to MathML, which browsers draw without a script.

    Numbers stay on one line with their units.

    >>> mathematics("`$x$` costs $x$")[:23], "<math" in mathematics("it is $x$")
    ('`$x$` costs <span><math', True)
    >>> mathematics("`7 % 2`, 7 %")
    '`7 % 2`, 7\xa0%'
    """
    parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.DOTALL)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(
            r"\$\$(.+?)\$\$",
            lambda m: convert(" ".join(m[1].split()), display="block"),
            parts[i],
            flags=re.DOTALL,
        )
        # Markdown takes a line that begins with <math> for a block, but not one with <span>.
        parts[i] = re.sub(r"\$([^$\n]+)\$", lambda m: f"<span>{convert(m[1])}</span>", parts[i])
        parts[i] = re.sub(r"(?<=\d) (?=(%|min|h)(?!\w))", "\N{NO-BREAK SPACE}", parts[i])
    return "".join(parts)


def fill(
    text: str, paper: Paper, store: Store, records: Sequence[Record], judged: Sequence[Judged]
) -> str:
    """Fill in a paper's page: its reference, verdicts and figures."""
    parts = {
        "paper": identity(paper),
        "findings": findings(paper, [j for j in judged if j.claim.family == paper.key]),
        "figures": "\n\n".join(figures(paper, store, records)),
    }
    for mark, content in parts.items():
        text = re.sub(rf"<!-- {mark}: .*? -->", lambda _, c=content: c, text)
    return text


def identity(paper: Paper) -> str:
    """Write title, authors, link and summary."""
    return (
        f"**[{paper.title}]({paper.link})**\n\n{paper.names} ({paper.year}"
        f"{f', {paper.venue}' * bool(paper.venue)})\n\n{paper.summary}"
    )


def findings(paper: Paper, judged: Sequence[Judged]) -> str:
    """Write the finding, the tally, and the headline claims with their verdicts."""
    known = published()
    outcomes = known.outcomes(paper.key)
    counts = ", ".join(map(str, tally(outcomes)))
    lines = [
        quote(known, paper.finding),
        "",
        f"Of {len(outcomes)} claims: {counts}. Rerunning them at quick size takes "
        f"{known.minutes(paper.key)} of CPU time. "
        "[The table of claims](../claims.md) has all of them with their bounds.",
        "",
        "| headline | the paper | ours | verdict |",
        "| --- | --- | --- | --- |",
    ]
    for j in sorted(judged, key=lambda j: j.size != "quick"):
        if j.claim.role == "headline":
            value, ends = measured(*j.verdict.numbers)
            ours = unbroken(value, ends if j.verdict.seeds > 1 else "")
            size = "" if j.size == "quick" else f" (at {j.size} size)"
            cells = [j.claim.sentence + size, j.claim.paper or "–", ours]
            cells.append(f"**{j.verdict.outcome}**")
            lines.append(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |")
    return "\n".join([*lines, "", "```bibtex", paper.bibtex, "```"])


def figures(paper: Paper, store: Store, records: Sequence[Record]) -> Iterator[str]:
    """Draw the paper's figures, grouped by experiment and size."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for r in records:
        if r.experiment.startswith(f"{paper.key}.") and r.status == DONE:
            groups.setdefault((r.experiment, r.size), []).append(r)
    for (name, size), done in sorted(groups.items(), key=lambda g: (g[0][0], g[0][1] != "quick")):
        drawn = pictures(name, done, store.arrays, anchor(name, size))
        of = "" if size == "quick" else f" ({size} size)"
        if drawn:
            yield f"### {name.partition('.')[2].replace('_', ' ')}{of}"
        for picture in drawn:
            caption, drawing = escape(picture.caption), " ".join(str(picture.drawing).split())
            yield (
                f'<figure class="drawing" style="--least: {picture.least}px">'
                f"<figcaption>{caption}</figcaption>"
                f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}{of}">'
                f"{drawing}</div></figure>"
            )


def reference() -> Iterator[tuple[str, str]]:
    """List the public names, one page per package, for mkdocstrings to fill in."""
    tree = ast.parse((ROOT / "src/recombine/__init__.pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for group in dict.fromkeys(home.split(".")[1] for home in homes.values()):
        names = [(name, home) for name, home in homes.items() if home.split(".")[1] == group]
        first = names[0][0]
        lines = [
            f"# {GROUPS.get(group, group)}",
            "",
            f"`import recombine as rc` gives every name on this page: `rc.{first}`.",
        ]
        lines += [line for name, home in names for line in ("", f"::: {home}.{name}")]
        yield f"api/{group}.md", "\n".join(lines) + "\n"


def decisions() -> str:
    """List the decisions by number."""
    lines = ["# Decisions", "", "One page each: what was decided, why, and what it costs.", ""]
    paths = (ROOT / "docs" / "decisions").glob("*.md")
    for path in sorted(paths, key=lambda p: int(p.name.partition("-")[0])):
        title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        lines.append(f"- [{title}](decisions/{path.name})")
    return "\n".join(lines) + "\n"


def present(nav: Any, exists: Any) -> Any:
    """Remove pages that do not exist, and empty sections, from a navigation."""
    if isinstance(nav, str):
        return nav if exists(nav) else None
    if isinstance(nav, dict):
        entries = {title: present(value, exists) for title, value in nav.items()}
        return {title: value for title, value in entries.items() if value} or None
    return [entry for entry in (present(each, exists) for each in nav) if entry]


def assemble(target: Path) -> Path:
    """Write all pages and the configuration into a folder; return the configuration."""
    folder = target / "docs"
    names = set()
    for name, text in pages():
        names.add(name)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for pattern in ("picture.svg", "*.png", "site.css", "site.js"):
        for file in (ROOT / "docs").glob(pattern):
            (folder / file.name).write_bytes(file.read_bytes())
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config["nav"] = present(config["nav"], names.__contains__)
    python = config["plugins"][1]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(ROOT / path) for path in python["paths"]]
    python["options"]["extensions"] = [str(ROOT / path) for path in python["options"]["extensions"]]
    (target / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return target / "mkdocs.yml"


def build(target: Path) -> None:
    """Assemble the pages in a folder and build the site that its configuration names."""
    config = assemble(target)
    program = Path(sys.executable).with_name("zensical")
    subprocess.run(
        [program, "build", "--clean", "--config-file", config.name], cwd=target, check=True
    )


if __name__ == "__main__":
    build(WORK)
    print(f"Site: {WORK / 'site' / 'index.html'}")
    print("Serve it with its search: python -m http.server -d build/docs/site")
