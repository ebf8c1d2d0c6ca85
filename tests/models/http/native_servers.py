"""The scripted model behind the endpoints of SGLang and of Text Generation Inference, as routes for `FaultServer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.models.http.fault_server import BOS, MODEL, FaultServer, Json, after, greedy, ids_of, text_of


def sglang(**changes: Any) -> FaultServer:
    """A server with SGLang's `/generate`."""
    row = {"id": MODEL, "owned_by": "sglang", "max_model_len": 256}
    about = {"/v1/models": {"object": "list", "data": [row]}}
    return FaultServer("sglang", routes={"/generate": _sglang}, about=about, **changes)


def tgi(**changes: Any) -> FaultServer:
    """A server with TGI's `/generate`, which takes texts and puts BOS before them."""
    about = {"/info": {"model_id": "org/m", "max_total_tokens": 128, "version": "3.3.6"}}
    return FaultServer("tgi", routes={"/generate": _tgi}, about=about, **{"tokenizes": False, **changes})


def _entry(ids: Sequence[int], place: int) -> list[Any]:
    return [float(after(ids[:place])[ids[place]]), ids[place], None]


def _sglang(body: Json) -> Json:
    ids = body["input_ids"]
    new = greedy(ids, body["sampling_params"]["max_new_tokens"])
    whole = [*ids, *new]
    report: Json = {"prompt_tokens": len(ids), "output_token_logprobs": [_entry(whole, len(ids))]}
    start = body["logprob_start_len"]
    if start >= 0:
        report["input_token_logprobs"] = [
            [None, ids[start], None],
            *(_entry(ids, place) for place in range(start + 1, len(ids))),
        ]
        report["input_top_logprobs"] = [
            None,
            *(
                [_entry([*ids[:place], int(after(ids[:place]).argmax())], place)]
                for place in range(start + 1, len(ids))
            ),
        ]
    return {"text": text_of(new), "meta_info": report}


def _tgi(body: Json) -> Json:
    parameters = body["parameters"]
    ids = ids_of(body["inputs"], True)
    new = greedy(ids, parameters["max_new_tokens"])
    whole = [*ids, *new]
    text = text_of(new)
    ends = [text.index(stop) + len(stop) for stop in parameters.get("stop", []) if stop in text]
    prefill = [
        {"id": ids[place], "text": text_of([ids[place]]), "logprob": _entry(ids, place)[0] if place else None}
        for place in range(len(ids))
    ]
    details: Json = {
        "finish_reason": "stop_sequence" if ends else "length",
        "generated_tokens": len(new),
        "prefill": prefill if parameters.get("decoder_input_details") else [],
        "tokens": [
            {"id": whole[place], "text": text_of([whole[place]]), "logprob": _entry(whole, place)[0]}
            for place in range(len(ids), len(whole))
        ],
    }
    assert ids[0] == BOS
    return {"generated_text": text[: min(ends)] if ends else text, "details": details}
