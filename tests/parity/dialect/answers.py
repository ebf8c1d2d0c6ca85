"""Questions, answers and values of documents, as functions that task files name."""

import math

from lm_eval.utils import general_detokenize


def asked(doc):
    hint = doc["hint"].strip()
    return f"Q: {doc['question'].strip()}" + (f" (Hint: {hint})" if hint else "") + "\nA:"


def right_places(doc):
    """Every choice that begins as the labelled one does."""
    first = doc["choices"][doc["label"]][0].lower()
    return [place for place, choice in enumerate(doc["choices"]) if choice[0].lower() == first]


def shouted_choices(doc):
    return [choice.upper() for choice in doc["choices"]]


def place_of_answer(doc):
    return int(doc["answer"]) - 1


def beginnings(doc):
    before, _, _ = doc["sentence"].partition("_")
    return [before + doc["option1"], before + doc["option2"]]


def ending(doc):
    return doc["sentence"].partition("_")[2].strip()


def tidy_text(doc):
    return general_detokenize(doc["text"])


def graded_line(doc, results):
    """Several metrics of one log-likelihood; short endings have no `nats_per_letter`."""
    total, is_greedy = results[0]
    values = {"hit": float(is_greedy), "weighted": (total, len(doc["end"])), "surprise": -total}
    if len(doc["end"]) > 3:
        values["nats_per_letter"] = -total / len(doc["end"])
    return values


def graded_tags(doc, results):
    said = results[0]
    if isinstance(said, list):
        return {"share": sum(a == b for a, b in zip(said, doc["tags"], strict=False)) / len(doc["tags"])}
    return {"spans": float(said == doc["spans"])}


def graded_choice(doc, results):
    totals = [total for total, _ in results]
    best = totals.index(max(totals))
    margin = math.nan if doc["label"] < 0 else totals[doc["label"]] - max(totals)
    return {"acc": float(best == doc["label"]), "f1": (doc["label"], best), "margin": margin}


def graded_unlisted(doc, results):
    """A metric that the task file does not list."""
    return {"listed": results[0][0], "unlisted": results[-1][0]}
