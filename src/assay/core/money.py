"""Dollars as text, for messages and reports."""

from __future__ import annotations


def format_dollars(dollars: float) -> str:
    """`$12.50`, `$0.0123`: two decimals, or three significant digits of less than ten cents."""
    if dollars >= 0.0995 or dollars == 0:
        return f"${dollars:,.2f}"
    return f"${float(f'{dollars:.3g}'):.10f}".rstrip("0")
