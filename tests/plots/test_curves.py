"""Curves of conditions: means over seeds, labels at the ends, and logarithms on request."""

import re

from recombine.plots.curves import curves


def paths(svg, color, width):
    pattern = rf'<path d="([^"]*)" stroke="var\(--line-{color}, [^"]*" stroke-width="{width}"'
    return re.findall(pattern, svg)


def test_curves_average_logarithms_at_common_steps_and_label_each_condition(texts):
    series = {
        "a": [([1, 2, 3], [1.0, 1e-2, 0.0]), ([1, 2], [100.0, 1e-4])],
        "b": [([1, 2], [1, 1])],
    }
    svg = curves(series, x="step", y="loss", alt="Loss.", log=True)
    seeds = paths(svg, 0, 0.7)
    assert len(seeds) == 2
    assert not paths(svg, 1, 0.7)  # one seed needs no thin copy
    (mean,) = paths(svg, 0, 1.8)
    assert len(paths(svg, 1, 1.8)) == 1
    assert mean.count("L") == 1  # two common steps
    first, last = (float(p.split()[1]) for p in mean.strip("M").split("L"))
    low, high = (float(p.split()[1]) for p in seeds[0].strip("M").split("L")[:2])
    assert first < low  # the mean of 1 and 100 is above 1
    assert last > high  # and that of 1e-2 and 1e-4 below 1e-2
    assert {"a", "b", "step", "loss"} <= set(texts(svg))


def test_more_conditions_than_colors_are_dashed_and_long_curves_thinned():
    name = "a long label, which is shortened to that of the others"
    series = {f"{name} {i}": [(range(1000), range(1, 1001))] for i in range(9)}
    svg = curves(series, x="", y="", alt="")
    first, ninth = paths(svg, 0, 1.8)
    assert first == ninth
    assert svg.count("stroke-dasharray") == 1
    assert 50 < first.count("L") < 70


def test_curves_over_named_places_and_without_any_number(texts):
    svg = curves({"a": [([0, 1], [0.5, 0.7])]}, x="", y="share", alt="", names=["in", "out"])
    assert {"in", "out", "a"} <= set(texts(svg))
    assert curves({"a": [([0], [float("nan")])]}, x="", y="", alt="")


def test_words_are_escaped():
    svg = curves({"<b>": [([0, 1], [1, 2])]}, x='"x"', y="&", alt='"<a>"')
    assert "<b>" not in svg
    assert "&lt;b&gt;" in svg
    assert 'aria-label="&quot;&lt;a&gt;&quot;"' in svg
