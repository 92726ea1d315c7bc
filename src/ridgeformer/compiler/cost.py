"""What a program will cost, before any weight of it exists: sizes, which sublayers dominate, and how they grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import nan

from ridgeformer.algorithms.written import WrittenAlgorithm
from ridgeformer.compiler.layout import Layout, arrange, lives
from ridgeformer.compiler.lowering import count_pairs, count_units
from ridgeformer.compiler.primitives import choose
from ridgeformer.compiler.specification import Specification, write_program
from ridgeformer.compiler.written import WrittenAttention
from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError
from ridgeformer.language.program import Attend, Gate, Head, Record

__all__ = ["Cost", "SublayerCost", "budget"]


@dataclass(frozen=True)
class SublayerCost:
    """One sublayer of a program.

    Attributes:
        place: Its section and name.
        kind: "attention" or "gated".
        heads: Heads, 0 for a gated sublayer; `size` is the columns of queries, keys and values they take in all.
        units: Gated units, 0 for attention.
        times: How often a token passes through it.
        caption: What it computes.
    """

    place: str
    kind: str
    heads: int
    size: int
    units: int
    times: int
    caption: str

    def weights(self, width: int) -> int:
        """Return the numbers in its matrices."""
        return width * (self.size if self.kind == "attention" else 3 * self.units)

    def multiplications(self, width: int, tokens: int) -> int:
        """Return the multiplications of one pass of a stock class, which skips no zero, over all its repetitions."""
        pairs = tokens * tokens * self.size // 2 if self.kind == "attention" else 0
        return self.times * (tokens * self.weights(width) + pairs)


@dataclass(frozen=True)
class Cost:
    """The size of a program for some number of features, steps and outputs.

    Attributes:
        features, steps, outputs: What it was counted for.
        width: Columns of the stream.
        sublayers: Every sublayer once, with how often it is passed.
        parameters: Numbers in the weights, tied steps once, and where steps differ, sublayers that do not once.
        again: Counts the same program for other numbers of features and steps.
    """

    features: int
    steps: int
    outputs: int
    width: int
    sublayers: tuple[SublayerCost, ...]
    parameters: int
    again: Callable[[int, int], Cost]

    @property
    def layers(self) -> int:
        """Sublayers a token passes through."""
        return sum(sublayer.times for sublayer in self.sublayers)

    @property
    def heads(self) -> int:
        """Heads of the attention sublayer that has most."""
        return max((sublayer.heads for sublayer in self.sublayers), default=0)

    @property
    def units(self) -> int:
        """Units of the widest gated sublayer."""
        return max((sublayer.units for sublayer in self.sublayers), default=0)

    def dominant(self, tokens: int = 256, most: int = 5) -> tuple[tuple[SublayerCost, float], ...]:
        """Return the sublayers that take most multiplications, each with its fraction of all."""
        each = [(one.multiplications(self.width, tokens), one) for one in self.sublayers]
        total = sum(count for count, _ in each)
        ranked = sorted(each, key=lambda pair: -pair[0])
        return tuple((one, count / total) for count, one in ranked[:most])

    @property
    def growth(self) -> dict[str, str]:
        """Width, sublayers and parameters as functions of the features m and the steps t.

        Width, sublayers, heads and units are affine in m and t; a width in which temporaries share columns is too, from
        two features on.
        """
        m, t = max(self.features, 2), self.steps
        here, wider, deeper = self.again(m, t), self.again(m + 1, t), self.again(m, t + 1)
        found = {}
        for name in ("width", "heads", "units", "layers"):
            base, slope, depth = (int(getattr(cost, name)) for cost in (here, wider, deeper))
            found[name] = _affine(base, slope - base, depth - base, m, t)
        return found

    def __str__(self) -> str:
        lines = [
            f"{self.features} features, {self.steps} steps, {self.outputs} output(s): width {self.width}, "
            f"{self.layers:,} sublayers, at most {self.heads} heads and {self.units:,} units in one, "
            f"{self.parameters:,} weights",
            "grows as " + ", ".join(f"{name} {law}" for name, law in self.growth.items()),
            "",
            "most multiplications, at 256 tokens",
        ]
        for one, fraction in self.dominant():
            lines.append(f"  {100 * fraction:>4.0f} %  {one.kind:<10}{one.place:<28}{one.caption}")
        return "\n".join(lines)


def _affine(base: int, per_feature: int, per_step: int, m: int, t: int) -> str:
    parts = [
        f"{slope} {name}" if slope != 1 else name for slope, name in ((per_feature, "m"), (per_step, "t")) if slope
    ]
    rest = base - per_feature * m - per_step * t
    if rest or not parts:
        parts.append(str(rest))
    return " + ".join(parts).replace("+ -", "- ")


def budget(program: WrittenAlgorithm, *, features: int, outputs: int = 1, primitives: str = "exact") -> Cost:
    """Return what a program will cost when it is compiled with these options; no matrix is made.

    Example:
        >>> from ridgeformer.programs import PROGRAMS
        >>> cost = budget(PROGRAMS["ista"](steps=10), features=8)
        >>> cost.growth["width"], cost.growth["layers"]
        ('4 m + 3', '5 t')
    """
    if not isinstance(program, WrittenAlgorithm):
        raise InputError(
            f"budget counts programs made by @rf.algorithm; {program!r} is none: see CompiledTransformer.budget."
        )
    if program.steps is None:
        raise InputError(f"a compiled program has a fixed depth: give steps=, such as {program.name}(steps=12).")
    features, outputs = whole(features, "features", 1), whole(outputs, "outputs", 1)

    def count(m: int, steps: int) -> Cost:
        spec = Specification.of(
            algorithm=replace(program, steps=steps), attention=WrittenAttention(), features=m, projected=m, carried=m,
            ridge=nan, outputs=outputs, share_channels=True, tied=True, width=None, dtype="float64",
            primitives=primitives, **choose(primitives).options, embedding_digest=None,
        )  # fmt: skip
        written = write_program(spec)
        layout = arrange(written, m, outputs, share=True)
        alive, sublayers, position = lives(written), list[SublayerCost](), 0
        cleared: set[str] = set()
        section, own = "", dict[object, int]()
        for name, instruction in written.timeline():
            if isinstance(instruction, Record):
                continue
            cleared, section = (cleared if name == section else set()), name
            born = {c for c, life in alive.items() if life is not None and position in life.births}
            assert isinstance(instruction, Attend | Gate)
            times = steps if name == "step" else 1
            sublayers.append(_sublayer(name, instruction, layout, spec, frozenset(born | cleared), times))
            place = (instruction, frozenset(born | cleared)) if not written.uniform else position
            own.setdefault(place, sublayers[-1].weights(layout.width))
            cleared = (cleared | set(instruction.clear)) - instruction.writes
            position += 1
        embed = len(written.roles) * (m + outputs + 1) * layout.width
        parameters = embed + sum(own.values())
        return Cost(m, steps, outputs, layout.width, tuple(sublayers), parameters, count)

    return count(features, program.steps)


def _sublayer(
    section: str, instruction: Attend | Gate, layout: Layout, spec: Specification, empty: frozenset[str], times: int
) -> SublayerCost:
    place = f"{section}: {instruction.name}"
    if isinstance(instruction, Gate):
        units = count_units(instruction, layout, empty, spec.units, spec.torch_dtype)
        return SublayerCost(place, "gated", 0, 0, units, times, instruction.caption)
    heads = list(instruction.heads)
    if instruction.clear:
        values = tuple((name, name, -1.0) for name in instruction.clear)
        heads.append(Head("clear", (), values, heads[0].mask, "softmax"))
    sizes = [size for head in heads for size in count_pairs(head, layout)]
    return SublayerCost(place, "attention", len(sizes), sum(sizes), 0, times, instruction.caption)
