"""The public function that fetches datasets. The command line calls the same one.

import assay
report = assay.get_data(["hellaswag", "arc_easy"], to="data")
assert not report.failed
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assay.data.fetched import DataReport
from assay.options.specification import Tasks, make_spec, split_tasks, with_settings
from assay.options.table import Settings
from assay.run.datasets import get_datasets
from assay.run.events import Listener, ignore

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_settings
def get_data(tasks: Tasks, to: str | Path, *, listener: Listener = ignore, **settings: Unpack[Settings]) -> DataReport:
    """Fetches the datasets of tasks into a folder, from which `data=FOLDER` reads them without network.

    Datasets that the folder holds complete and unchanged are skipped. One that cannot be fetched does not stop the
    others: its outcome has the reason.

    Args:
        tasks: as in `evaluate`.
        to: the folder; created if it is missing.
        listener: function that is called with every event.
        **settings: as in `evaluate`; those that find and change tasks matter.
    """
    wanted = split_tasks(tasks)
    spec = make_spec("none", [item if isinstance(item, str) else item.card.name for item in wanted], **settings)
    return get_datasets(spec, wanted, Path(to).expanduser().absolute(), listener)
