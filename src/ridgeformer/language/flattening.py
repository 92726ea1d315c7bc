"""From formulas to sublayers: any arithmetic on channels becomes gated sublayers, heads and functions, in stages.

One gated sublayer computes sums of products of two channels, of quotients, and of max(0, a sum of multiples). Whatever
a formula nests deeper gets a temporary channel in a sublayer before it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from typing import Literal, NamedTuple

from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.language.expressions import Expression, Term
from ridgeformer.language.program import Channel, Function, Size

__all__ = ["FUNCTIONS", "Flattened", "Flattening", "Part", "Work", "is_number"]

FUNCTIONS: dict[str, str] = {
    "relu": "relu(a): max(0, a), one gated unit; SwiGLU units are off by at most 0.279 / 2^40",
    "abs": "abs(a): relu(a) + relu(-a)",
    "max": "max(a, b): b + relu(a - b)",
    "min": "min(a, b): b - relu(b - a)",
    "clip": "clip(a, low, high): low + relu(a - low) - relu(a - high)",
    "soft": "soft(a, t): soft-threshold, relu(a - t) - relu(-a - t)",
    "above": "above(a, b, margin): 1 - relu(1 - relu(a - b) / margin), 0 for a <= b and 1 for a >= b + margin",
    "dot": "dot(a, b): inner product over the features, in one gated sublayer",
    "mean": "mean(a): mean over the supports, one softmax head with equal weights",
    "sum": "sum(a): sum over the supports, one linear head",
    "sigmoid": "sigmoid(a): one softmax head over the token itself and the aggregator; exact to rounding",
    "exp": "exp(a): the two weights of that head divided, for a up to 690 (float32: 69); beyond, the division gives 0",
    "sqrt": "sqrt(a, low, high): Newton sweeps, right to rounding for low <= a <= high",
    "rsqrt": "rsqrt(a, low, high): 1 / sqrt(a) in the same way",
}
"""Functions that formulas may call, with what each is made of and its error."""

LONGEST = 80
"""Characters of a formula that an error shows."""

SPAN = (1e-4, 1e4)
"""Between which square roots are right unless told."""


class Part(NamedTuple):
    """A term of a sum; `summed` if its columns add up to one, as in an inner product."""

    term: Term
    summed: bool = False


@dataclass(frozen=True)
class Work:
    """One temporary: what it is assigned, by which kind of sublayer, and after how many others."""

    level: int
    kind: Literal["gate", "mean", "sum", "apply"]
    target: str
    text: str
    terms: Expression = ()
    source: str = ""
    function: Function = "sigmoid"
    span: tuple[float, float] = SPAN


@dataclass(frozen=True)
class Flattened:
    """A formula as a sum that one gated sublayer computes, with its size."""

    parts: tuple[Part, ...]
    size: Size


@dataclass
class Flattening:
    """Formulas of one statement on their way to stages.

    Attributes:
        lookup: The channel of a name; raises InputError where it holds nothing.
        constants: Numbers that formulas may name.
        fresh: Declares a temporary of a size and returns its name.
        work: Temporaries, in the order in which they are needed.
        one_output: Why there may be one target column only, where that is so.
    """

    lookup: Callable[[str], Channel]
    constants: Mapping[str, float]
    fresh: Callable[[Size], str]
    work: list[Work] = field(default_factory=list)
    one_output: str = ""
    sizes: dict[str, Size] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    def read(self, text: str) -> Flattened:
        """Return a formula as parts; temporaries it needs are in `work`.

        Raises:
            InputError: a formula outside the language, with the piece that is.
        """
        if not isinstance(text, str):
            raise InputError(f"{text!r} is no formula: text was expected, such as 'dot(x, w) - y'.")
        shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        try:
            parts = self._sum(ast.parse(text, mode="eval").body)
        except SyntaxError as error:
            raise InputError(f"{shown!r} is not a formula ({error.msg}).") from None
        except (RecursionError, MemoryError):
            raise InputError(f"{shown!r} is nested too deeply: split it over several channels.") from None
        return Flattened(tuple(parts), self.size(parts))

    def fitted(self, formula: Flattened, size: Size, target: str) -> Expression:
        """Return the terms of a formula for a target of this size; inner products in a wider target get a temporary."""
        terms = []
        for part in formula.parts:
            own = "one" if part.summed else self._size_of(part.term)
            if own == "features" and size != "features":
                raise InputError(
                    f"{target} has one column and its formula one a feature: use dot(a, b) for an inner product."
                )
            if part.summed and size == "features":
                coefficient, name = self.atom([part], "an inner product")
                terms.append(Term(coefficient, (name,)))
                continue
            if (part.summed and size == "outputs") or (own == "outputs" and size != "outputs"):
                self._need_one_output(f"{target} mixes targets with other channels")
            terms.append(part.term if part.term.channels else Term(part.term.coefficient, ("one",)))
        return tuple(terms) or (Term(0.0, ("one",)),)

    # -- sizes -------------------------------------------------------------------------------------

    def size(self, parts: list[Part]) -> Size:
        """Return the size of a sum."""
        found: Size = "one"
        for part in parts:
            found = self._joined(found, "one" if part.summed else self._size_of(part.term))
        return found

    def _size_of(self, term: Term) -> Size:
        found: Size = "one"
        for name in term.channels:
            found = self._joined(found, self.channel_size(name))
        return found

    def channel_size(self, name: str) -> Size:
        """Return the size of a channel or a temporary."""
        return self.sizes[name] if name in self.sizes else self.lookup(name).size

    def _joined(self, a: Size, b: Size) -> Size:
        if {a, b} == {"features", "outputs"}:
            self._need_one_output("it multiplies or adds targets and features")
            return "features"
        return b if a == "one" else a

    def _need_one_output(self, why: str) -> None:
        self.one_output = self.one_output or why

    def level(self, terms: Expression) -> int:
        """Return after how many stages all channels of these terms are known."""
        return max((self.levels.get(name, 0) for term in terms for name in term.channels), default=0)

    # -- temporaries -------------------------------------------------------------------------------

    def atom(self, parts: list[Part], text: str) -> tuple[float, str]:
        """Return a sum as a multiple of one channel, a temporary if need be."""
        if len(parts) == 1 and parts[0].term.linear:
            return parts[0].term.coefficient, parts[0].term.factors[0]
        if not any(part.term.channels for part in parts):
            return self._number(parts), "one"
        size = self.size(parts)
        terms = self.fitted(Flattened(tuple(parts), size), size, text)
        return 1.0, self._keep(Work(1 + self.level(terms), "gate", self._declare(size), text, terms))

    def _declare(self, size: Size) -> str:
        name = self.fresh(size)
        self.sizes[name] = size
        return name

    def _keep(self, work: Work) -> str:
        self.work.append(work)
        self.levels[work.target] = work.level
        return work.target

    # -- reading -----------------------------------------------------------------------------------

    def _sum(self, node: ast.expr) -> list[Part]:
        """Return a formula as parts; numbers are folded into one."""
        text = ast.unparse(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return [Part(Term(_finite(float(node.value), text)))]
        if isinstance(node, ast.Name):
            return [Part(self._named(node.id))]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return _scaled(self._sum(node.operand), -1.0 if isinstance(node.op, ast.USub) else 1.0)
        if isinstance(node, ast.BinOp):
            return self._operation(node, text)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            if node.func.id not in FUNCTIONS:
                raise unknown_name("function", node.func.id, FUNCTIONS)
            return self._call(node.func.id, node.args, text)
        raise InputError(f"{text!r} is no arithmetic of channels: use + - * /, numbers and {', '.join(FUNCTIONS)}.")

    def _named(self, name: str) -> Term:
        if name in self.constants:
            return Term(_finite(self.constants[name], name))
        return Term(1.0, (self.lookup(name).name,))

    def _operation(self, node: ast.BinOp, text: str) -> list[Part]:
        left = self._sum(node.left)
        if isinstance(node.op, ast.Pow):
            if not (isinstance(node.right, ast.Constant) and node.right.value == 2):
                raise InputError(f"{text!r}: the only power is a square, a ** 2.")
            return self._product(left, left, (ast.unparse(node.left),) * 2, text)
        right = self._sum(node.right)
        if isinstance(node.op, ast.Add | ast.Sub):
            return _folded(left + _scaled(right, -1.0 if isinstance(node.op, ast.Sub) else 1.0))
        sides = ast.unparse(node.left), ast.unparse(node.right)
        if isinstance(node.op, ast.Mult):
            return self._product(left, right, sides, text)
        if isinstance(node.op, ast.Div):
            return self._quotient(left, right, sides, text)
        raise InputError(f"{text!r} is no arithmetic of channels: use + - * /.")

    def _product(self, left: list[Part], right: list[Part], sides: tuple[str, str], text: str) -> list[Part]:
        for number, other in ((left, right), (right, left)):
            if not any(part.term.channels for part in number):
                return _scaled(other, self._number(number), text)
        if left is right:
            c, a = self.atom(left, sides[0])
            return [Part(Term(_finite(c * c, text), (a, a)))]
        (c, a), (d, b) = (self.atom(side, shown) for side, shown in zip((left, right), sides, strict=True))
        return [Part(Term(_finite(c * d, text), (a, b)))]

    def _quotient(self, left: list[Part], right: list[Part], sides: tuple[str, str], text: str) -> list[Part]:
        if not any(part.term.channels for part in right):
            number = self._number(right)
            if number == 0:
                raise InputError(f"{text!r} divides by zero.")
            return _scaled(left, 1 / number, text)
        (c, a), (d, b) = (self.atom(side, shown) for side, shown in zip((left, right), sides, strict=True))
        if d < 0:
            d, b = self.atom([*right, Part(Term(0.0))], text)  # the divisor itself is what must be positive
        return [Part(Term(_finite(c / d, text), (a,), b))]

    def _number(self, parts: list[Part]) -> float:
        return sum(part.term.coefficient for part in parts)

    # -- functions ---------------------------------------------------------------------------------

    def _call(self, name: str, nodes: list[ast.expr], text: str) -> list[Part]:
        least, most = ARGUMENTS[name]
        if not least <= len(nodes) <= most:
            raise InputError(f"{text!r}: {FUNCTIONS[name]}.")
        if name in PIECEWISE:
            return _folded(PIECEWISE[name](self, *(self._sum(node) for node in nodes)))
        if name == "dot":
            (c, a), (d, b) = (self.atom(self._sum(node), ast.unparse(node)) for node in nodes)
            if not self.channel_size(a) == self.channel_size(b) == "features":
                raise InputError(f"{text!r}: dot takes two channels with one column a feature.")
            return [Part(Term(c * d, (a, b)), True)]
        c, source = self.atom(self._sum(nodes[0]), ast.unparse(nodes[0]))
        size, level = self.channel_size(source), 1 + self.levels.get(source, 0)
        if name in ("mean", "sum"):
            work = Work(level, "mean" if name == "mean" else "sum", self._declare(size), text, source=source)
            return [Part(Term(c, (self._keep(work),)))]
        if c != 1.0:
            c, source = 1.0, self.atom([Part(Term(c, (source,))), Part(Term(0.0))], ast.unparse(nodes[0]))[1]
            level = 1 + self.levels.get(source, 0)
        if size == "features":
            raise InputError(f"{text!r}: {name} takes a channel of one column, not one a feature.")
        if size == "outputs":
            self._need_one_output(f"{name} takes one column")
        span = tuple(self._constant(node) for node in nodes[1:]) or SPAN
        if name in ("sqrt", "rsqrt") and not (len(span) == 2 and 0 < span[0] < span[1]):
            raise InputError(f"{text!r}: {FUNCTIONS[name]}, with numbers 0 < low < high.")
        work = Work(level, "apply", self._declare(size), text, (), source, name, span)  # type: ignore[arg-type]
        return [Part(Term(1.0, (self._keep(work),)))]

    def _constant(self, node: ast.expr) -> float:
        parts = self._sum(node)
        if any(part.term.channels for part in parts):
            raise InputError(f"{ast.unparse(node)!r} is not a number, and the range of a function is.")
        return self._number(parts)

    def rectified(self, parts: list[Part]) -> list[Part]:
        """Return max(0, a sum)."""
        if not any(part.term.channels for part in parts):
            return [Part(Term(max(0.0, self._number(parts))))]
        straight = all(part.term.linear or not part.term.channels for part in parts)
        if not straight:
            c, name = self.atom(parts, "an argument of relu")
            parts = [Part(Term(c, (name,)))]
        inside = tuple(p.term if p.term.channels else Term(p.term.coefficient, ("one",)) for p in parts)
        return [Part(Term(1.0, (), None, inside))]


def is_number(value: object) -> bool:
    """Whether this is a real number, of numpy too; True and False are none.

    Example:
        >>> [is_number(value) for value in (1, 2.5, True, "3")]
        [True, True, False, False]
    """
    return isinstance(value, Real) and not isinstance(value, bool)


def _finite(value: float, text: str) -> float:
    if not isfinite(value):
        raise InputError(f"the constant {text!r} is {value}; a finite number was expected.")
    return value


def _scaled(parts: list[Part], by: float, text: str = "") -> list[Part]:
    return [
        Part(Term(_finite(p.term.coefficient * by, text), p.term.factors, p.term.divisor, p.term.rectified), p.summed)
        for p in parts
    ]


def _folded(parts: list[Part]) -> list[Part]:
    """Return a sum with its numbers added up."""
    numbers = [part.term.coefficient for part in parts if not part.term.channels]
    rest = [part for part in parts if part.term.channels]
    total = sum(numbers)
    return rest + ([Part(Term(total))] if total or not rest else [])


def _relu(f: Flattening, a: list[Part]) -> list[Part]:
    return f.rectified(a)


def _simple(f: Flattening, parts: list[Part]) -> list[Part]:
    """Return a sum of multiples, so that several units may read it."""
    if all(part.term.linear or not part.term.channels for part in parts):
        return parts
    c, name = f.atom(parts, "an argument")
    return [Part(Term(c, (name,)))]


def _abs(f: Flattening, a: list[Part]) -> list[Part]:
    a = _simple(f, a)
    return f.rectified(a) + f.rectified(_scaled(a, -1.0))


def _max(f: Flattening, a: list[Part], b: list[Part]) -> list[Part]:
    a, b = _simple(f, a), _simple(f, b)
    return b + f.rectified(_folded(a + _scaled(b, -1.0)))


def _min(f: Flattening, a: list[Part], b: list[Part]) -> list[Part]:
    a, b = _simple(f, a), _simple(f, b)
    return b + _scaled(f.rectified(_folded(b + _scaled(a, -1.0))), -1.0)


def _clip(f: Flattening, a: list[Part], low: list[Part], high: list[Part]) -> list[Part]:
    a, low, high = (_simple(f, side) for side in (a, low, high))
    up, down = (f.rectified(_folded(a + _scaled(end, -1.0))) for end in (low, high))
    return low + up + _scaled(down, -1.0)


def _soft(f: Flattening, a: list[Part], t: list[Part]) -> list[Part]:
    a, t = _simple(f, a), _simple(f, t)
    up, down = (f.rectified(_folded(_scaled(a, sign) + _scaled(t, -1.0))) for sign in (1.0, -1.0))
    return up + _scaled(down, -1.0)


def _above(f: Flattening, a: list[Part], b: list[Part], margin: list[Part]) -> list[Part]:
    width = sum(part.term.coefficient for part in margin)
    if any(part.term.channels for part in margin) or not width > 0:
        raise InputError("above(a, b, margin) takes a number > 0 as its margin.")
    over = f.rectified(_folded(_simple(f, a) + _scaled(_simple(f, b), -1.0)))
    c, name = f.atom(over, "how far above")
    short = f.rectified([Part(Term(1.0)), Part(Term(_finite(-c / width, "1 / margin"), (name,)))])
    return [Part(Term(1.0)), *_scaled(short, -1.0)]  # exactly 0 and 1 at both ends, however large a is


PIECEWISE: dict[str, Callable[..., list[Part]]] = {
    "relu": _relu,
    "abs": _abs,
    "max": _max,
    "min": _min,
    "clip": _clip,
    "soft": _soft,
    "above": _above,
}
"""Functions that are sums of max(0, multiples of channels)."""

ARGUMENTS = {"clip": (3, 3), "above": (3, 3), "sqrt": (1, 3), "rsqrt": (1, 3)}
ARGUMENTS |= dict.fromkeys(("max", "min", "soft", "dot"), (2, 2))
ARGUMENTS |= dict.fromkeys(("relu", "abs", "mean", "sum", "sigmoid", "exp"), (1, 1))
