"""Assay: how well does a language model do on a benchmark, how sure are we, and can you check it?

The public names are listed here and loaded when first used; `import assay` itself loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.core.version import __version__

# Public name → module that has it.
_PUBLIC = {
    "AssayError": "assay.core.errors",
    "Capabilities": "assay.core.fingerprints",
    "Choose": "assay.tasks.python",
    "Complete": "assay.tasks.python",
    "Demonstrated": "assay.core.requests",
    "Document": "assay.core.documents",
    "Estimate": "assay.core.scores",
    "Failure": "assay.core.responses",
    "FilterSpec": "assay.core.specs",
    "Fingerprint": "assay.core.fingerprints",
    "Generation": "assay.core.requests",
    "Instance": "assay.core.requests",
    "Loglikelihood": "assay.core.requests",
    "Logprob": "assay.core.responses",
    "Message": "assay.core.requests",
    "MetricSpec": "assay.core.specs",
    "Model": "assay.core.protocols",
    "PipelineSpec": "assay.core.specs",
    "Read": "assay.tasks.python",
    "RollingLoglikelihood": "assay.core.requests",
    "RunResult": "assay.core.results",
    "RunSpec": "assay.core.specs",
    "Sampling": "assay.core.requests",
    "Task": "assay.core.protocols",
    "TaskResult": "assay.core.results",
    "Text": "assay.core.responses",
    "UserError": "assay.core.errors",
    "Windows": "assay.core.requests",
    "Write": "assay.tasks.python",
    "compare": "assay.api",
    "evaluate": "assay.api",
    "evaluate_matrix": "assay.api",
    "explain": "assay.api",
    "finetune": "assay.api",
    "make_spec": "assay.options.specification",
    "plan_run": "assay.api",
    "plot": "assay.api",
    "rater_agreement": "assay.stats.agreement",
    "rescore": "assay.api",
    "show_document": "assay.api",
    "study_methods": "assay.api",
    "task": "assay.tasks.python",
}

__all__ = [
    "AssayError",
    "Capabilities",
    "Choose",
    "Complete",
    "Demonstrated",
    "Document",
    "Estimate",
    "Failure",
    "FilterSpec",
    "Fingerprint",
    "Generation",
    "Instance",
    "Loglikelihood",
    "Logprob",
    "Message",
    "MetricSpec",
    "Model",
    "PipelineSpec",
    "Read",
    "RollingLoglikelihood",
    "RunResult",
    "RunSpec",
    "Sampling",
    "Task",
    "TaskResult",
    "Text",
    "UserError",
    "Windows",
    "Write",
    "__version__",
    "compare",
    "evaluate",
    "evaluate_matrix",
    "explain",
    "finetune",
    "make_spec",
    "plan_run",
    "plot",
    "rater_agreement",
    "rescore",
    "show_document",
    "study_methods",
    "task",
]

if TYPE_CHECKING:
    from assay.api import (
        compare,
        evaluate,
        evaluate_matrix,
        explain,
        finetune,
        plan_run,
        plot,
        rescore,
        show_document,
        study_methods,
    )
    from assay.core.documents import Document
    from assay.core.errors import AssayError, UserError
    from assay.core.fingerprints import Capabilities, Fingerprint
    from assay.core.protocols import Model, Task
    from assay.core.requests import (
        Demonstrated,
        Generation,
        Instance,
        Loglikelihood,
        Message,
        RollingLoglikelihood,
        Sampling,
        Windows,
    )
    from assay.core.responses import Failure, Logprob, Text
    from assay.core.results import RunResult, TaskResult
    from assay.core.scores import Estimate
    from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, RunSpec
    from assay.options.specification import make_spec
    from assay.stats.agreement import rater_agreement
    from assay.tasks.python import Choose, Complete, Read, Write, task


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
