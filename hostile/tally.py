"""Promises, how often each was tried, and every case in which one was broken."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ridgeformer.core.errors import RidgeformerError

__all__ = ["Broken", "Tally"]


@dataclass(frozen=True)
class Broken:
    """One broken promise.

    Attributes:
        promise: which one, as it stands in the report.
        case: what replays it, such as "solves 17 (seed 0): Exponential, float32, n = 9, method nystrom".
        what: what happened instead.
    """

    promise: str
    case: str
    what: str


@dataclass
class Tally:
    """Counts promises tried and promises broken; tallies of several processes add up."""

    tried: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)

    def hold(self, promise: str, case: str, kept: bool, what: str = "") -> bool:
        """Count one trial of a promise; record it as broken unless `kept`."""
        self.tried[promise] += 1
        if not kept:
            self.broken.append(Broken(promise, case, what))
        return kept

    @contextmanager
    def only_our_errors(self, case: str, promise: str = "no foreign exception") -> Iterator[None]:
        """Count a trial; an exception that is not a `RidgeformerError` breaks the promise and is swallowed.

        A `RidgeformerError` is a refusal: it is swallowed too, as refusing is an honest answer.
        """
        try:
            yield
        except RidgeformerError:
            self.hold(promise, case, kept=True)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.hold(promise, case, False, f"{type(error).__name__} at {where.name}:{where.lineno}: {error}"[:300])
        else:
            self.hold(promise, case, kept=True)

    def add(self, other: Tally) -> None:
        """Take over the counts of another tally."""
        self.tried.update(other.tried)
        self.broken.extend(other.broken)

    def as_json(self) -> str:
        """Return the tally as JSON, to cross a process boundary."""
        return json.dumps({"tried": self.tried, "broken": [vars(one) for one in self.broken]})

    @classmethod
    def from_json(cls, text: str) -> Tally:
        """Return the tally that `as_json` wrote."""
        data: dict[str, Any] = json.loads(text)
        return cls(Counter(data["tried"]), [Broken(**one) for one in data["broken"]])
