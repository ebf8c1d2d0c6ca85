"""Why a dataset could not be loaded: moved, gated, missing, script-only, offline, no network, damaged, disk full.

Takes the error of the `datasets` or `huggingface_hub` package; gives a fault that says what to do. Errors are
recognised by the names of their classes, because their modules differ between versions.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

from assay.core.errors import DataError, Fault, did_you_mean, plain_reason
from assay.data.hub_connection import hub_endpoint, why_unreachable

# Variables that switch the network of the Hub's client off.
OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
# Dataset with a loading script, which `datasets` 4 and later do not run → the dataset to name instead. Empty: none is
# known, and the Hub's own conversion is to be used.
SCRIPT_REPLACEMENTS = {
    "allenai/math_qa": "regisss/math_qa",
    "allenai/qasper": "",
    "allenai/quac": "",
    "allenai/scitldr": "",
    "allenai/social_i_qa": "lighteval/siqa",
    "bigbio/pubmed_qa": "qiaojin/PubMedQA (configuration pqa_labeled)",
    "coastalcph/multi_eurlex": "mteb/eurlex-multilingual",
    "CogComp/mc_taco": "",
    "corypaik/prost": "json with data_files: hf://datasets/corypaik/prost/data/default.jsonl",
    "csebuetnlp/xlsum": "",
    "dennlinger/eur-lex-sum": "lighteval/legal_summarization (configuration EurLexSum)",
    "EleutherAI/arithmetic": "json with data_files: hf://datasets/EleutherAI/arithmetic/data/NAME.jsonl",
    "EleutherAI/hendrycks_ethics": "lighteval/hendrycks_ethics",
    "EleutherAI/logiqa": "lucasmccabe/logiqa (revision refs/convert/parquet)",
    "EleutherAI/mutual": "lighteval/mutual_harness",
    "EleutherAI/pile": "monology/pile-uncopyrighted (17 of the 22 parts)",
    "EleutherAI/unscramble": "lighteval/GPT3_unscramble",
    "ErnestSDavis/winograd_wsc": "lighteval/winograd_wsc (configuration wsc273)",
    "lucasmccabe/logiqa": "",
    "nyu-mll/crows_pairs": "",
    "ought/raft": "",
    "ptb-text-only/ptb_text_only": "",
    "winograd_wsc": "lighteval/winograd_wsc (configuration wsc273)",
    "ybisk/piqa": "baber/piqa",
}
# Earlier name of a dataset → its present one.
RENAMED = {
    "ai2_arc": "allenai/ai2_arc",
    "CohereForAI/Global-MMLU": "CohereLabs/Global-MMLU",
    "CohereForAI/Global-MMLU-Lite": "CohereLabs/Global-MMLU-Lite",
    "commonsense_qa": "tau/commonsense_qa",
    "glue": "nyu-mll/glue",
    "gsm8k": "openai/gsm8k",
    "hellaswag": "Rowan/hellaswag",
    "hendrycks/competition_math": "EleutherAI/hendrycks_math",
    "lex_glue": "coastalcph/lex_glue",
    "lukaemon/bbh": "SaylorTwift/bbh",
    "medmcqa": "openlifescienceai/medmcqa",
    "mrqa": "mrqa-workshop/mrqa",
    "openbookqa": "allenai/openbookqa",
    "piqa": "baber/piqa",
    "qa4mre": "community-datasets/qa4mre",
    "social_i_qa": "lighteval/siqa",
    "squadshifts": "ludwigschmidt/squadshifts",
    "super_glue": "aps/super_glue",
    "trivia_qa": "mandarjoshi/trivia_qa",
    "truthful_qa": "truthfulqa/truthful_qa",
    "web_questions": "stanfordnlp/web_questions",
    "winogrande": "allenai/winogrande",
}
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
# Errors of a connection that ended before the file did.
_BROKEN = ("RemoteProtocolError", "ReadError", "IncompleteRead", "ChunkedEncodingError", "ProtocolError")
_CONFIGS = re.compile(r"BuilderConfig '?(?P<name>.+?)'? not found. Available: \[(?P<known>.*?)\]", re.DOTALL)
_CONVERTED = (
    "or name the Hub's own conversion, if it has one: dataset_kwargs: {revision: refs/convert/parquet}, with "
    "data_dir: CONFIGURATION in place of dataset_name"
)


class UnreachableDataset(DataError):
    """A dataset that is neither in the folder of copies nor in the cache, while the network is off or down."""


def offline_variable() -> str:
    """The variable that tells the Hub's client not to use the network; empty if none does."""
    return next((name for name in OFFLINE if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")), "")


def why_offline() -> str:
    """Why the Hub's client is not to use the network: a variable forbids it, or the Hub cannot be reached."""
    variable = offline_variable()
    if variable:
        return f"{variable} forbids the network"
    reason = why_unreachable()
    return f"there is no network ({reason})" if reason else ""


def load_error(
    dataset: str, config: str | None, where: str, task: str, error: BaseException, offline: str = ""
) -> DataError:
    """The error to raise for a dataset that cannot be loaded.

    Args:
        dataset: hub id, or name of a builder.
        config: its configuration.
        where: the task file, for the message.
        task: the task, for the command that fetches its data.
        error: the error of another library.
        offline: why the network was not used, as `why_offline` says it; empty if it was.
    """
    names = {type(cause).__name__ for cause in _causes(error)}
    title = f'dataset "{dataset}"' + (f" ({config})" if config else "")
    if names & {"OfflineModeIsEnabled"} or (offline and _is_of_network(error)):
        return UnreachableDataset(_offline_fault(title, where, task, offline or "its setting forbids the network"))
    told = _known_fault(dataset, title, where, error, names)
    if told is not None:
        return DataError(told)
    refused = _http_fault(title, where, error)
    if refused is not None:
        return DataError(refused)
    if _is_of_network(error):
        reason = plain_reason(next(cause for cause in _causes(error) if _is_of_network(cause)))
        expected = f"a connection to {hub_endpoint()}"
        advice = f"Check the network, proxy and HF_ENDPOINT. Or {get_command(task)}"
        found = f"{title} could not be fetched: no network ({type(error).__name__}: {reason})"
        return UnreachableDataset(Fault(where, found, expected, advice))
    reason = plain_reason(error, lines=20)
    return DataError(
        Fault(
            where,
            f"{title} could not be loaded: {type(error).__name__}: {reason}",
            "a dataset of the Hub, a local folder or data_files",
            "Check the id and the network (HF_ENDPOINT, HF_HOME), or name local files in dataset_kwargs.data_files",
        )
    )


def no_download_fault() -> Fault | None:
    """The fault of a download without network; None if there is one."""
    offline, variable = why_offline(), offline_variable()
    if not offline:
        return None
    advice = f"Unset {variable}" if variable else "Check the network, proxy and HF_ENDPOINT"
    again = f"{advice}, and run the same command again: datasets that are complete are kept"
    return Fault("", f"cannot be fetched: {offline}", f"a connection to {hub_endpoint()}", again)


def get_command(task: str) -> str:
    """Advice to fetch data on another machine."""
    named = task or "TASK"
    return f"on a machine with network, run: assay data get --tasks {named} --to DIR; copy DIR here and add --data DIR"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_of_network(error: BaseException) -> bool:
    kinds = {"ConnectError", "ConnectTimeout", "ReadTimeout", "TimeoutException", "NewConnectionError", "MaxRetryError"}
    return any(isinstance(cause, ConnectionError) or type(cause).__name__ in kinds for cause in _causes(error))


def _offline_fault(title: str, where: str, task: str, offline: str) -> Fault:
    """The fault of a dataset that is not here while the network is off or down.

    Args:
        title: the dataset.
        where: the task file.
        task: the task, for the command that fetches its data.
        offline: why there is no network, as `why_offline` says it.
    """
    variable = offline_variable()
    allow = f"Unset {variable}" if variable else "Check the network, proxy and HF_ENDPOINT"
    found = f"{title} is not on this machine, and {offline}"
    return Fault(where, found, "a copy (--data DIR, ASSAY_DATA) or the Hub's cache", f"{allow}, or {get_command(task)}")


def _known_fault(dataset: str, title: str, where: str, error: BaseException, names: set[str]) -> Fault | None:
    """The fault of an error whose cause and remedy are known."""
    text = " ".join(str(cause) for cause in _causes(error))
    if "scripts are no longer supported" in text:
        return script_fault(dataset, where)
    if any(isinstance(cause, OSError) and cause.errno in _SPACE for cause in _causes(error)) or "disk space" in text:
        return Fault(where, f"{title} does not fit: no space left on the disk", "", "Make room, or move HF_HOME")
    locked = next((e for e in _causes(error) if isinstance(e, OSError) and e.errno in _NOT_WRITABLE), None)
    if locked is not None and locked.filename:
        found = f"{title} could not be loaded: {locked.filename}: {locked.strerror}"
        expected = "files that you may read, and a cache of the Hub that you may write to"
        return Fault(where, found, expected, "Correct the permissions, or set HF_HOME to a folder of your own")
    configs = _CONFIGS.search(text) or re.search(
        r"Config name is missing.*?\[(?P<known>.*?)\]", text.replace("\n", " ")
    )
    if configs is not None:
        return _config_fault(dataset, where, configs.groupdict())
    if "GatedRepoError" in names or "gated dataset" in text:
        return _gated_fault(dataset, where)
    if "RevisionNotFoundError" in names:
        found = f"{title} has no such revision: {plain_reason(error)}"
        return Fault(where, found, "a branch, tag or commit", "Correct dataset_kwargs.revision")
    if names & {"RepositoryNotFoundError", "DatasetNotFoundError", "HFValidationError", "HfUriError"}:
        return _missing_fault(dataset, where)
    if "StopIteration" in names:  # what `datasets` makes of a file without rows
        found = f"{title} has a data file without rows on the Hub"
        return Fault(where, found, "at least one row in every split", f"Look at {_page(dataset)}, or name a revision")
    if names & {"DataFilesNotFoundError", "EmptyDatasetError"}:
        found = f"{title} is on the Hub but has no data files that can be read"
        return Fault(where, found, "parquet, JSON, CSV or text files", f"Look at {_page(dataset)}; {_CONVERTED}")
    return None


def _http_fault(title: str, where: str, error: BaseException) -> Fault | None:
    """The fault of a Hub that answered and gave no data: a refused token, too many requests, a failing server."""
    responses = (getattr(cause, "response", None) for cause in _causes(error))
    status = next((int(code) for item in responses if (code := getattr(item, "status_code", None))), 0)
    answer = f"{title} could not be fetched: {hub_endpoint()} answered with HTTP status {status}"
    if status in (401, 403):
        has_token = any(os.environ.get(name) for name in _TOKENS)
        found = f"{answer}: it does not accept the token" if has_token else f"{answer}: no access without a token"
        advice = "Set HF_TOKEN to a valid token with read access, or unset it for public datasets"
        return Fault(where, found, "a dataset that this account may read", advice)
    if status == 429:
        advice = "Wait a few minutes, or set HF_TOKEN for a higher limit, and run the same command again"
        return Fault(where, f"{answer}: too many requests", "", advice)
    if status >= 500:
        advice = "The fault is the server's: run the same command again later, or name a mirror in HF_ENDPOINT"
        return Fault(where, answer, "the data", advice)
    if any(type(cause).__name__ in _BROKEN for cause in _causes(error)):
        reason = plain_reason(next(cause for cause in _causes(error) if type(cause).__name__ in _BROKEN))
        advice = "Run the same command again: datasets that are complete are kept"
        found = f"{title} could not be fetched: the connection broke off ({reason})"
        return Fault(where, found, "the whole file", advice)
    return None


def _page(dataset: str) -> str:
    return f"{hub_endpoint()}/datasets/{dataset}"


def script_fault(dataset: str, where: str) -> Fault:
    """The fault of a dataset that only a loading script can read."""
    found = f'dataset "{dataset}" has only a loading script, which the datasets package no longer runs'
    other = SCRIPT_REPLACEMENTS.get(dataset)
    if other:
        return Fault(where, found, f"dataset_path: {other}", f"Name that in the task file, {_CONVERTED}")
    return Fault(where, found, "a dataset in parquet, JSON or CSV", f"Look for a copy on the Hub, {_CONVERTED}")


def _config_fault(dataset: str, where: str, found: dict[str, str]) -> Fault:
    known = [name.strip(" '\"") for name in found["known"].split(",")]
    name = found.get("name")
    text = "needs a configuration" if name is None else f'has no configuration "{name}"{did_you_mean(name, known)}'
    shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    return Fault(where, f'dataset "{dataset}" {text}', f"one of: {shown}", "Correct dataset_name in the task file")


def _gated_fault(dataset: str, where: str) -> Fault:
    has_token = any(os.environ.get(name) for name in _TOKENS)
    found = f'dataset "{dataset}" is gated: its owner grants access on request'
    found += ", and the token in HF_TOKEN has none yet" if has_token else ", and no token is set"
    advice = f"Ask for access at {_page(dataset)}, then set HF_TOKEN to a token with read access"
    return Fault(where, found, "a token of an account that has access", advice)


def _missing_fault(dataset: str, where: str) -> Fault:
    present = RENAMED.get(dataset)
    if present is not None:
        found = f'dataset "{dataset}" was renamed'
        return Fault(where, found, f"dataset_path: {present}", "Name that in the task file")
    if "/" not in dataset:
        return Fault(where, f'dataset "{dataset}" names no owner', "OWNER/NAME", "Write the full id of the Hub")
    found = f'dataset "{dataset}" is not on the Hub, or is private'
    advice = f"Check the id at {_page(dataset)}; for a private one set HF_TOKEN"
    other = SCRIPT_REPLACEMENTS.get(dataset)
    return Fault(where, found, f"dataset_path: {other}" if other else "the id of a public dataset", advice)
