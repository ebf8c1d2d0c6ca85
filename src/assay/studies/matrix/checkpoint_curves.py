"""Scores of checkpoints over training steps, as SVG: a line with its interval per training run, one figure per task.

Lines differ in colour (Okabe and Ito's colour-blind safe palette) and in their dashes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from assay.core.scores import Estimate
from assay.report.safe_names import printable, shortened
from assay.studies.matrix.matrix_values import Matrix, MatrixColumn

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 340, 70, 20, 40, 70
# Steps, and scores that are not shares, that differ by more than this factor are shown on a logarithmic scale.
_FAR = 50.0
_TICKS = 5
# Factor below which numbers count as equal; margin of a logarithmic scale of scores beyond its ends.
_ROUNDING, _LOG_ROOM = 1 + 1e-9, 1.15
# Legend entries per row below the figure, and the height of a row.
_KEYS, _KEY_HEIGHT = 3, 16


@dataclass(frozen=True, slots=True)
class _Scale:
    """An axis: its two ends, and whether it is logarithmic."""

    low: float
    high: float
    is_log: bool

    def share(self, value: float) -> float:
        """Position of a value between the ends, from 0 to 1; a value below the lower end is placed there."""
        low, high, place = (self._length(number) for number in (self.low, self.high, max(value, self.low)))
        return (place - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[float]:
        """Round numbers between the ends."""
        if not self.is_log:
            return _round_numbers(self.low, self.high)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        apart = max(1, math.ceil((last - first) / _TICKS))
        steps = (1, 2, 5) if last - first <= 2 else (1,)
        marks = [step * 10.0**power for power in range(first, last + 1, apart) for step in steps]
        return [mark for mark in marks if self.low <= mark * _ROUNDING and mark <= self.high * _ROUNDING]

    def _length(self, value: float) -> float:
        return math.log10(value) if self.is_log else value


def _round_numbers(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, as many as fit."""
    least = (high - low) / _TICKS
    unit = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    step = next(size * unit for size in (1, 2, 5, 10) if size * unit * _ROUNDING >= least)
    first = math.ceil(low / step / _ROUNDING) if low > 0 else math.ceil(low / step)
    marks = [place * step for place in range(first, first + _TICKS + 2)]
    return [mark for mark in marks if low <= mark + step * 1e-9 and mark <= high + step * 1e-9]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Positions of values on the figure."""

    steps: _Scale
    scores: _Scale

    def x(self, step: float) -> float:
        return _LEFT + self.steps.share(step) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - self.scores.share(value) * (_HEIGHT - _TOP - _BOTTOM)


Points = list[tuple[float, Estimate]]


def curves(matrix: Matrix) -> dict[str, str]:
    """Column → figure, for every column with two or more checkpoints of one training run."""
    found = {}
    for column in matrix.columns:
        series = {name: points for name, points in _series(matrix, column).items() if len(points) > 1}
        if series:
            found[column.label] = _figure(column, series)
    return found


def _series(matrix: Matrix, column: MatrixColumn) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for model, step in matrix.steps.items():
        cell = matrix.at(model, column)
        if cell is not None and cell.estimate.value is not None:
            found.setdefault(step.series, []).append((step.number, cell.estimate))
    return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def _figure(column: MatrixColumn, series: dict[str, Points]) -> str:
    frame = _frame(column, list(series.values()))
    parts = [*_axes(column, frame)]
    for place, (name, points) in enumerate(series.items()):
        parts += _line(frame, points, _COLOURS[place % len(_COLOURS)], _DASHES[place % len(_DASHES)])
        parts.append(_key(place, name))
    inner = "\n".join(parts)
    height = _HEIGHT + _KEY_HEIGHT * ((len(series) - 1) // _KEYS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" role="img" font-family="system-ui, sans-serif" font-size="12">\n'
        f"<title>{_text(column.title)} over training steps</title>\n"
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>\n{inner}\n</svg>'
    )


def _frame(column: MatrixColumn, lines: Sequence[Points]) -> _Frame:
    steps = [step for line in lines for step, _ in line]
    ends = [end for line in lines for _, estimate in line for end in _interval(estimate)]
    ends += [column.baseline] if column.baseline is not None else []
    values = [estimate.value or 0.0 for line in lines for _, estimate in line]
    if not column.is_share and _are_far(values):
        # A wide interval may reach below zero, which a logarithmic axis cannot show: ends far below are left out.
        low = min([end for end in ends if end >= min(values) / _FAR])
        scores = _Scale(low / _LOG_ROOM, max(ends) * _LOG_ROOM, True)
    else:
        low, high = min(ends), max(ends)
        room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        scores = _Scale(low - room, high + room, False)
    return _Frame(_Scale(min(steps), max(steps), _are_far(steps)), scores)


def _are_far(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > _FAR


def _interval(estimate: Estimate) -> tuple[float, float]:
    value = estimate.value or 0.0
    is_known = estimate.low is not None and estimate.high is not None
    return (estimate.low or 0.0, estimate.high or 0.0) if is_known else (value, value)


def _axes(column: MatrixColumn, frame: _Frame) -> list[str]:
    left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    suffix = ", logarithmic" if frame.scores.is_log else ""
    parts = [f'<text x="{left}" y="20" font-size="14" font-weight="600">{_text(column.title)}{suffix}</text>']
    for value in frame.scores.ticks():
        y = frame.y(value)
        shown = f"{100 * value:.4g} %" if column.is_share else f"{value:.4g}"
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>')
    for step in frame.steps.ticks():
        x = frame.x(step)
        parts.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}" stroke="#333"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{step:,.4g}</text>')
    if column.baseline is not None:
        y = frame.y(column.baseline)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#555" stroke-dasharray="3 3"/>')
        parts.append(f'<text x="{right}" y="{y - 4:.1f}" text-anchor="end" fill="#555">picking at random</text>')
    parts.append(f'<line x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="#333"/>')
    scale = ", logarithmic" if frame.steps.is_log else ""
    middle = (left + right) / 2
    parts.append(f'<text x="{middle:.0f}" y="{bottom + 36}" text-anchor="middle">training step{scale}</text>')
    return parts


def _line(frame: _Frame, points: Points, colour: str, dashes: str) -> list[str]:
    """The interval as a band, the scores as a line with dots."""
    upper = [(step, _interval(estimate)[1]) for step, estimate in points]
    lower = [(step, _interval(estimate)[0]) for step, estimate in reversed(points)]
    scores = [(step, estimate.value or 0.0) for step, estimate in points]
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return [
        f'<polygon points="{_places(frame, upper + lower)}" fill="{colour}" fill-opacity="0.15"/>',
        f'<polyline points="{_places(frame, scores)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>',
        *(
            f'<circle cx="{frame.x(step):.1f}" cy="{frame.y(value):.1f}" r="3" fill="{colour}"/>'
            for step, value in scores
        ),
    ]


def _places(frame: _Frame, points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value in points)


def _key(place: int, name: str) -> str:
    x, y = _LEFT + place % _KEYS * 185, _HEIGHT - 14 + place // _KEYS * _KEY_HEIGHT
    colour, dashes = _COLOURS[place % len(_COLOURS)], _DASHES[place % len(_DASHES)]
    return (
        f'<line x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dashes or "none"}"/><text x="{x + 30}" y="{y}">{_text(shortened(name, 22))}</text>'
    )


def _text(text: str) -> str:
    return escape(printable(text), quote=True)
