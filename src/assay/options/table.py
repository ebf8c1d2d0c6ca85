"""The settings of a run: one row each, with name, type, meaning, group and the field of `RunSpec` that it fills.

`Settings` is the type of the keyword arguments that the public functions share; its rows are also the options of the
command line (options/parser.py), the specification (options/specification.py) and the reference page (docs/cli.md).
A new option is a row here and a field of the specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypedDict

from assay.core.annotations import Plain
from assay.core.specs import Seeds
from assay.core.training import DIRECTIONS, FIT_KEYS, MIXES, FitSpec
from assay.options.option import (
    OPTIONAL,
    REPEAT,
    SWITCH,
    VALUE,
    WORDS,
    Option,
    joined_names,
    read_boolean,
    read_pairs,
    read_samples,
    read_seeds,
    rows_of,
)

# Headings of help texts, in their order.
RUNS, MODEL, TASKS, DOCUMENTS, PROMPTS, SCORING = "runs", "model", "tasks", "documents", "prompts", "scoring"
VARIANCE, STOPPING = "sources of variance", "early stopping"
TEXTS, TRAINING, OUTPUT = "perplexity of texts", "fine-tuning", "output"


class Settings(TypedDict, total=False):
    """Settings of a run, in the command line's names."""

    model_args: Annotated[
        str | Sequence[str] | Mapping[str, Plain] | None,
        Option(
            "such as pretrained=PATH,dtype=float32",
            MODEL,
            "K=V",
            "none",
            fills="model_args",
            short="-a",
            takes=WORDS,
            read=read_pairs("--model_args"),
        ),
    ]
    batch_size: Annotated[
        int | str | None,
        Option("sequences per batch", MODEL, "N", fills="settings.batch_size", short="-b"),
    ]
    device: Annotated[
        str | None,
        Option("cpu, cuda, cuda:1 or mps", MODEL, "NAME", "fastest available", fills="settings.device"),
    ]
    engine: Annotated[
        str,
        Option(
            "HF backend: tree (prefix sharing), padded, or auto (tree where its results check out)",
            MODEL,
            "NAME",
            fills="settings.engine",
        ),
    ]
    budget: Annotated[
        float | None,
        Option(
            "most dollars that a model behind HTTP may cost",
            MODEL,
            "DOLLARS",
            "no limit",
            details="per command; see docs/http-traffic.md",
            fills="settings.budget",
        ),
    ]
    token_budget: Annotated[
        int | None,
        Option(
            "most tokens that a model behind HTTP may read and write",
            MODEL,
            "N",
            "no limit",
            details="per command",
            fills="settings.token_budget",
        ),
    ]
    include_path: Annotated[
        str | Path | Sequence[str | Path] | None,
        Option(
            "folder with more task files",
            TASKS,
            "DIR",
            "none",
            details="may be given several times",
            fills="include_path",
            takes=REPEAT,
        ),
    ]
    data: Annotated[
        str | Path | None,
        Option(
            "folder of datasets made by assay data get, read before the Hub",
            TASKS,
            "DIR",
            "the variable ASSAY_DATA, else none",
            takes=VALUE,
        ),
    ]
    allow_code: Annotated[
        bool | str | Sequence[str],
        Option("run the Python code of task files below --include_path", TASKS, fills="allow_code", takes=SWITCH),
    ]
    confirm_run_unsafe_code: Annotated[
        bool, Option("run tasks that execute code written by the model", TASKS, fills="options.confirm_unsafe")
    ]
    metadata: Annotated[
        str | Sequence[str] | Mapping[str, Plain] | None,
        Option(
            "settings for tasks that generate their own data",
            TASKS,
            "K=V",
            "none",
            takes=WORDS,
            read=read_pairs("--metadata"),
        ),
    ]
    limit: Annotated[
        float | None,
        Option(
            "first N documents, or a fraction",
            DOCUMENTS,
            "N",
            "all",
            details="of each task; a value below 1 is a fraction",
            fills="limit",
            short="-L",
        ),
    ]
    sample: Annotated[
        float | None,
        Option(
            "N random documents, or a fraction",
            DOCUMENTS,
            "N",
            "all",
            details="of each task; a value below 1 is a fraction",
            fills="subsampling.sample",
        ),
    ]
    sample_seed: Annotated[int | None, Option("seed of the random sample", DOCUMENTS, "N", fills="subsampling.seed")]
    samples: Annotated[
        Mapping[str, Sequence[int]] | None,
        Option(
            'documents by index: {"task": [0, 5]}, or a JSON file',
            DOCUMENTS,
            "JSON",
            "all",
            fills=("samples", "options.samples"),
            short="-E",
            read=read_samples,
        ),
    ]
    cluster: Annotated[
        str | None,
        Option(
            "column or template that groups documents into clusters, or auto: a text that many documents share, if any",
            DOCUMENTS,
            "COLUMN",
            "the task's own",
            fills="cluster",
        ),
    ]
    num_fewshot: Annotated[
        int | None,
        Option(
            "few-shot examples",
            PROMPTS,
            "N",
            "the task's own number",
            fills="options.num_fewshot",
            short="-f",
        ),
    ]
    fewshot_sampler: Annotated[
        str | None,
        Option(
            "sampler of few-shot examples: default, first_n, fixed, per_document, catwalk or balanced; see "
            "docs/fewshot.md",
            PROMPTS,
            "NAME",
            "the task's own",
            fills="options.fewshot_sampler",
        ),
    ]
    apply_chat_template: Annotated[
        bool | str,
        Option(
            "use the model's chat template, or its template NAME",
            PROMPTS,
            "NAME",
            takes=OPTIONAL,
            constant=True,
        ),
    ]
    system_instruction: Annotated[
        str | None,
        Option("system message before every prompt", PROMPTS, "TEXT", "none", fills="options.chat.system"),
    ]
    fewshot_as_multiturn: Annotated[
        bool | None,
        Option(
            "few-shot examples as turns of the conversation",
            PROMPTS,
            "BOOL",
            "true with a chat template",
            takes=OPTIONAL,
            constant="true",
            read=read_boolean("--fewshot_as_multiturn"),
        ),
    ]
    gen_kwargs: Annotated[
        str | Sequence[str] | Mapping[str, Plain] | None,
        Option(
            "such as temperature=0.8",
            PROMPTS,
            "K=V",
            "the task's own",
            details="generation settings: do_sample, max_gen_toks, temperature, top_p, until and others",
            takes=WORDS,
            read=read_pairs("--gen_kwargs"),
        ),
    ]
    like: Annotated[
        str | None,
        Option(
            "prompts and scoring of another tool",
            PROMPTS,
            "TOOL",
            "none",
            details="helm, inspect, lighteval, llama-3, lm-eval (with its defects that change scores), olmes, "
            "opencompass, simple-evals, or a YAML file; for one task name TASK@TOOL; see assay ls profiles",
        ),
    ]
    style: Annotated[
        str | None,
        Option(
            "cloze, letters, hybrid, …",
            PROMPTS,
            "NAME",
            "the task's own",
            details="prompt style of multiple-choice tasks, or a YAML file; see assay ls styles",
        ),
    ]
    rotations: Annotated[bool, Option("evaluate all rotations of the choices (with --style)", PROMPTS)]
    prompts: Annotated[
        str | Path | None,
        Option(
            "PromptSource file or folder: evaluate every template; all: every prompt that the task files name",
            PROMPTS,
            "PATH",
            "the task's own",
        ),
    ]
    original_task: Annotated[
        bool,
        Option(
            "use only the templates marked as the original task (with --prompts)",
            PROMPTS,
            fills="options.original_task",
        ),
    ]
    metrics: Annotated[
        str | Sequence[str] | None,
        Option(
            "NAME, all, or +NAME to add",
            SCORING,
            "NAME",
            "the task's own",
            details="metrics to report; see assay ls metrics",
            aliases=("--metric",),
            takes=WORDS,
            read=joined_names,
        ),
    ]
    scoring: Annotated[
        str | Path | Mapping[str, Any] | None,
        Option(
            "YAML file with metric_list and filter_list in place of the tasks' own",
            SCORING,
            "FILE",
            "the task's own",
            takes=VALUE,
        ),
    ]
    bootstrap_iters: Annotated[
        int,
        Option(
            "bootstrap resamples for lm-eval's standard errors; 0 leaves them out",
            SCORING,
            "N",
            fills="bootstrap_iters",
        ),
    ]
    predict_only: Annotated[
        bool,
        Option("record answers without computing metrics", SCORING, fills="options.predict_only", short="-x"),
    ]
    seed: Annotated[
        int | str | Sequence[int | None] | None,
        Option(
            "1, 3 or 4 random seeds",
            SCORING,
            "N",
            "0,1234,1234,1234",
            details="of Python, NumPy, sampling and few-shot examples, in this order",
            takes=VALUE,
        ),
    ]
    seeds: Annotated[Seeds | None, Option("the four random seeds as a value", is_python_only=True)]
    fewshot_seeds: Annotated[
        int | Sequence[int] | None,
        Option(
            "few-shot seeds: N from the run's own upwards, or a list: 1,2,7",
            VARIANCE,
            "N",
            "the run's own seed",
            flag="--seeds",
            takes=VALUE,
            read=read_seeds,
        ),
    ]
    orders: Annotated[
        int | None, Option("orders in which the choices are listed (with --style)", VARIANCE, "N", "their own order")
    ]
    draws: Annotated[
        int | None, Option("draws of every answer (with a temperature)", VARIANCE, "N", "the task's own number")
    ]
    until_se: Annotated[
        float | None,
        Option(
            "stop at a standard error of SE",
            STOPPING,
            "SE",
            "off",
            details="documents are evaluated in random order",
            fills="subsampling.until_se",
        ),
    ]
    until_decided: Annotated[
        str | None,
        Option(
            "stop when the difference from RUN is significant",
            STOPPING,
            "RUN",
            "off",
            details="documents are evaluated in random order",
            fills="subsampling.until_decided",
        ),
    ]
    reference: Annotated[
        str | None,
        Option(
            "run on all documents, used as a control variate (with --sample; lower variance)",
            STOPPING,
            "RUN",
            "none",
            fills="subsampling.reference",
        ),
    ]
    window: Annotated[
        int | None,
        Option("tokens per window", TEXTS, "N", "the model's maximum length", fills="options.texts.window"),
    ]
    stride: Annotated[
        int | None,
        Option(
            "tokens scored per window after the first; a smaller stride gives more context and takes longer",
            TEXTS,
            "N",
            "the whole window",
            fills="options.texts.stride",
        ),
    ]
    text_column: Annotated[
        str, Option("column with the text, for text:PATH", TEXTS, "NAME", fills="options.texts.text_column")
    ]
    domain_column: Annotated[
        str | None,
        Option(
            "column with the domain, for text:PATH",
            TEXTS,
            "NAME",
            "the file's name",
            fills="options.texts.domain_column",
        ),
    ]
    finetune: Annotated[
        str | Path | Mapping[str, Any] | None,
        Option(
            "train first: full, lora, head, YAML file",
            TRAINING,
            "HOW",
            "off",
            details="full if no method is given; one model per task; the file has the options of assay finetune",
            takes=OPTIONAL,
            constant="full",
        ),
    ]
    finetune_together: Annotated[
        bool, Option("train one model for all tasks (with --finetune)", TRAINING, flag="--together")
    ]


@cache
def setting_options() -> dict[str, Option]:
    """The rows of the table by name."""
    return rows_of(Settings)


# A setting of training → what the value is, its metavar, and the default in words if it is not a fixed value.
_TRAINING_ROWS = {
    "epochs": ("passes over the training examples", "N", ""),
    "max_steps": ("maximum number of optimizer steps", "N", "as many as the epochs have"),
    "learning_rate": ("peak learning rate", "RATE", "depends on the method"),
    "warmup": ("fraction of steps with linear warmup", "FRACTION", ""),
    "schedule": ("learning-rate schedule after warmup: linear (to zero) or constant", "NAME", ""),
    "weight_decay": ("weight decay of AdamW", "X", ""),
    "train_batch_size": ("training examples per forward pass", "N", ""),
    "accumulation": ("gradient accumulation: forward passes per step", "N", ""),
    "train_seed": ("seed of shuffling, dropout, new heads and the holdout", "N", ""),
    "holdout": ("fraction held out for validation where a task has no validation split", "FRACTION", ""),
    "validation_metric": (
        f"metric that selects the checkpoint: {', '.join(DIRECTIONS)}",
        "NAME",
        "the tasks' first metric",
    ),
    "patience": ("validations without improvement before training stops early", "N", "no early stopping"),
    "check_every": ("steps between validations and checkpoints", "N", "once per epoch"),
    "train_max_length": ("maximum tokens per training example", "N", "the model's maximum length"),
    "lora_rank": ("LoRA rank", "N", ""),
    "lora_alpha": ("LoRA alpha", "X", ""),
    "lora_dropout": ("LoRA dropout", "FRACTION", ""),
    "lora_targets": ("modules to adapt with LoRA, joined with +", "NAMES", "the family's usual ones"),
    "mix": (f"mixture of several tasks: {MIXES[0]}, or {MIXES[1]} (smaller tasks repeated)", "NAME", ""),
    "train_limit": ("random sample of N training examples per task", "N", "all"),
    "check_limit": ("random sample of N validation examples per task", "N", "all"),
}


@cache
def training_options() -> dict[str, Option]:
    """The settings of training by the names of `FIT_KEYS`; their defaults are those of `FitSpec`."""
    initial = FitSpec()
    values = {**asdict(initial.settings), **asdict(initial)}
    return {
        name: Option(text, TRAINING, metavar, words or f"{values[FIT_KEYS[name][0]]}".removesuffix(".0"), takes=VALUE)
        for name, (text, metavar, words) in _TRAINING_ROWS.items()
    }
