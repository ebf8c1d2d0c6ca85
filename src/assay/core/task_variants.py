"""A task variant: the prompt style, prompt, seed and order of the choices in which a run evaluates a task.

A variant is a value on the task's card. Recorded runs have only the name that it prints as, `task@letters#seed=3`:
`base_name` and `task_family` parse it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# The axes along which a task is varied.
DOCUMENT, PROMPT, SEED, ORDER, DRAW = "document", "prompt", "seed", "order", "draw"
# Begins the names of lm-eval's own tasks, `lm_eval/hellaswag`, beside ours of the same name.
LM_EVAL_PREFIX = "lm_eval/"
# Between the names of factors that act together.
COMBINED = " × "
# The levels at the end of a variant's name. A task's own name may contain a #, such as c#.
_LEVELS = re.compile(rf"(?:#(?:{SEED}|{ORDER})=-?\d+)+\Z")


@dataclass(frozen=True, slots=True)
class TaskVariant:
    """One of the variants in which a run evaluates a task. It prints as the name in tables: `task@letters#seed=3`.

    Attributes:
        task: the task's own name.
        style: prompt style; None for the task's own prompt.
        prompt: name of the prompt, for a task with several prompts.
        profile: profile and its variant, if these do not change the task's prompt style.
        levels: axis → level, for the axes that the run varies: `{"seed": 1234, "order": 1}`.
        draws: answers drawn per question, if the run varies the draws.
    """

    task: str
    style: str | None = None
    prompt: str | None = None
    profile: str | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    draws: int | None = None

    def __str__(self) -> str:
        return self.task + self.suffix

    @property
    def suffix(self) -> str:
        """The suffix after the task's name: `@letters#seed=3`."""
        return self._label + "".join(f"#{axis}={level}" for axis, level in self.levels.items())

    @property
    def base(self) -> str:
        """The name without levels: `task@letters`. All variants with this name differ in levels only."""
        return self.task + self._label

    @property
    def order(self) -> int:
        """Index of the listed order of the choices; 0 is the document's own order."""
        return self.levels.get(ORDER, 1) - 1

    @property
    def _label(self) -> str:
        label = self.style or self.prompt or self.profile
        return "" if label is None else f"@{label}"


def base_name(name: str) -> str:
    """The name of a variant without its levels."""
    return _LEVELS.sub("", name)


def task_family(name: str) -> str:
    """The name of a variant without levels, prompt and style: that of the task, whose documents all variants share."""
    return base_name(name).partition("@")[0]
