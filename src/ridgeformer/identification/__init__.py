"""Which algorithm does this in-context learner run? Candidates, controls and an honest abstention.

`identify` is the verb; the noun of the package keeps `rf.identify` a function beside `rf.identification.adapters`.
"""

from ridgeformer.identification import adapters
from ridgeformer.identification.answer import Identification
from ridgeformer.identification.candidates import Candidate, Family, Member
from ridgeformer.identification.controls import Control, PowerPoint
from ridgeformer.identification.mechanism import Mechanism, StateTest
from ridgeformer.identification.other_families import FAMILIES
from ridgeformer.identification.protocol import identify
from ridgeformer.identification.signatures import Signatures, Similarity
from ridgeformer.identification.tasks import Setting, TaskGroup, Tasks, separating, standard, tasks_from
from ridgeformer.identification.verdict import BehaviourVerdict, Coordinate, Reason, Thresholds

__all__ = [
    "FAMILIES",
    "BehaviourVerdict",
    "Candidate",
    "Control",
    "Coordinate",
    "Family",
    "Identification",
    "Mechanism",
    "Member",
    "PowerPoint",
    "Reason",
    "Setting",
    "Signatures",
    "Similarity",
    "StateTest",
    "TaskGroup",
    "Tasks",
    "Thresholds",
    "adapters",
    "identify",
    "separating",
    "standard",
    "tasks_from",
]
