"""Documents: changed, left out, shuffled, made."""

import random

import datasets


def labelled(dataset):
    return dataset.filter(lambda row: row["label"] >= 0)


def with_letters(dataset):
    def lettered(row):
        letters = "ABCD"[: len(row["choices"])]
        lines = "\n".join(f"({letter}) {choice}" for letter, choice in zip(letters, row["choices"], strict=True))
        return {"menu": lines, "letter": f"({letters[row['label']]})", "row": row["question"][:8]}

    return labelled(dataset).map(lettered)


def shuffled_choices(dataset):
    """Draws from Python's global generator, as some shipped tasks do."""

    def shuffled(row):
        order = random.sample(range(len(row["choices"])), len(row["choices"]))
        return {"choices": [row["choices"][place] for place in order], "label": order.index(row["label"])}

    return labelled(dataset).map(shuffled)


def first_half(dataset):
    return dataset.select(range(len(dataset) // 2))


def numbered(**settings):
    """A dataset without files: squares up to a number that the task's metadata names."""
    rows = [{"n": n, "square": str(n * n)} for n in range(1, settings["up_to"] + 1)]
    return {
        "train": datasets.Dataset.from_list(rows[settings["held_out"] :]),
        "test": datasets.Dataset.from_list(rows[: settings["held_out"]]),
    }


def worked_sums():
    return [
        {"a": 4, "b": 4, "sum": 8, "text": "8", "steps": "4 and 4 make 8."},
        {"a": 20, "b": 1, "sum": 21, "text": "21", "steps": "20 and 1 make 21."},
        {"a": 3, "b": 0, "sum": 3, "text": "3", "steps": "3 and nothing make 3."},
        {"a": 11, "b": 11, "sum": 22, "text": "22", "steps": "Twice 11 is 22."},
    ]
