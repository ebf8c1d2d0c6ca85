"""The conditions that a benchmark must meet whatever the model, by name: a card may allow exceptions, with a reason."""

from __future__ import annotations

from collections.abc import Mapping

# Check → what it demands, in the order of the table.
CHECKS: Mapping[str, str] = {
    "builds": "every document builds into requests that can be scored",
    "labels": "every document has a right answer among its choices",
    "template": "prompts contain no template mark and no None in place of a missing field",
    "space": "prompts have no doubled or trailing white space beyond that of the documents",
    "leak": "prompts do not give the right answer away",
    "examples": "no document is among its own few-shot examples",
    "distinct": "different choices make different requests, and no two choices are equal",
    "perfect": "right answers score the best value of every metric",
    "corrupted": "wrong answers score worse than right ones",
    "chance": "random answers score the stated chance, and so does the share of right choices",
    "majority": "the commonest class has the stated share",
}
