"""Prints the figures of docs/extraction.md: our lists compared with lm-eval's filters on hand-labelled outputs.

    python -m bench.extraction [--split held_out] [--misread]

The outputs are committed with their labels, so nothing is asked of a model and the same numbers come every time.
"""

from __future__ import annotations

import argparse

from bench.extraction.forms import HELD_OUT, TUNING
from bench.extraction.measuring import KINDS, misread, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=(TUNING, HELD_OUT), default=HELD_OUT)
    parser.add_argument("--misread", action="store_true", help="list the texts of this split with wrong extractions")
    options = parser.parse_args()
    print(table(options.split))
    if options.misread:
        for kind in KINDS:
            for item, said in misread(kind, options.split):
                cut = ", cut off" if item.is_cut else ""
                print(f"\n{item.id}{cut}: label {item.label}, read {said}\n  …{item.text[-160:]!r}")


if __name__ == "__main__":
    main()
