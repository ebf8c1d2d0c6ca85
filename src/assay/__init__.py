"""Assay: how well does a language model do on a benchmark, how sure are we, and can you check it?

The public names are listed here and imported on first use; `import assay` itself loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.core.version import __version__

# Public name → module that defines it.
_PUBLIC = {
    "AnsweredDocument": "assay.core.results",
    "AssayError": "assay.core.errors",
    "Capabilities": "assay.core.protocols",
    "CheckReport": "assay.tasks.file_checks",
    "ChoiceView": "assay.scoring.scorers.multiple_choice",
    "Choose": "assay.tasks.python",
    "Classification": "assay.core.requests",
    "Complete": "assay.tasks.python",
    "Demonstrated": "assay.core.requests",
    "Denominators": "assay.core.scores",
    "DataReport": "assay.data.fetched",
    "DetectOptions": "assay.core.specs",
    "Document": "assay.core.documents",
    "Estimate": "assay.core.scores",
    "Explanation": "assay.studies.explain.explain_values",
    "Failure": "assay.core.responses",
    "Filter": "assay.core.protocols",
    "FilterSpec": "assay.core.specs",
    "Fingerprint": "assay.core.identity",
    "FittedModel": "assay.store.trained_models",
    "Generation": "assay.core.requests",
    "GroupResult": "assay.core.results",
    "Instance": "assay.core.requests",
    "LabelScores": "assay.core.responses",
    "LikelihoodView": "assay.scoring.scorers.text_likelihood",
    "Listener": "assay.run.events",
    "Loglikelihood": "assay.core.requests",
    "Logprob": "assay.core.responses",
    "Matrix": "assay.studies.matrix.matrix_values",
    "Message": "assay.core.requests",
    "MethodsStudy": "assay.studies.methods.methods_values",
    "MetricResult": "assay.core.scores",
    "MetricSpec": "assay.core.specs",
    "Model": "assay.core.protocols",
    "NewTask": "assay.testing.new_task",
    "Output": "assay.core.responses",
    "PairedScore": "assay.studies.paired.paired_values",
    "PipelineSpec": "assay.core.specs",
    "PlanReport": "assay.run.forecast",
    "Problem": "assay.core.results",
    "Read": "assay.tasks.python",
    "ReferenceReport": "assay.studies.references.protocol",
    "Request": "assay.core.requests",
    "RollingLoglikelihood": "assay.core.requests",
    "RunComparison": "assay.studies.compare.compare_values",
    "RunResult": "assay.core.results",
    "RunSpec": "assay.core.specs",
    "Sample": "assay.core.scores",
    "Sampling": "assay.core.requests",
    "Seeds": "assay.core.specs",
    "ServerReport": "assay.core.server_report",
    "Settings": "assay.options.table",
    "ShownDocument": "assay.run.show",
    "Store": "assay.store.store",
    "Task": "assay.core.protocols",
    "TaskAudit": "assay.studies.audit.extraction_audit",
    "TaskResult": "assay.core.results",
    "Text": "assay.core.responses",
    "Trainable": "assay.core.protocols",
    "UserError": "assay.core.errors",
    "Windows": "assay.core.requests",
    "Write": "assay.tasks.python",
    "audit": "assay.api_records",
    "check": "assay.api",
    "compare": "assay.api_records",
    "evaluate": "assay.api",
    "evaluate_matrix": "assay.api",
    "explain": "assay.api_records",
    "explain_reference": "assay.api_records",
    "filter": "assay.scoring.decorators",
    "finetune": "assay.api",
    "get_data": "assay.api_data",
    "load_run": "assay.api_records",
    "make_spec": "assay.options.specification",
    "metric": "assay.scoring.decorators",
    "model": "assay.models.model_decorator",
    "new_task": "assay.testing.new_task",
    "plan_run": "assay.api",
    "plot": "assay.api_records",
    "rater_agreement": "assay.stats.agreement",
    "probe": "assay.api",
    "rescore": "assay.api_records",
    "show_document": "assay.api",
    "study_methods": "assay.api",
    "task": "assay.tasks.python",
    "task_card": "assay.run.show",
}

__all__ = [
    "AnsweredDocument",
    "AssayError",
    "Capabilities",
    "CheckReport",
    "ChoiceView",
    "Choose",
    "Classification",
    "Complete",
    "DataReport",
    "Demonstrated",
    "Denominators",
    "DetectOptions",
    "Document",
    "Estimate",
    "Explanation",
    "Failure",
    "Filter",
    "FilterSpec",
    "Fingerprint",
    "FittedModel",
    "Generation",
    "GroupResult",
    "Instance",
    "LabelScores",
    "LikelihoodView",
    "Listener",
    "Loglikelihood",
    "Logprob",
    "Matrix",
    "Message",
    "MethodsStudy",
    "MetricResult",
    "MetricSpec",
    "Model",
    "NewTask",
    "Output",
    "PairedScore",
    "PipelineSpec",
    "PlanReport",
    "Problem",
    "Read",
    "ReferenceReport",
    "Request",
    "RollingLoglikelihood",
    "RunComparison",
    "RunResult",
    "RunSpec",
    "Sample",
    "Sampling",
    "Seeds",
    "ServerReport",
    "Settings",
    "ShownDocument",
    "Store",
    "Task",
    "TaskAudit",
    "TaskResult",
    "Text",
    "Trainable",
    "UserError",
    "Windows",
    "Write",
    "__version__",
    "audit",
    "check",
    "compare",
    "evaluate",
    "evaluate_matrix",
    "explain",
    "explain_reference",
    "filter",
    "finetune",
    "get_data",
    "load_run",
    "make_spec",
    "metric",
    "model",
    "new_task",
    "plan_run",
    "plot",
    "probe",
    "rater_agreement",
    "rescore",
    "show_document",
    "study_methods",
    "task",
    "task_card",
]

if TYPE_CHECKING:
    from assay.api import check, evaluate, evaluate_matrix, finetune, plan_run, probe, show_document, study_methods
    from assay.api_data import get_data
    from assay.api_records import audit, compare, explain, explain_reference, load_run, plot, rescore
    from assay.core.documents import Document
    from assay.core.errors import AssayError, UserError
    from assay.core.identity import Fingerprint
    from assay.core.protocols import Capabilities, Filter, Model, Task, Trainable
    from assay.core.requests import (
        Classification,
        Demonstrated,
        Generation,
        Instance,
        Loglikelihood,
        Message,
        Request,
        RollingLoglikelihood,
        Sampling,
        Windows,
    )
    from assay.core.responses import Failure, LabelScores, Logprob, Output, Text
    from assay.core.results import AnsweredDocument, GroupResult, Problem, RunResult, TaskResult
    from assay.core.scores import Denominators, Estimate, MetricResult, Sample
    from assay.core.server_report import ServerReport
    from assay.core.specs import DetectOptions, FilterSpec, MetricSpec, PipelineSpec, RunSpec, Seeds
    from assay.data.fetched import DataReport
    from assay.models.model_decorator import model
    from assay.options.specification import make_spec
    from assay.options.table import Settings
    from assay.run.events import Listener
    from assay.run.forecast import PlanReport
    from assay.run.show import ShownDocument, task_card
    from assay.scoring.decorators import filter, metric
    from assay.scoring.scorers.multiple_choice import ChoiceView
    from assay.scoring.scorers.text_likelihood import LikelihoodView
    from assay.stats.agreement import rater_agreement
    from assay.store.store import Store
    from assay.store.trained_models import FittedModel
    from assay.studies.audit.extraction_audit import TaskAudit
    from assay.studies.compare.compare_values import RunComparison
    from assay.studies.explain.explain_values import Explanation
    from assay.studies.matrix.matrix_values import Matrix
    from assay.studies.methods.methods_values import MethodsStudy
    from assay.studies.paired.paired_values import PairedScore
    from assay.studies.references.protocol import ReferenceReport
    from assay.tasks.file_checks import CheckReport
    from assay.tasks.python import Choose, Complete, Read, Write, task
    from assay.testing.new_task import NewTask, new_task


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        from assay.core.errors import did_you_mean

        raise AttributeError(f"module 'assay' has no attribute {name!r}{did_you_mean(name, __all__)}")
    import importlib

    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
