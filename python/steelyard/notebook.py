"""An answer in a notebook: the verdict, the chart and a table, complete without script."""
from __future__ import annotations

import itertools
from html import escape
from typing import TYPE_CHECKING

from .call import ask_text
from .prediction import Prediction

if TYPE_CHECKING:
    from .document import Answer

# Charts of one notebook may not share the names of their patterns.
_NUMBERS = itertools.count(1)

_STYLE = (
    "<style>.sy-answer{font:13px/1.45 system-ui,sans-serif;max-width:760px}.sy-answer table{border-collapse:collapse}"
    ".sy-answer td,.sy-answer th{padding:1px 10px 1px 0;text-align:right}.sy-answer td:first-child,"
    ".sy-answer th:first-child{text-align:left}.sy-answer svg{max-width:100%;height:auto;background:#fff}"
    ".sy-answer pre{font-size:12px;white-space:pre;overflow-x:auto}</style>"
)


def fragment(answer: Answer) -> str:
    """HTML of under 30 kB that shows itself on its own, on a forge and in a PDF. All that comes from files is escaped."""
    lines = str(answer).splitlines() or [""]
    parts = [_STYLE, f"<p><b>{escape(lines[0])}</b></p>"]
    if isinstance(answer, Prediction):
        parts.append(_chart(answer))
        if answer.suggestions:
            parts.append(_suggestions(answer))
        parts.append(_assumptions(answer))
    shown = "\n".join(lines[1:])
    if shown.strip():
        opened = "" if isinstance(answer, Prediction) else " open"
        cut = shown if len(shown) < 12_000 else shown[:12_000] + "\n... (print() shows it all)"
        parts.append(f"<details{opened}><summary>as text</summary><pre>{escape(cut)}</pre></details>")
    return f'<div class="sy-answer">{"".join(parts)}</div>'


def _chart(answer: Answer) -> str:
    svg = ask_text(answer.request, "svg")
    if not svg.startswith("<svg") or len(svg) > 12_000:
        return ""
    number = next(_NUMBERS)
    for name in ("slack", "runtime"):
        svg = svg.replace(f"steelyard-{name}", f"steelyard-{name}-{number}")
    return svg


def _suggestions(answer: Prediction) -> str:
    rows = "".join(
        f"<tr><td>{i}. {escape(one.says)}</td><td>{one.peak.gib:.1f}</td><td>{one.costs_seconds:+.3g} s</td></tr>"
        for i, one in enumerate(answer.suggestions, 1)
    )
    return f"<table><tr><th>a change that fits</th><th>GiB</th><th>step</th></tr>{rows}</table>"


def _assumptions(answer: Prediction) -> str:
    assumed = answer.assumptions
    rows = "".join(
        f"<tr><td>{escape(one.key)}</td><td>{escape(one.value)}</td><td>{escape(one.reason)}</td></tr>" for one in assumed
    )
    return f"<details><summary>{len(assumed)} assumptions</summary><table>{rows}</table></details>" if assumed else ""
