"""A sublayer in words and in LaTeX, from the program's own expressions: nothing here depends on the algorithm."""

from __future__ import annotations

from ridgeformer.compiler.specification import Specification
from ridgeformer.core.words import listed
from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Attend, Gate, Head, Program
from ridgeformer.language.roles import Mask

__all__ = ["formulas", "sentence", "symbol", "title"]

SYMBOLS = {
    "phi": r"\varphi_@", "phi_reader": r"\varphi_@", "phi_source": r"\varphi_@", "alpha": r"\alpha_@",
    "beta": r"\beta_@", "gamma": r"\gamma_@", "rho": r"\rho_@", "eta": r"\eta_@", "one": "1", "minv": "m_@^{-1}",
    "half": "h_@", "half_reader": "h_@", "half_source": "h_@",
}  # fmt: skip
"""Channels with a letter of their own in the theory; @ is the token."""


METHODS = {
    "cg": "CG",
    "richardson": "Gradient descent",
    "chebyshev": "Chebyshev",
    "nadaraya_watson": "One softmax head",
}
"""Algorithms whose usual name is shorter than their family's."""


def title(spec: Specification, section: str, instruction: Attend | Gate) -> str:
    """Return which step of the algorithm a sublayer is part of, such as "CG step 3 of 8: curvature"."""
    if section == "prelude":
        return f"Before the first step: {instruction.name}"
    if section == "readout":
        return f"After the last step: {instruction.name}"
    family = spec.algorithm.family
    method = METHODS.get(spec.algorithm.name, f"{family[0].upper()}{family[1:]}")
    return f"{'P' * spec.algorithm.preconditioned}{method} {section} of {spec.steps}: {instruction.name}"


def sentence(program: Program, instruction: Attend | Gate) -> str:
    """Return what a sublayer does and what its channels hold after it."""
    does = "Every token, on its own, computes" if isinstance(instruction, Gate) else _reading(instruction.heads)
    held = listed(f"{name} ({program.channels[name].meaning})" for name in sorted(instruction.writes))
    cleared = [name for name in instruction.clear if name not in instruction.writes]
    last = f"; {listed(cleared)} {'is' if len(cleared) == 1 else 'are'} cleared" if cleared else ""
    return f"{does} {instruction.caption}. This writes {held}{last}."


def _reading(heads: tuple[Head, ...]) -> str:
    """Return which tokens read which, and their weights; several heads are only named."""
    if len(heads) > 1:
        return f"{len(heads)} heads ({', '.join(head.name for head in heads)}) work at once:"
    (head,) = heads
    plurals = {"aggregator": "the aggregator", "null": "the null token", "query": "queries"}
    sides = ([getattr(rule, side).value for rule in head.mask.rules] for side in ("reader", "source"))
    readers, sources = (listed(dict.fromkeys(plurals.get(role, f"{role}s") for role in roles)) for roles in sides)
    pairs = listed(left if left == right else f"{left} with {right}" for left, right, scale in head.scores if scale)
    weighted = f"weighted by {'the softmax' if head.kind == 'softmax' else 'products'} of {pairs}"
    verb = "reads" if readers.startswith("the ") and " and " not in readers else "read"
    reads = "read only themselves" if head.mask.own_only else f"{verb} {sources}"
    return f"{readers[0].upper()}{readers[1:]} {reads}, {weighted if head.scores else 'all with equal weight'}:"


def symbol(name: str, token: str = "i") -> str:
    r"""Return a channel as LaTeX, on one token.

    Example:
        >>> symbol("gamma"), symbol("u", "j"), symbol("inverse_s")
        ('\\gamma_i', 'u_j', '\\mathrm{inverse\\_s}_i')
    """
    plain = name if len(name) == 1 else r"\mathrm{" + name.replace("_", r"\_") + "}"
    return SYMBOLS.get(name, f"{plain}_@").replace("@", token)


def formulas(program: Program, instruction: Attend | Gate, fresh: frozenset[str]) -> list[str]:
    """Return the LaTeX lines of a sublayer, one a head or an assignment.

    Channels that are `fresh` hold an exact zero when it writes them, or are cleared by it: they are set, not added to.
    """
    if isinstance(instruction, Gate):
        return [
            rf"{symbol(target)} \leftarrow {_sum([_term(term, program) for term in terms])}"
            for target, terms in instruction.assignments
        ]
    lines = []
    for target in dict.fromkeys(to for head in instruction.heads for to, _, _ in head.values):
        carried = [] if target in fresh else [("+", symbol(target))]
        heads = [head for head in instruction.heads if any(to == target for to, _, _ in head.values)]
        parts = [_moved(head, target, program) for head in heads]
        lines.append(rf"{symbol(target)} \leftarrow {_sum(carried + parts)}")
    return lines


Signed = tuple[str, str]  # a sign and a LaTeX term


def _sum(terms: list[Signed]) -> str:
    first, *rest = terms
    return ("-" if first[0] == "-" else "") + first[1] + "".join(f" {sign} {text}" for sign, text in rest)


def _coefficient(value: float, program: Program) -> Signed:
    """Return a number as a sign and its name, its digits, or nothing where it is 1."""
    sign, size = ("-" if value < 0 else "+"), abs(value)
    if f"{size:.4g}" == "1":
        return sign, ""
    if size == program.constants.get("ridge"):
        return sign, r"\lambda\,"
    mantissa, _, exponent = f"{size:.4g}".partition("e")
    return sign, (rf"{mantissa}\cdot 10^{{{int(exponent)}}}" if exponent else mantissa) + r"\,"


def _term(term: Term, program: Program) -> Signed:
    sign, number = _coefficient(term.coefficient, program)
    if term.rectified:
        inside = _sum([_term(part, program) for part in term.rectified])
        return sign, rf"{number}\max\left(0,\ {inside}\right)"
    factors = [symbol(name) for name in term.factors if name != "one"]
    inner = len(factors) == 2 and all(program.channels[name].size == "features" for name in term.factors)
    above = (number + (r"^{\top}" if inner else r"\,").join(factors)).removesuffix(r"\,") or "1"
    return sign, above if term.divisor is None else rf"\frac{{{above}}}{{{symbol(term.divisor)}}}"


def _moved(head: Head, target: str, program: Program) -> Signed:
    """Return what one head adds to one channel: a sum over tokens, or the token's own."""
    own = head.mask.own_only
    token = "i" if own else "j"
    values = [
        (sign, (number + symbol(source, token)).removesuffix(r"\,1"))
        for to, source, scale in head.values
        if to == target
        for sign, number in (_coefficient(scale, program),)
    ]
    sign, value = values[0] if len(values) == 1 else ("+", rf"\left({_sum(values)}\right)")
    scores = _scores(head, token, program)
    if own and head.kind == "linear" and scores.startswith("-"):
        sign, scores = "-", scores[1:]
    if own:
        return sign, value if head.kind == "softmax" else _times(scores, value)
    over = rf"{{j\,\in\,\text{{{_sources(head.mask)}}}}}"
    if head.kind == "linear":
        return sign, rf"\sum_{over}" + _times(scores, value)
    if not head.scores:
        return sign, rf"\underset{over}{{\text{{mean}}}}\;{value}"
    return sign, rf"\sum_{over}\text{{softmax}}_j\left({scores}\right) {value}"


def _times(product: str, value: str) -> str:
    if product in ("", "1"):
        return value
    return product if value == "1" else rf"({product})\,{value}" if "+" in product else rf"{product}\,{value}"


def _scores(head: Head, token: str, program: Program) -> str:
    terms = []
    for left, right, scale in head.scores:
        if scale == 0:
            continue
        sign, number = _coefficient(scale, program)
        both = program.channels[left].size == "features"
        factors = [symbol(left, "i"), symbol(right, token)]
        shown = r"^{\top}".join(factors) if both else r"\,".join(f for f in factors if f != "1")
        terms.append((sign, (number + shown).removesuffix(r"\,") or "1"))
    return _sum(terms) if terms else ""


def _sources(mask: Mask) -> str:
    names = dict.fromkeys("own slot" if rule.relation == "own" else f"{rule.source.value}s" for rule in mask.rules)
    return ", ".join(name.replace("aggregators", "sink").replace("nulls", "null") for name in names)
