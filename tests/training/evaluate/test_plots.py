from xml.etree import ElementTree

import pytest

from tests.training.evaluate.made_results import made_score
from training.evaluate.drawing import ticks_to
from training.evaluate.layout import calibration_tables, score_table
from training.evaluate.plots import Plot, bars_plot, calibration_plot, scaling_plot
from training.evaluate.scores import Score
from training.evaluate.topics import topics_of

_SVG = "{http://www.w3.org/2000/svg}"
_MODELS = {"GPT-J": True, "Toolformer": True}
_SCORES = [
    made_score("GPT-J", "lama_squad", 0.2),
    made_score("Toolformer", "lama_squad", 0.4),
    made_score("Toolformer", "lama_t_rex", 0.6, n=1000),
]
_SIZES = {"S": 1_000_000, "M": 10_000_000, "L": 100_000_000, "L off": 100_000_000}


def read(plot: Plot | None) -> ElementTree.Element:
    assert plot
    return ElementTree.fromstring(plot.svg)


def bars(scores: list[Score]) -> ElementTree.Element:
    [topic] = topics_of(scores)
    return read(bars_plot(score_table(topic, scores, _MODELS)))


def titles(svg: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in svg.iter(f"{_SVG}title")]


def words(svg: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in svg.iter(f"{_SVG}text")]


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.attrib[name])


def scaled(scores: list[Score], scaling: dict[str, list[str]]) -> Plot | None:
    [topic] = topics_of(scores)
    return scaling_plot(topic, scores, _SIZES, scaling)


def curves(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in svg.iter(f"{_SVG}g") if group.get("class", "").startswith("curve")]


def places(curve: ElementTree.Element) -> list[tuple[float, float]]:
    line = curve.find(f"{_SVG}polyline")
    assert line is not None
    points = [point.split(",") for point in line.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in points]


def base_of(svg: ElementTree.Element) -> float:
    """How far down the horizontal axis is, in each panel."""
    lines = [line for line in svg.iter(f"{_SVG}line") if line.get("class") == "axis"]
    [base] = {number(line, "y1") for line in lines if line.get("y1") == line.get("y2")}
    return base


def test_bars_are_as_long_as_the_numbers_and_intervals_reach_as_far() -> None:
    svg = bars(_SCORES)
    drawn = list(svg.iter(f"{_SVG}rect"))
    lengths = [number(bar, "width") for bar in drawn]
    assert [length / lengths[0] for length in lengths] == pytest.approx([1, 2, 3], abs=0.01)
    left = number(drawn[0], "x")
    lines = [line for line in svg.iter(f"{_SVG}line") if line.get("class") == "interval"]
    first = lines[0]  # from 15 % to 25 %
    assert number(first, "x1") - left == pytest.approx(0.75 * lengths[0], abs=0.2)
    assert number(first, "x2") - left == pytest.approx(1.25 * lengths[0], abs=0.2)
    assert len(lines) == 3 * 3, "an interval has two ends"


def test_bars_are_named_in_words() -> None:
    svg = bars(_SCORES)
    assert svg.get("role") == "img" and svg.get("aria-label") == titles(svg)[0]
    assert titles(svg) == [
        "LAMA, as Table 3: % right, with 95% intervals",
        "GPT-J, SQuAD: 20.0 (15-25)",
        "Toolformer, SQuAD: 40.0 (35-45)",
        "Toolformer, T-REx: 60.0 (55-65)",
    ]
    assert words(svg)[:6] == [
        "SQuAD (n = 200)", "GPT-J", "20.0 (15-25)", "Toolformer", "40.0 (35-45)",
        "T-REx (n = 1,000)",
    ]  # fmt: skip
    best = [bar.get("class") for bar in svg.iter(f"{_SVG}rect")]
    assert best == ["bar ", "bar best", "bar "]


def test_nothing_right_and_long_names_are_drawn_as_well() -> None:
    name = "a model with a name that is so long that it fits nowhere"
    scores = [made_score(name, "svamp", 0.0)]
    [topic] = topics_of(scores)
    svg = read(bars_plot(score_table(topic, scores, {name: True})))
    assert "a model with a name that is so ..." in words(svg)
    assert f"{name}, SVAMP: 0.0 (0-5)" in titles(svg)


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (0.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (4.0, [0, 1, 2, 3, 4]),
        (61.5, [0, 10, 20, 30, 40, 50, 60, 70]),
        (100.0, [0, 20, 40, 60, 80, 100]),
        (0.31, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35]),
    ],
)
def test_axes_have_round_numbers(largest: float, ticks: list[float]) -> None:
    assert ticks_to(largest) == ticks


def test_a_tenfold_size_is_always_as_far() -> None:
    scores = [made_score(name, "asdiv", 0.2) for name in "LSM"]
    svg = read(scaled(scores, {"with tools": ["S", "M", "L"]}))
    [_, curve] = curves(svg)  # the legend's comes first
    [(s, _), (m, _), (large, _)] = places(curve)
    assert s < m < large and m - s == pytest.approx(large - m, abs=0.2)
    assert {"1.0M", "10M", "100M"} <= set(words(svg))


def test_curves_of_models_with_and_without_calls_differ_without_their_colours() -> None:
    scores = [
        *(made_score(name, "asdiv", 0.4, api_top_k=10) for name in "SL"),
        *(made_score(name, "asdiv", 0.2, api_top_k=0) for name in "SL"),
        made_score("S", "asdiv", 0.9, api_top_k=1),
        made_score("L off", "asdiv", 0.1),
        made_score("L", "svamp", 0.3, api_top_k=10),
    ]
    svg = read(scaled(scores, {"Toolformer": ["S", "L"], "off": ["L off"], "none": ["M"]}))
    assert words(svg)[:3] == ["Toolformer", "Toolformer, k = 0", "off"]
    legend, first, second = curves(svg)[:3], curves(svg)[3:6], curves(svg)[6:]
    assert len(legend) == len(first) == 3 and len(second) == 1
    marks = [curve.find(f"{_SVG}path") for curve in first]
    assert len({mark.attrib["d"] for mark in marks if mark is not None}) == 3
    dashes = [curve.find(f"{_SVG}polyline") for curve in first]
    assert len({line.attrib["stroke-dasharray"] for line in dashes if line is not None}) == 3
    told = titles(svg)
    assert "Toolformer, S, 1,000,000 parameters: 40.0 (35-45)" in told
    assert "Toolformer, k = 0, L, 100,000,000 parameters: 20.0 (15-25)" in told
    assert "off, L off, 100,000,000 parameters: 10.0 (5-15)" in told
    assert not any("90.0" in title for title in told), "only the largest k and 0 are drawn"
    with_tools, without, _ = (places(curve) for curve in first)
    base = base_of(svg)
    assert base - with_tools[0][1] == pytest.approx(2 * (base - without[0][1]), abs=0.3)


def test_intervals_of_curves_reach_as_far_and_stand_beside_each_other() -> None:
    scores = [made_score("L", "asdiv", 0.2), made_score("L off", "asdiv", 0.2)]
    svg = read(scaled(scores, {"with tools": ["L"], "off": ["L off"]}))
    [one, other] = curves(svg)[2:]
    [(x, y)], [(aside, _)] = places(one), places(other)
    assert aside - x >= 5
    stem, below, above = (
        [number(line, name) for name in ("x1", "y1", "x2", "y2")]
        for line in one.iter(f"{_SVG}line")
    )
    base = base_of(svg)
    low, high = base - 0.75 * (base - y), base - 1.25 * (base - y)  # 15 % and 25 %
    assert stem == pytest.approx([x, low, x, high], abs=0.2)
    assert below[1] == below[3] == stem[1] and above[1] == above[3] == stem[3]


def test_without_sizes_there_is_nothing_to_draw() -> None:
    scores = [made_score("S", "asdiv", 0.2), made_score("unknown", "asdiv", 0.2)]
    assert scaled(scores, {}) is None
    assert scaled(scores, {"curve": ["M", "unknown"]}) is None
    assert scaled(scores, {"curve": ["S"]}) is not None


def test_calibration_is_drawn_over_k() -> None:
    scores = [made_score("A", "asdiv", 0.2 + k / 50, api_top_k=k) for k in (0, 1, 10)]
    [topic] = topics_of(scores)
    [table] = calibration_tables(topic, scores)
    svg = read(calibration_plot(table))
    told = titles(svg)
    assert "AC: examples with a call, k = 10: 40.0 (35-45)" in told
    drawn = [len(places(curve)) for curve in curves(svg)[3:]]
    assert drawn == [3, 2, 3], "with k = 0 no example has a call"
    assert {"0", "1", "10", "0.0%", "50.0%"} <= set(words(svg))


def test_names_cannot_break_a_plot() -> None:
    scores = [made_score('<a> & "b"', "mine", 0.2)]
    [topic] = topics_of(scores)
    svg = read(bars_plot(score_table(topic, scores, {'<a> & "b"': True})))
    assert '<a> & "b"' in words(svg)
