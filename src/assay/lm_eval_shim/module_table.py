"""Table of lm-eval's modules and the modules of ours that replace them."""

from __future__ import annotations

from assay.lm_eval_shim.adapter import make_class_task
from assay.lm_eval_shim.filter_classes import FILTERS
from assay.lm_eval_shim.metric_functions import AGGREGATIONS
from assay.tasks.lm_eval.file.python_code import Shim

_MODULES = {
    "lm_eval.utils": "assay.lm_eval_shim.text_functions",
    "lm_eval.api.filter": "assay.lm_eval_shim.filter_classes",
    "lm_eval.api.instance": "assay.lm_eval_shim.task_classes",
    "lm_eval.api.metrics": "assay.lm_eval_shim.metric_functions",
    "lm_eval.api.registry": "assay.lm_eval_shim.filter_classes",
    "lm_eval.api.samplers": "assay.lm_eval_shim.samplers",
    "lm_eval.api.task": "assay.lm_eval_shim.task_classes",
    "lm_eval.filters.extraction": "assay.lm_eval_shim.filter_classes",
    "lm_eval.filters.selection": "assay.lm_eval_shim.filter_classes",
    "lm_eval.filters.transformation": "assay.lm_eval_shim.filter_classes",
}

SHIM = Shim(_MODULES, FILTERS, AGGREGATIONS, make_class_task)
