"""The choices an audit makes, all shown in the report, and how it skips a section that the data do not allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ridgeformer.core.errors import RidgeformerError, unknown_name
from ridgeformer.influence.attacks import PGD
from ridgeformer.solving.tuning import RIDGES_TRIED, TEMPERATURES_TRIED, TRIES

__all__ = ["PRESETS", "Settings", "Skipped", "attempt", "preset"]

ENOUGH_HELD_OUT = 5000


@dataclass(frozen=True)
class Settings:
    """How an audit is carried out.

    Attributes:
        seed: Of the split, the subsample and every randomised step.
        test_fraction: Rows held out for the scores.
        max_rows: Rows of a direct solution at most, those held out included; a larger dataset is sampled for it, and
            the report says so.
        all_rows: Rows at most of the methods that are not solved directly.
        preprocessing: "unit_rows", "standardise", or "auto" (unit rows for images, else standardise).
        methods: Keys of `ridgeformer.auditing.field.METHODS` that take part.
        few_rows: Below this number of rows, every row is held out once, in five splits, instead of a fraction in one.
        trees: Trees of the forest, and steps of gradient boosting.
        tries: Settings that every method tries at most.
        temperatures: Ends of the grid, over the mean squared row length. One value is a choice, and stays.
        ridges: Ends of the grid, over the mean diagonal of the kernel.
        steps: Conjugate-gradient steps shown at most.
        compiled_rows: Training rows shown to the compiled transformers at most; a certificate solves them directly.
        compiled_queries: Held-out rows they answer at most.
        regime_rows: Training rows of the networks in the section on the kernel regime.
        regime_widths: Widths of the networks trained there.
        regime_widest: Widest kernel at initialisation drawn there.
        regime_epochs: Passes of their training at most; it ends where the training error is small.
        attack_rows: Training rows of the section on malleability.
        attack_queries: Held-out rows there.
        attack_sizes: Sizes of the attacks, as multiples of a typical entry (root mean square) of the prepared rows; the
            answer speaks of the first.
        attack_width: Width of the networks attacked.
        attack_steps: Steps of an attack.
        repeats: Draws of what the last two sections draw at random: rows, networks, starts of the attacks.
        points: Helpful and harmful training points named for one prediction.
    """

    seed: int = 0
    test_fraction: float = 0.3
    max_rows: int = 2000
    all_rows: int = 100_000
    preprocessing: str = "auto"
    methods: tuple[str, ...] = (
        "attention", "constant", "linear", "smoother", "neighbours", "gaussian", "centres", "forest", "boosting",
    )  # fmt: skip
    few_rows: int = 400
    trees: int = 50
    tries: int = TRIES
    temperatures: tuple[float, ...] = TEMPERATURES_TRIED
    ridges: tuple[float, ...] = RIDGES_TRIED
    steps: int = 300
    compiled_rows: int = 200
    compiled_queries: int = 50
    regime_rows: int = 200
    regime_widths: tuple[int, ...] = (512,)
    regime_widest: int = 100_000
    regime_epochs: int = 500
    attack_rows: int = 150
    attack_queries: int = 40
    attack_sizes: tuple[float, ...] = (0.3, 0.1)
    attack_width: int = 512
    attack_steps: int = PGD.steps
    repeats: int = 3
    points: int = 5

    def attack(self, eps: float) -> PGD:
        """Return an attack of that size; fewer steps are longer ones."""
        return PGD(eps, steps=self.attack_steps, relative_step=PGD.relative_step * (PGD.steps / self.attack_steps))

    def fraction_held_out(self, rows: int) -> float:
        """Return the fraction of the rows to hold out: 5,000 rows judge well enough.

        Example:
            >>> Settings().fraction_held_out(1000), Settings().fraction_held_out(50_000)
            (0.3, 0.1)
        """
        return min(self.test_fraction, ENOUGH_HELD_OUT / min(rows, max(self.max_rows, self.all_rows)))

    @property
    def direct_rows(self) -> int:
        """Training rows of a direct solution at most."""
        return round(self.max_rows * (1 - self.test_fraction))


PRESETS: dict[str, Settings] = {
    "quick": Settings(
        max_rows=600, all_rows=600, few_rows=50, trees=10, tries=9, steps=150, compiled_rows=80, compiled_queries=20,
        regime_rows=60, regime_widths=(128,), regime_widest=10_000, regime_epochs=500, attack_rows=60,
        attack_queries=20, attack_sizes=(0.3,), attack_width=128, repeats=1,
    ),
    "default": Settings(),
    "full": Settings(
        max_rows=10_000, trees=300, steps=2000, compiled_rows=400, compiled_queries=200, regime_rows=1000,
        regime_widths=(256, 1024, 4096), regime_widest=10_000_000, regime_epochs=5000, attack_rows=500,
        attack_queries=100, attack_sizes=(0.3, 0.03, 0.1, 1.0), attack_width=4096, repeats=5,
    ),
}  # fmt: skip
"""Settings by name: under a minute, a few minutes, hours (for two cores and the embedded data)."""


def preset(name: str) -> Settings:
    """Return the settings of that name.

    Raises:
        UnknownNameError: no such preset.

    Example:
        >>> preset("quick").max_rows < preset("default").max_rows < preset("full").max_rows
        True
    """
    if name not in PRESETS:
        raise unknown_name("preset", name, list(PRESETS))
    return PRESETS[name]


Result = TypeVar("Result")


@dataclass(frozen=True)
class Skipped:
    """Why a part was left out, in one sentence."""

    reason: str

    def as_dict(self) -> dict[str, str]:
        """Return it as plain values, for JSON."""
        return {"skipped": self.reason}


def attempt(part: Callable[[], Result]) -> Result | Skipped:
    """Return what a part finds, or why these data do not allow it. Errors of the program itself are not caught.

    Example:
        >>> from ridgeformer.core.errors import InputError
        >>> def part():
        ...     raise InputError("row 3 is all zeros.")
        >>> attempt(part)
        Skipped(reason='row 3 is all zeros.')
    """
    try:
        return part()
    except RidgeformerError as error:
        return Skipped(" ".join(str(error).split()))
