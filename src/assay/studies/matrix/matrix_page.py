"""A matrix as one HTML file: heat maps, tables and curves, no scripts, nothing loaded from elsewhere.

Shades follow cividis, and blue over white to orange, which are colour-blind safe; every number
is also written out, in black or white, whichever is easier to read on its shade.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from assay.core.plural import plural
from assay.core.version import __version__
from assay.report.safe_names import printable
from assay.studies.matrix.checkpoint_curves import curves
from assay.studies.matrix.matrix_tables import HeatTable, heat_tables
from assay.studies.matrix.matrix_values import Matrix

Colour = tuple[int, int, int]

_SEQUENTIAL: tuple[Colour, ...] = ((0, 32, 77), (65, 77, 107), (124, 123, 120), (188, 175, 111), (255, 234, 70))
_DIVERGING: tuple[Colour, ...] = ((33, 102, 172), (146, 197, 222), (255, 255, 255), (253, 184, 99), (179, 88, 6))

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #111; --soft: #555; }
@media (prefers-color-scheme: dark) { :root { --back: #16181b; --ink: #e8e8e8; --soft: #a5a9ae; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: var(--ink);
       background: var(--back); overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.wide { overflow-x: auto; overflow-wrap: normal; }
table { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; padding: .3rem .6rem; vertical-align: bottom; overflow-wrap: break-word;
     max-width: 14rem; }
tbody th { vertical-align: middle; }
tr > :first-child { position: sticky; left: 0; background: var(--back); }
td { padding: .3rem .6rem; text-align: right; white-space: nowrap; }
td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 6rem; }
td.soft { color: var(--soft); }
p { margin: .3rem 0; } .legend, footer { color: var(--soft); font-size: .9rem; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
@media (max-width: 40rem) {
  body { font-size: 14px; margin: 1rem auto; padding: 0 .7rem; }
  th, td { padding: .25rem .4rem; }
  th { max-width: 7.5rem; }
}
"""
# Characters after which a long name may be broken.
_BREAKS = re.compile(r"([_/@.:-]+)(?=.)")


def page(matrix: Matrix) -> str:
    """The whole file."""
    tables = "\n".join(_table(table) for table in heat_tables(matrix))
    figures = "\n".join(f"<figure>{figure}</figure>" for figure in curves(matrix).values())
    notices = "\n".join(f"<p>Note: {_text(notice)}</p>" for notice in matrix.notices)
    runs = "\n".join(f"<p>{_text(f'{run.model}: run {run.run_id} in {run.store}')}</p>" for run in matrix.runs)
    count = f"{plural(len(matrix.models), 'model')} on {plural(matrix.tasks, 'task')}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{count}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{count}</h1>
{tables}
{figures}
{notices}
<footer>
{runs}
<p>Assay {_text(__version__)}</p>
</footer>
</body>
</html>
"""


def _table(table: HeatTable) -> str:
    section = table.section
    head = "".join(f'<th scope="col">{_name(heading)}</th>' for heading in section.headings)
    rows = "\n".join(_row(row, *_shading(table, index)) for index, row in enumerate(section.rows))
    legend = f'<p class="legend">{_text(table.legend)}</p>' if table.legend else ""
    notes = "\n".join(f"<p>{_text(note)}</p>" for note in section.notes)
    return f"""<section>
<h2>{_text(section.title)}</h2>
<div class="wide" tabindex="0" role="region" aria-label="{_text(section.title)}">
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
{legend}
{notes}
</section>"""


def _shading(table: HeatTable, index: int) -> tuple[Sequence[str], Sequence[str]]:
    """The colours and tooltips of a row; empty for a plain table."""
    if not table.shades:
        return (), ()
    scale = _DIVERGING if table.is_diverging else _SEQUENTIAL
    return ["" if shade is None else style(shade, scale) for shade in table.shades[index]], table.tips[index]


def _row(row: Sequence[str], styles: Sequence[str], tips: Sequence[str]) -> str:
    name, *texts = row
    cells = [f'<th scope="row">{_name(name)}</th>']
    for index, text in enumerate(texts):
        colour = f' style="{styles[index]}"' if styles and styles[index] else ""
        tip = f' title="{_text(tips[index])}"' if tips and tips[index] else ""
        cells.append(f"<td{_kind(text, bool(styles))}{colour}{tip}>{_text(text)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _kind(text: str, is_heat: bool) -> str:
    """CSS class of a cell: text, number, or a number in parentheses, which has too small an n."""
    if is_heat and text.startswith("("):
        return ' class="soft"'
    return "" if is_heat or _is_number(text) else ' class="text"'


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in "-−–"


def style(shade: float, scale: Sequence[Colour]) -> str:
    """Background and text colour of a shade from 0 to 1."""
    red, green, blue = mixed(shade, scale)
    # At this luminance black and white have equal contrast; each has 4.5 or more on its side of it.
    text = "#000" if luminance((red, green, blue)) > 0.179 else "#fff"
    return f"background:#{red:02x}{green:02x}{blue:02x};color:{text}"


def mixed(shade: float, scale: Sequence[Colour]) -> Colour:
    """The colour at a position of a scale, interpolated between its two nearest marks."""
    index = max(0.0, min(1.0, shade)) * (len(scale) - 1)
    below = min(int(index), len(scale) - 2)
    rest = index - below
    red, green, blue = (round(a + (b - a) * rest) for a, b in zip(scale[below], scale[below + 1], strict=True))
    return red, green, blue


def luminance(colour: Colour) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    parts = [value / 255 for value in colour]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _name(text: str) -> str:
    """A name that may be broken at its separators, so that it neither widens a table nor is split within a word."""
    return "<wbr/>".join(_text(part) for part in _BREAKS.sub("\\1\n", printable(text).replace("\n", " ")).split("\n"))


def _text(text: str) -> str:
    return escape(printable(text), quote=True)
