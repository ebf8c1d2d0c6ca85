"""Options that several commands share, in lm-eval's names, and their way into settings."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from assay.cli.hints import option_hint
from assay.cli.main import Finished
from assay.core.arguments import parse_arguments
from assay.core.errors import Fault, UserError
from assay.core.specs import SubsamplingOptions
from assay.core.training import FINETUNE, FIT_KEYS, METHODS, parse_fit_spec
from assay.models.registry import resolve_model
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
# Short forms of these, as in lm-eval.
_SHORT = {"use_cache": "-c", "verbosity": "-v"}
_UPLOAD = "Write the files with --output_path DIR --log_samples"
# Options of lm-eval that send results elsewhere: what to do instead.
ELSEWHERE = {
    "wandb_args": f"{_UPLOAD}, then: wandb artifact put --type results --name PROJECT/NAME DIR",
    "wandb_config_args": f"{_UPLOAD}, then: wandb artifact put --type results --name PROJECT/NAME DIR",
    "trackio_args": f'{_UPLOAD}; in Python, trackio.log(json.load(open(FILE))["results"]) with the results_….json',
    "hf_hub_log_args": f"{_UPLOAD}, then: hf upload OWNER/NAME DIR . --repo-type dataset",
}


# argparse's words for a value of another type, and ours.
_ILL_TYPED = re.compile(r"argument (--\w+)\S*: invalid (int|float) value: '(.*)'")
_NUMBERS = {"int": "a whole number", "float": "a number"}


class _Parser(argparse.ArgumentParser):
    """argparse with our kind of error; unknown options come before missing ones, since the one is often the other."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known = self._option_string_actions
        given = list(args or ())
        given = given[: given.index("--")] if "--" in given else given
        names = [argument.partition("=")[0] for argument in given if argument.startswith("--")]
        faults = [
            Fault(name, f"unknown option{option_hint(name, known)}", next=f"See: {self.prog} --help")
            for name in names
            if name not in known and " " not in name
        ]
        if faults:
            raise UserError(*faults)
        return super().parse_known_args(args, namespace)

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        raise Finished(status)

    def error(self, message: str) -> Any:
        advice = f"See: {self.prog} --help"
        found = _ILL_TYPED.fullmatch(message)
        if found is not None:
            flag, kind, value = found.groups()
            raise UserError(Fault(flag, f'is "{value}"', _NUMBERS[kind], advice))
        raise UserError(Fault("", message, next=advice))


def make_parser(name: str, description: str) -> argparse.ArgumentParser:
    """A parser for one command."""
    return _Parser(
        prog=f"assay {name}", description=description, allow_abbrev=False, epilog="--debug shows tracebacks."
    )


def add_model_options(parser: argparse.ArgumentParser, required: bool, several: bool = False) -> None:
    """Which model, or models."""
    group = parser.add_argument_group("model")
    name = "name in the model table (assay ls models), a folder (./DIR), a file.gguf, or a Hub id (OWNER/NAME)"
    if several:
        help_text = (
            name + "; several may be given, each also with its settings: hf:pretrained=DIR,revision=main|step1000"
        )
        group.add_argument("--model", "--models", "-M", required=required, nargs="+", metavar="MODEL", help=help_text)
    else:
        group.add_argument("--model", "-M", required=required, help=name)
    group.add_argument(
        "--family",
        metavar="NAME",
        help="architecture of an hf model: decoder, encoder-decoder or encoder (default: read from its config)",
    )
    group.add_argument(
        "--model_args", "-a", nargs="+", action="extend", metavar="K=V", help="e.g. pretrained=PATH,dtype=float32"
    )
    group.add_argument("--batch_size", "-b", default="auto", help="sequences per batch, or auto (default)")
    group.add_argument("--device", help="cpu, cuda, cuda:1 or mps (default: the fastest one available)")
    group.add_argument(
        "--engine",
        default="auto",
        metavar="NAME",
        help="HF backend: tree (prefix sharing), padded, or auto (default: tree where its results check out)",
    )


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """What a run changes about tasks."""
    group = parser.add_argument_group("tasks")
    group.add_argument("--include_path", action="append", metavar="DIR", help="folder with more task files; may repeat")
    add_code_options(group)
    group.add_argument(
        "--confirm_run_unsafe_code", action="store_true", help="let tasks run that execute what the model wrote"
    )
    _add_prompt_options(group)
    group.add_argument(
        "--metadata", nargs="+", action="extend", metavar="K=V", help="settings for tasks that make their own data"
    )
    group.add_argument(
        "--num_fewshot",
        "-f",
        type=int,
        metavar="N",
        help="few-shot examples per prompt (default: the task's own number)",
    )
    group.add_argument(
        "--fewshot_sampler", metavar="NAME", help=f"which examples: {', '.join(SAMPLERS)}; see docs/fewshot.md"
    )
    group.add_argument(
        "--limit",
        "-L",
        type=float,
        metavar="N",
        help="evaluate the first N documents of each task, or a fraction below 1",
    )
    group.add_argument(
        "--samples", "-E", metavar="JSON", help='evaluate these documents, by index: {"task": [0, 5]}, or a JSON file'
    )
    _add_sample_options(group)
    _add_chat_options(group)
    group.add_argument(
        "--gen_kwargs", nargs="+", action="extend", metavar="K=V", help="e.g. temperature=0.8,max_gen_toks=64"
    )
    add_scoring_options(group)
    _add_text_options(parser)
    group.add_argument(
        "--seed", default=None, help="1, 3 or 4 numbers: python,numpy,sampling,fewshot (default 0,1234,1234,1234)"
    )


def _add_prompt_options(group: argparse._ActionsContainer) -> None:
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
    group.add_argument(
        "--original_task", action="store_true", help="with --prompts: only templates marked as the original task"
    )


def _add_chat_options(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--apply_chat_template",
        nargs="?",
        const=True,
        default=False,
        metavar="NAME",
        help="format prompts with the model's chat template, or with its template NAME",
    )
    group.add_argument("--system_instruction", metavar="TEXT", help="system message, before every prompt")
    group.add_argument(
        "--fewshot_as_multiturn",
        nargs="?",
        const="true",
        metavar="BOOL",
        help="few-shot examples as turns of the conversation (default: true with a chat template)",
    )


def _add_axes_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("axes of variance: tasks are asked in all combinations, also with --prompts")
    group.add_argument("--seeds", metavar="N", help="N few-shot seeds from the run's own upwards, or a list: 1,2,7")
    group.add_argument("--orders", type=int, metavar="N", help="list the choices in N orders (with --style)")
    group.add_argument("--draws", type=int, metavar="N", help="draw every answer N times (with a temperature)")


def _add_sample_options(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--sample", type=float, metavar="N", help="evaluate N random documents of each task, or a fraction below 1"
    )
    group.add_argument(
        "--sample_seed", type=int, metavar="N", help=f"seed of the random sample (default {SubsamplingOptions().seed})"
    )
    group.add_argument(
        "--cluster",
        metavar="COLUMN",
        help="column or template that groups documents into clusters; auto: a text that many documents share, if any",
    )


def add_stopping_options(parser: argparse.ArgumentParser) -> None:
    """When a run has asked enough."""
    group = parser.add_argument_group("stopping early (docs/sampling.md)")
    group.add_argument(
        "--until_se",
        type=float,
        metavar="SE",
        help="evaluate random documents until the standard error is at most SE",
    )
    group.add_argument(
        "--until_decided", metavar="RUN", help="evaluate random documents until the difference from RUN is significant"
    )
    group.add_argument(
        "--reference",
        metavar="RUN",
        help="with --sample: run on all documents, used as a control variate (lower variance)",
    )


def stopping_settings(options: argparse.Namespace) -> Settings:
    """The same as settings of the API."""
    return Settings(until_se=options.until_se, until_decided=options.until_decided, reference=options.reference)


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("whole texts, for perplexity")
    group.add_argument(
        "--window", type=int, metavar="N", help="tokens per window (default: the model's maximum length)"
    )
    group.add_argument(
        "--stride",
        type=int,
        metavar="N",
        help="tokens scored per window after the first; a smaller stride gives more context and takes longer",
    )
    group.add_argument(
        "--text_column", default="text", metavar="NAME", help="column with the text, for text:PATH (default text)"
    )
    group.add_argument(
        "--domain_column", metavar="NAME", help="column with the domain, for text:PATH (default: the file's name)"
    )


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
    "epochs": "passes over the training documents (default 3)",
    "max_steps": "maximum number of steps, if the epochs have more",
    "learning_rate": "peak learning rate (default: depends on the method)",
    "warmup": "fraction of steps with linear warmup (default 0.1)",
    "schedule": "learning-rate schedule after warmup: linear (to zero; default) or constant",
    "weight_decay": "weight decay of AdamW (default 0)",
    "train_batch_size": "documents per forward pass (default 16)",
    "accumulation": "gradient accumulation: forward passes per step (default 1)",
    "train_seed": "seed of shuffling, dropout, new heads and the holdout (default 42)",
    "holdout": "fraction held out for validation where a task has no validation split (default 0.1)",
    "validation_metric": "metric that selects the checkpoint: accuracy, acc_norm, mcc, f1, squad_f1 or loss "
    "(default: the tasks' first)",
    "patience": "early stopping after X validations without improvement",
    "check_every": "steps between validations and checkpoints (default: once per epoch)",
    "train_max_length": "maximum tokens per training document",
    "lora_rank": "LoRA rank (default 8)",
    "lora_alpha": "LoRA alpha (default 16)",
    "lora_dropout": "LoRA dropout (default 0)",
    "lora_targets": "modules to adapt, joined with +",
    "mix": "mixture of several tasks: concatenated (default) or balanced (smaller tasks repeated)",
    "train_limit": "maximum training documents per task, a random sample by --train_seed",
    "check_limit": "maximum validation documents per task, a random sample by --train_seed",
}


def add_fit_options(parser: argparse.ArgumentParser, is_lap: bool) -> None:
    """How a model is trained.

    Args:
        parser: where to add the options.
        is_lap: whether training is a part of another command, which asks for it.
    """
    group = parser.add_argument_group("fine-tuning")
    if is_lap:
        help_text = f"train the model first: full (default), {', '.join(METHODS[1:])}; one model per task"
        group.add_argument(f"--{FINETUNE}", nargs="?", const=METHODS[0], metavar="METHOD", help=help_text)
        group.add_argument("--together", action="store_true", help="with --finetune: one model for all tasks")
    else:
        help_text = "full (default), lora, or head (trains the head only)"
        group.add_argument("--method", dest=FINETUNE, default=METHODS[0], metavar="METHOD", help=help_text)
    for name, text in _FIT_HELP.items():
        group.add_argument(f"--{name}", metavar="X", help=text)


def fit_settings(options: argparse.Namespace) -> dict[str, Any] | None:
    """Settings of training; None where there are none. Without a method they are for models that name one."""
    given = {name: getattr(options, name) for name in FIT_KEYS if getattr(options, name) is not None}
    parse_fit_spec(given, "")  # wrong ones are told before anything is read
    return given or None


def add_run_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """What `run` and its dry run share: tasks, model, and the options of lm-eval that scripts may carry along."""
    parser.add_argument(
        "--tasks",
        "-t",
        nargs="+",
        action="extend",
        required=True,
        help="names, groups, tags, wildcards, files, text:PATH",
    )
    add_model_options(parser, required=True, several=several)
    add_task_options(parser)
    _add_axes_options(parser)
    add_ignored_options(parser)


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Where answers are kept."""
    parser.add_argument(
        "--store", metavar="FILE", help="SQLite file with all answers and runs (default: store.db in your data folder)"
    )


def add_ignored_options(parser: argparse.ArgumentParser) -> None:
    """Options of lm-eval that scripts may carry along."""
    for name in WITHOUT_EFFECT:
        flags = [f"--{name}", *([_SHORT[name]] if name in _SHORT else [])]
        parser.add_argument(*flags, nargs="?", const=True, default=None, help=argparse.SUPPRESS)
    for name in ELSEWHERE:
        parser.add_argument(f"--{name}", nargs="*", default=None, help=argparse.SUPPRESS)


def ignored(options: argparse.Namespace) -> list[str]:
    """A line for every option that was given and has no effect; one that would be missed is an error."""
    faults = [
        Fault(f"--{name}", "results are not sent anywhere", next=advice)
        for name, advice in ELSEWHERE.items()
        if getattr(options, name) is not None
    ]
    if faults:
        raise UserError(*faults)
    given = [name for name in WITHOUT_EFFECT if getattr(options, name) is not None]
    return [f"--{name} has no effect: {WITHOUT_EFFECT[name]}" for name in given]


def interpreted_model_lines(models: str | list[str]) -> list[str]:
    """A line for every model that is a path or a Hub id and not a name."""
    names = [text.partition(":")[0] for text in ([models] if isinstance(models, str) else models)]
    meanings = [(name, resolve_model(name, {})) for name in names]
    return [
        f"--model {name}: understood as --model {opener} --model_args "
        + ",".join(f"{key}={value}" for key, value in arguments.items())
        for name, (opener, arguments) in meanings
        if opener != name
    ]


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
        seed=options.seed,
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


def with_default_model(arguments: list[str]) -> list[str]:
    """A command line that has model arguments and no model means `hf`, as in lm-eval."""
    names = {word.partition("=")[0] if word.startswith("--") else word[:2] for word in arguments}
    if names & {"--model", "--models", "-M"} or not names & {"--model_args", "-a"}:
        return arguments
    return ["--model", "hf", *arguments]
