"""Task code that changes documents in place, each function in a field of its own."""


def numbered(dataset):
    return dataset.map(lambda row, place: {"number": place}, with_indices=True)


def asked(doc):
    doc["asked"] = doc["question"].upper()
    return doc["asked"]


def right(doc):
    doc["targets"] = doc.get("targets", 0) + 1
    return doc["label"]


def listed(doc):
    doc["listed"] = len(doc["choices"])
    return doc["choices"]


def scored(doc, results):
    totals = [total for total, _ in results]
    doc["pick"] = "picked"
    doc["choices"].append("none of these")
    return {"acc": float(totals.index(max(totals)) == doc["label"])}
