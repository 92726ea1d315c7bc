"""Studies: long work that survives.

A study is a grid of small pure tasks. `run` computes what its store does not have yet, here, in worker processes or on
a Dask cluster, and loses nothing when it is killed; `table`, `intervals` and `export` read the results. A new study is
one file with a `Study` and one line in `registry`.
"""

from ridgeformer.studies.registry import STUDIES, find_study
from ridgeformer.studies.reproduce import reproduce
from ridgeformer.studies.run import Progress, Report, run
from ridgeformer.studies.store import Row, Store
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.studies.tables import export, intervals, table
from ridgeformer.studies.task import Result, Status, Task

__all__ = [
    "STUDIES",
    "Preset",
    "Progress",
    "Report",
    "Result",
    "Row",
    "Status",
    "Store",
    "Study",
    "Task",
    "export",
    "find_study",
    "intervals",
    "product",
    "reproduce",
    "run",
    "table",
]
