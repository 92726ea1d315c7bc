"""Studies: resumable parameter sweeps.

A study is a grid of small pure tasks. `run` computes the tasks that its store lacks, in this process, in worker
processes or on a Dask cluster, and loses nothing when it is killed; `table`, `intervals` and `export` read the results.
A new study is one file with a `Study` and one line in `registry`; a page of its own is a function in
`views.study_pages`.
"""

from ridgeformer.studies.registry import STUDIES, find_study
from ridgeformer.studies.store import Store, StoredResult
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.studies.sweep import Progress, Report, run
from ridgeformer.studies.tables import export, intervals, table
from ridgeformer.studies.task import Result, StudyTask, TaskOutcome, TaskStatus

__all__ = [
    "STUDIES",
    "Preset",
    "Progress",
    "Report",
    "Result",
    "Store",
    "StoredResult",
    "Study",
    "StudyTask",
    "TaskOutcome",
    "TaskStatus",
    "export",
    "find_study",
    "intervals",
    "product",
    "run",
    "table",
]
