"""Translates the events of a run into what the terminal shows."""

from __future__ import annotations

from assay.report.terminal import ProgressView
from assay.run.events import Event, Noticed, Planned, Progressed, StageStarted, Trained


class TerminalListener:
    """Shows events. Early notices are shown again with the result, where users look for them."""

    def __init__(self, view: ProgressView) -> None:
        self._view = view
        self._is_paused = False

    def pause(self) -> None:
        """Removes the bars, so that results can be printed; the next event shows new ones."""
        self._view.__exit__(None, None, None)
        self._is_paused = True

    def __call__(self, event: Event) -> None:
        if self._is_paused:
            self._view.__enter__()
            self._is_paused = False
        try:
            self._show(event)
        except OSError:
            self._view.mute()

    def _show(self, event: Event) -> None:
        if isinstance(event, Progressed):
            if event.is_loading:
                self._view.loading(event.what)
                return
            work, tokens = (event.work_done, event.work_total), (event.tokens, event.tokens_total)
            self._view.progress(event.what, event.done, event.total, work, event.failed, tokens, detail=event.waiting)
        elif isinstance(event, Trained):
            self._view.progress("training", event.progress.step, event.progress.steps, detail=_training_detail(event))
        elif isinstance(event, Planned):
            known = f", {event.known:,} already known" if event.known else ""
            self._view.say(f"{event.built:,} requests, {event.unique:,} distinct{known}: {event.missing:,} to ask")
        elif isinstance(event, StageStarted):
            self._begin(event)
        elif isinstance(event, Noticed):
            self._view.say(f"note: {event.text}", style="yellow")

    def _begin(self, event: StageStarted) -> None:
        if event.stage == "resolve":
            self._view.restart()
        elif event.stage == "lap":
            self._view.restart()
            self._view.say(f"lap {event.detail}", style="dim")
        elif event.stage == "model":
            self._view.say(f"model {event.detail}", style="bold")
        elif event.stage == "pose":
            self._view.say(f"task {event.detail}", style="dim")
        elif event.stage == "get":
            self._view.say(f"dataset {event.detail}", style="dim")
        elif event.stage == "fit":
            self._view.say(f"training {event.detail}", style="dim")


def _training_detail(event: Trained) -> str:
    """`loss 0.512, accuracy 0.871`: the loss of the last steps, and the metric at the last validation."""
    loss, value = event.progress.loss, event.progress.value
    parts = [] if loss is None else [f"loss {loss:.4g}"]
    parts += [] if value is None else [f"{event.metric} {value:.4g}"]
    return ", ".join(parts)
