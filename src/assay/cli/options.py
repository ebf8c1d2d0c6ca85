"""Options that several commands share, in lm-eval's names, and their way into settings."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from assay.core.arguments import parse_arguments
from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.fitting import FINETUNE, FIT_KEYS, METHODS, read_fit
from assay.core.sparing import Sparing
from assay.core.specs import Seeds
from assay.settings import Settings
from assay.tasks.fewshot import SAMPLERS

# Options of lm-eval that need nothing done here, with the reason that is told to the user.
WITHOUT_EFFECT = {
    "use_cache": "answers are always kept, see --store",
    "cache_requests": "requests are built fast enough to need no cache",
    "check_integrity": "task files are checked whenever they are read",
    "show_config": "the whole configuration is in the result file",
    "verbosity": "use --debug for tracebacks",
    "max_batch_size": "batches are sized by memory",
    "trust_remote_code": "say trust_remote_code=true in --model_args for a model that needs it",
}


class _Parser(argparse.ArgumentParser):
    """argparse with our kind of error; unknown options come before missing ones, since the one is often the other."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known = self._option_string_actions
        given = list(args or ())
        given = given[: given.index("--")] if "--" in given else given
        names = [argument.partition("=")[0] for argument in given if argument.startswith("--")]
        faults = [
            Fault(name, f"unknown option{did_you_mean(name, known)}", next=f"See: {self.prog} --help")
            for name in names
            if name not in known and " " not in name
        ]
        if faults:
            raise UserError(*faults)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> Any:
        raise UserError(Fault("", message, next=f"See: {self.prog} --help"))


def make_parser(name: str, description: str) -> argparse.ArgumentParser:
    """A parser for one command."""
    return _Parser(
        prog=f"assay {name}", description=description, allow_abbrev=False, epilog="--debug shows tracebacks."
    )


def add_model_options(parser: argparse.ArgumentParser, required: bool, several: bool = False) -> None:
    """Which model, or models."""
    group = parser.add_argument_group("model")
    name = "name in the model table; see: assay ls models"
    if several:
        told = name + "; several may be given, each also with its settings: hf:pretrained=DIR,revision=main|step1000"
        group.add_argument("--model", "--models", "-M", required=required, nargs="+", metavar="MODEL", help=told)
    else:
        group.add_argument("--model", "-M", required=required, help=name)
    group.add_argument("--family", metavar="NAME", help="of an hf model: decoder, encoder-decoder or encoder")
    group.add_argument("--model_args", "-a", nargs="+", metavar="K=V", help="e.g. pretrained=PATH,dtype=float32")
    group.add_argument("--batch_size", "-b", default="auto", help="rows per batch, or auto (default)")
    group.add_argument("--device", help="cpu, cuda, cuda:1, mps; the best there is by default")
    group.add_argument(
        "--engine",
        default="auto",
        metavar="NAME",
        help="how hf models read: tree (shared prefixes once), padded, or auto (default): tree where it proves right",
    )


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """What a run changes about tasks."""
    group = parser.add_argument_group("tasks")
    group.add_argument("--include_path", action="append", metavar="DIR", help="folder with more task files; may repeat")
    add_code_options(group)
    group.add_argument(
        "--confirm_run_unsafe_code", action="store_true", help="let tasks run that execute what the model wrote"
    )
    group.add_argument(
        "--like",
        metavar="TOOL",
        help="ask and score as a tool does: helm, inspect, lighteval, llama-3, lm-eval (with its defects that change "
        "scores), olmes, opencompass, simple-evals, or a YAML file; see assay ls profiles",
    )
    group.add_argument(
        "--style",
        metavar="NAME",
        help="prompt style of multiple-choice tasks: cloze, letters, hybrid, …, or a YAML file",
    )
    group.add_argument("--rotations", action="store_true", help="ask in all rotations of the choices (with --style)")
    group.add_argument(
        "--prompts",
        metavar="PATH",
        help="ask in every template of a PromptSource file or folder; all: in those that the task files name",
    )
    group.add_argument("--original_task", action="store_true", help="of several prompts, only those marked so")
    group.add_argument("--metadata", nargs="+", metavar="K=V", help="settings for tasks that make their own data")
    group.add_argument("--num_fewshot", "-f", type=int, metavar="N", help="examples per prompt")
    group.add_argument(
        "--fewshot_sampler", metavar="NAME", help=f"which examples: {', '.join(SAMPLERS)}; see docs/fewshot.md"
    )
    group.add_argument("--limit", "-L", type=float, metavar="N", help="first N documents per task, or a share below 1")
    group.add_argument("--samples", "-E", metavar="JSON", help='documents by place: {"task": [0, 5]}, or a JSON file')
    _add_sample_options(group)
    group.add_argument("--apply_chat_template", nargs="?", const=True, default=False, metavar="NAME")
    group.add_argument("--system_instruction", metavar="TEXT")
    group.add_argument("--fewshot_as_multiturn", nargs="?", const="true", metavar="BOOL")
    group.add_argument("--gen_kwargs", nargs="+", metavar="K=V", help="e.g. temperature=0.8,max_gen_toks=64")
    add_scoring_options(group)
    _add_text_options(parser)
    group.add_argument("--seed", default=None, help="1, 3 or 4 numbers: python,numpy,sampling,fewshot")


def _add_axes_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("axes of variance: tasks are asked in all combinations, also with --prompts")
    group.add_argument("--seeds", metavar="N", help="N few-shot seeds from the run's own upwards, or a list: 1,2,7")
    group.add_argument("--orders", type=int, metavar="N", help="list the choices in N orders (with --style)")
    group.add_argument("--draws", type=int, metavar="N", help="draw every answer N times (with a temperature)")


def _add_sample_options(group: argparse._ActionsContainer) -> None:
    group.add_argument("--sample", type=float, metavar="N", help="N random documents per task, or a share below 1")
    group.add_argument("--sample_seed", type=int, metavar="N", help=f"seed of that choice ({Sparing().seed})")
    group.add_argument(
        "--cluster",
        metavar="COLUMN",
        help="column, or template, that says which documents belong together; auto: a text that many share, if any",
    )


def add_stopping_options(parser: argparse.ArgumentParser) -> None:
    """When a run has asked enough."""
    group = parser.add_argument_group("stopping early (docs/sampling.md)")
    group.add_argument(
        "--until_se",
        type=float,
        metavar="SE",
        help="ask in random order until the score is known as well as this standard error says",
    )
    group.add_argument(
        "--until_decided", metavar="RUN", help="ask in random order until it is shown which is better, this run or RUN"
    )
    group.add_argument(
        "--reference", metavar="RUN", help="with --sample: a recorded run on all documents, to tell more from fewer"
    )


def stopping_settings(options: argparse.Namespace) -> Settings:
    """The same as settings of the API."""
    return Settings(until_se=options.until_se, until_decided=options.until_decided, reference=options.reference)


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("whole texts, for perplexity")
    group.add_argument("--window", type=int, metavar="N", help="tokens of a window; as many as the model takes")
    group.add_argument(
        "--stride",
        type=int,
        metavar="N",
        help="tokens that each window after the first scores; fewer give more context and take longer",
    )
    group.add_argument("--text_column", default="text", metavar="NAME", help="the text in files of text:PATH (text)")
    group.add_argument("--domain_column", metavar="NAME", help="where a document of text:PATH belongs; else its file")


def add_scoring_options(parser: argparse._ActionsContainer) -> None:
    """What is computed from the answers."""
    parser.add_argument(
        "--metrics", nargs="+", metavar="NAME", help="report these metrics, or all; +NAME adds to the tasks' own"
    )
    parser.add_argument("--scoring", metavar="FILE", help="YAML file with metric_list and filter_list to use instead")


def add_code_options(parser: argparse._ActionsContainer) -> None:
    """Whose Python code may run."""
    parser.add_argument(
        "--allow_code", action="store_true", help="let Python code of task files below --include_path run"
    )
    parser.add_argument(
        "--trust_package",
        action="append",
        metavar="NAME",
        help="let only the code of task files in this installed package run; may repeat",
    )


def allowed_code(options: argparse.Namespace) -> bool | list[str]:
    """What these options allow: all of the user's folders, or some packages, or nothing."""
    return options.allow_code or options.trust_package or False


_FIT_HELP = {
    "epochs": "passes over the training documents (3)",
    "max_steps": "most steps, whatever the epochs",
    "learning_rate": "highest learning rate; each method has its own",
    "warmup": "share of the steps in which the rate rises (0.1)",
    "schedule": "of the rate afterwards: linear (to zero; default) or constant",
    "weight_decay": "of AdamW (0)",
    "train_batch_size": "documents per forward pass (16)",
    "accumulation": "forward passes per step (1)",
    "train_seed": "of shuffling, dropout, new heads and what is kept back (42)",
    "holdout": "share kept back for validation where a task has no split for it (0.1)",
    "validation_metric": "metric that decides: accuracy, acc_norm, mcc, f1, squad_f1, loss (default: the tasks' first)",
    "patience": "stop after so many checks without improvement",
    "check_every": "steps between checks and checkpoints; once an epoch by default",
    "train_max_length": "most tokens of a training document",
    "lora_rank": "rank of the additions (8)",
    "lora_alpha": "weight of the additions (16)",
    "lora_dropout": "dropout before the additions (0)",
    "lora_targets": "layers that get additions, with + between them",
    "mix": "of several tasks: concatenated (default), or balanced: smaller ones repeated",
    "train_limit": "most training documents per task, drawn by the seed",
    "check_limit": "most validation documents per task, drawn by the seed",
}


def add_fit_options(parser: argparse.ArgumentParser, is_lap: bool) -> None:
    """How a model is trained.

    Args:
        parser: where to add the options.
        is_lap: whether training is a part of another command, which asks for it.
    """
    group = parser.add_argument_group("fine-tuning")
    if is_lap:
        told = f"train the model first: full (default), {', '.join(METHODS[1:])}; every task has a model of its own"
        group.add_argument(f"--{FINETUNE}", nargs="?", const=METHODS[0], metavar="METHOD", help=told)
        group.add_argument("--together", action="store_true", help="with --finetune: one model for all tasks")
    else:
        told = "full (default), lora (low-rank additions) or head (the head alone)"
        group.add_argument("--method", dest=FINETUNE, default=METHODS[0], metavar="METHOD", help=told)
    for name, text in _FIT_HELP.items():
        group.add_argument(f"--{name}", metavar="X", help=text)


def fit_settings(options: argparse.Namespace) -> dict[str, Any] | None:
    """Settings of training; None where there are none. Without a method they are for models that name one."""
    given = {name: getattr(options, name) for name in FIT_KEYS if getattr(options, name) is not None}
    read_fit(given, "")  # wrong ones are told before anything is read
    return given or None


def add_run_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """What `run` and its dry run share: tasks, model, and the options of lm-eval that scripts may carry along."""
    parser.add_argument(
        "--tasks", "-t", nargs="+", required=True, help="names, groups, tags, wildcards, files, text:PATH"
    )
    add_model_options(parser, required=True, several=several)
    add_task_options(parser)
    _add_axes_options(parser)
    add_ignored_options(parser)


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Where answers are kept."""
    parser.add_argument("--store", metavar="FILE", help="file with all answers and runs; default: your data folder")


def add_ignored_options(parser: argparse.ArgumentParser) -> None:
    """Options of lm-eval that scripts may carry along."""
    for name in WITHOUT_EFFECT:
        parser.add_argument(f"--{name}", nargs="?", const=True, default=None, help=argparse.SUPPRESS)


def ignored(options: argparse.Namespace) -> list[str]:
    """A line for every option that was given and has no effect."""
    given = [name for name in WITHOUT_EFFECT if getattr(options, name) is not None]
    return [f"--{name} has no effect: {WITHOUT_EFFECT[name]}" for name in given]


def run_settings(options: argparse.Namespace) -> Settings:
    """The shared options as settings of the API."""
    return Settings(
        model_args={**parse_arguments(options.model_args, "--model_args"), **_family(options.family)},
        num_fewshot=options.num_fewshot,
        fewshot_sampler=options.fewshot_sampler,
        limit=options.limit,
        samples=_samples(options.samples),
        sample=options.sample,
        sample_seed=options.sample_seed,
        cluster=options.cluster,
        include_path=options.include_path,
        batch_size=options.batch_size,
        device=options.device,
        engine=options.engine,
        apply_chat_template=options.apply_chat_template,
        system_instruction=options.system_instruction,
        fewshot_as_multiturn=_boolean(options.fewshot_as_multiturn),
        gen_kwargs=parse_arguments(options.gen_kwargs, "--gen_kwargs"),
        seeds=parse_seeds(options.seed),
        allow_code=allowed_code(options),
        confirm_run_unsafe_code=options.confirm_run_unsafe_code,
        metadata=parse_arguments(options.metadata, "--metadata"),
        like=options.like,
        style=options.style,
        rotations=options.rotations,
        metrics=",".join(options.metrics) if options.metrics else None,
        scoring=options.scoring,
        prompts=options.prompts,
        original_task=options.original_task,
        fewshot_seeds=_listed_seeds(getattr(options, "seeds", None)),
        orders=getattr(options, "orders", None),
        draws=getattr(options, "draws", None),
        window=options.window,
        stride=options.stride,
        text_column=options.text_column,
        domain_column=options.domain_column,
    )


def _family(name: str | None) -> dict[str, str]:
    return {} if name is None else {"family": name}


def split_names(values: list[str]) -> list[str]:
    """Task names given with blanks or commas between them."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def _boolean(text: str | None) -> bool | None:
    if text is None:
        return None
    if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise UserError(Fault("--fewshot_as_multiturn", f'is "{text}"', "true or false"))
    return text.lower() in ("true", "1", "yes")


def parse_seeds(text: str | None) -> Seeds:
    """lm-eval's rule: one value for all four, three (few-shot stays 1234), or four; None leaves one open."""
    if text is None:
        return Seeds()
    parts = [part.strip() for part in text.split(",")]
    try:
        values = [None if part.lower() == "none" else int(part) for part in parts]
    except ValueError as error:
        raise UserError(Fault("--seed", f'is "{text}"', "1, 3 or 4 whole numbers with commas, or None")) from error
    if len(values) == 1:
        values *= 4
    if len(values) == 3:
        values.append(1234)
    if len(values) != 4:
        raise UserError(Fault("--seed", f"has {len(values)} values", "1, 3 or 4"))
    return Seeds(*values)


def _listed_seeds(text: str | None) -> int | list[int] | None:
    """`5`, how many; `1,2,7`, which."""
    if text is None:
        return None
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise UserError(Fault("--seeds", f'is "{text}"', "a number of seeds, or a list of them: 1,2,7")) from error
    return found[0] if len(found) == 1 and "," not in text else found


def _samples(text: str | None) -> dict[str, list[int]] | None:
    if text is None:
        return None
    try:
        content = text if text.lstrip().startswith("{") else Path(text).expanduser().read_text(encoding="utf-8")
        data = json.loads(content)
    except OSError as error:
        raise UserError(
            Fault("--samples", f'"{text}" cannot be read: {error.strerror}', "JSON or a JSON file")
        ) from error
    except ValueError as error:  # not JSON, or not UTF-8
        raise UserError(Fault("--samples", f"is not JSON: {error}", '{"task": [0, 5]}')) from error
    if not isinstance(data, dict) or not all(_is_places(places) for places in data.values()):
        raise UserError(Fault("--samples", "has another shape", '{"task": [0, 5]}'))
    return data


def _is_places(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(place) is int for place in value)
