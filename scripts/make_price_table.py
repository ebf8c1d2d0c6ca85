"""Makes the table of prices of models behind HTTP from LiteLLM's, which comes with its wheel (MIT license).

    pip download litellm --no-deps && python scripts/make_price_table.py litellm-VERSION-….whl

In: the wheel of the newest release. Out: src/assay/models/http/spending/prices.json: dollars per million tokens of the
chat and completion models of OpenAI, Anthropic and Gemini, with the release and today's date, as wheels have no dates.
"""

import json
import re
import sys
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

TABLE = "model_prices_and_context_window_backup.json"
TARGET = Path(__file__).parents[1] / "src" / "assay" / "models" / "http" / "spending" / "prices.json"
PROVIDERS = {"openai": "openai", "text-completion-openai": "openai", "anthropic": "anthropic", "gemini": "gemini"}
MODES = ("chat", "completion", "responses")
_LONG = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


def row_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The prices of a model."""

    def price(name: str) -> float | None:
        value = entry.get(name)
        return None if value is None else round(value * 1e6, 6)

    row: dict[str, Any] = {"input": price("input_cost_per_token"), "output": price("output_cost_per_token")}
    for name, key in (("cached", "cache_read_input_token_cost"), ("written", "cache_creation_input_token_cost")):
        if price(key) is not None:
            row[name] = price(key)
    batch = [price("input_cost_per_token_batches"), price("output_cost_per_token_batches")]
    if None not in batch:
        row["batch"] = batch
    for key in entry:
        if found := _LONG.fullmatch(key):
            thousands = found[1]
            output = price(f"output_cost_per_token_above_{thousands}k_tokens") or row["output"]
            row["long"] = [1000 * int(thousands), price(key), output]
    return row


def main() -> None:
    wheel = Path(sys.argv[1])
    with zipfile.ZipFile(wheel) as archive:
        place = next(name for name in archive.namelist() if name.endswith(TABLE))
        entries: dict[str, dict[str, Any]] = json.loads(archive.read(place))
    prices: dict[str, dict[str, Any]] = {name: {} for name in dict.fromkeys(PROVIDERS.values())}
    for name, entry in entries.items():
        provider = PROVIDERS.get(entry.get("litellm_provider", ""))
        model = name.split("/", 1)[1] if name.startswith(("gemini/", "openai/", "text-completion-openai/")) else name
        if provider is None or entry.get("mode") not in MODES or "/" in model or model.startswith("ft:"):
            continue
        if entry.get("input_cost_per_token") and entry.get("output_cost_per_token"):
            prices[provider][model] = row_of(entry)
    version = wheel.name.split("-")[1]
    lines = [
        f"    {json.dumps(provider)}: {{\n"
        + ",\n".join(f"      {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))
        + "\n    }"
        for provider, rows in prices.items()
    ]
    head = {
        "source": f"LiteLLM {version}, model_prices_and_context_window (MIT)",
        "date": date.today().isoformat(),
        "unit": "dollars per million tokens",
    }
    body = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
    TARGET.write_text(f'{{\n{body},\n  "prices": {{\n' + ",\n".join(lines) + "\n  }\n}\n", encoding="utf-8")
    print(f"{TARGET.name}: {sum(map(len, prices.values()))} models, {head['date']}")


if __name__ == "__main__":
    main()
