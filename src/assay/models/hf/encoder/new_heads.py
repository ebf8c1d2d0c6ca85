"""Encoders with the head to train: the parent's own if it fits, else a new one on the parent's body.

In: a parent and the kind of head. Out: a loaded network. New heads are initialised from torch's random state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.label_mapping import are_generic, label_indices
from assay.core.plural import plural
from assay.models.hf.encoder.heads import LABELS, MASKED, NUMBER, HeadKind, find_head, head_labels
from assay.models.loading.checkpoint import Checkpoint
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.loading.network import loading
from assay.models.runtime import quiet
from assay.models.training.recipes import LoadedNetwork, Parent

# A layer of the body that many checkpoints lack and only some heads use.
POOLER = "pooler"


@dataclass(frozen=True, slots=True)
class HeadPlan:
    """Which head to train.

    Attributes:
        head: its kind.
        labels: names of its outputs, in order; empty unless it is a classification head.
        label_positions: for each label of the training examples, the index of its output.
        reuses_parent_head: whether the parent's own head is trained further.
        notice: a notice for the user about the choice.
    """

    head: HeadKind
    labels: tuple[str, ...] = ()
    label_positions: tuple[int, ...] = ()
    reuses_parent_head: bool = False
    notice: str | None = None


def plan_head(checkpoint: Checkpoint, arguments: CausalArguments, head: HeadKind, labels: tuple[str, ...]) -> HeadPlan:
    """The parent's own head if it has the right kind and the same labels, in any order; else a new one."""
    own_head = find_head(checkpoint.config)
    label_positions = tuple(range(len(labels)))
    if own_head is head is LABELS:
        own = head_labels(checkpoint.config, arguments)
        found = label_indices(own, labels) if len(own) == len(labels) else None
        if found is not None:
            return HeadPlan(head, labels if are_generic(own) else own, found, reuses_parent_head=True)
        text = f"the parent's head has other labels ({', '.join(own)}): training a new head"
        return HeadPlan(head, labels, label_positions, notice=text)
    if own_head is head:
        return HeadPlan(head, labels, label_positions, reuses_parent_head=True)
    lost = None if own_head in (None, MASKED) else f"the parent's {own_head.name} is replaced by a {head.name}"
    return HeadPlan(head, labels, label_positions, notice=lost)


def load_with_head(parent: Parent, plan: HeadPlan) -> LoadedNetwork:
    """The parent's body in float32, with the head.

    Raises:
        ModelError: if weights of the body are missing from the parent's files.
    """
    module, new = _load(parent, plan)
    prefix = f"{module.base_model_prefix}."
    lacking = sorted(name for name in new if name.startswith(prefix) and POOLER not in name)
    if lacking:
        found = f"{plural(len(lacking), 'weight')} missing from its files, such as {lacking[0]}"
        raise ModelError(Fault(str(parent.checkpoint.folder), found, "a complete encoder"))
    names = [name for name, _ in module.named_parameters()]
    outside = [name for name in names if not name.startswith(prefix)]
    if not plan.reuses_parent_head:
        _renew(module, [name for name in outside if name not in new])
    poolers = {name[: name.index(POOLER) + len(POOLER)] for name in new if name.startswith(prefix)}
    heads = dict.fromkeys([*(name.split(".")[0] for name in outside), *sorted(poolers)])
    return LoadedNetwork(module, tuple(heads), notices=(plan.notice,) if plan.notice else ())


def _load(parent: Parent, plan: HeadPlan) -> tuple[Any, set[str]]:
    """The network, and the names of the weights that are not in its files."""
    import torch
    import transformers

    arguments = parent.arguments
    options: dict[str, Any] = {
        "dtype": torch.float32,
        "trust_remote_code": arguments.trust_remote_code,
        "local_files_only": True,
        "output_loading_info": True,
        "weights_only": True,
        "ignore_mismatched_sizes": not plan.reuses_parent_head,
    }
    if plan.labels:
        names = dict(enumerate(plan.labels))
        options |= {"num_labels": len(names), "id2label": names, "label2id": {name: key for key, name in names.items()}}
    if plan.head is NUMBER:
        options["num_labels"] = 1
    if arguments.attn_implementation is not None:
        options["attn_implementation"] = arguments.attn_implementation
    folder = str(parent.checkpoint.folder)
    with loading(folder, "the model cannot be loaded"), quiet():
        module, info = getattr(transformers, plan.head.loader).from_pretrained(folder, **options)
    if plan.labels:
        module.config.problem_type = "single_label_classification"
    if plan.head is NUMBER:
        module.config.problem_type = "regression"
    mismatched = {entry if isinstance(entry, str) else entry[0] for entry in info["mismatched_keys"]}
    return module.eval(), {*info["missing_keys"], *mismatched}


def _renew(module: Any, names: list[str]) -> None:
    """Re-initialises weights that were trained for another task."""
    import torch

    if not names:
        return
    with quiet(), torch.no_grad():
        fresh = type(module)(module.config).state_dict()
        for name, parameter in module.named_parameters():
            if name in names:
                parameter.copy_(fresh[name])
