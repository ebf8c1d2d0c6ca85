"""Which module of ours stands for which module of lm-eval."""

from __future__ import annotations

from assay.shim.adapter import make_class_task
from assay.shim.metrics import AGGREGATIONS
from assay.shim.registration import FILTERS
from assay.tasks.harness.code import Shim

_MODULES = {
    "lm_eval.utils": "assay.shim.texts",
    "lm_eval.api.filter": "assay.shim.filters",
    "lm_eval.api.instance": "assay.shim.instances",
    "lm_eval.api.metrics": "assay.shim.metrics",
    "lm_eval.api.registry": "assay.shim.registration",
    "lm_eval.api.samplers": "assay.shim.samplers",
    "lm_eval.api.task": "assay.shim.task",
    "lm_eval.filters.extraction": "assay.shim.filters",
    "lm_eval.filters.selection": "assay.shim.filters",
    "lm_eval.filters.transformation": "assay.shim.filters",
}

SHIM = Shim(_MODULES, FILTERS, AGGREGATIONS, make_class_task)
