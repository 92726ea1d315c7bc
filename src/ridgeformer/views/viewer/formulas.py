"""A sublayer's formula, made from the program's own expressions: nothing here knows an algorithm."""

from __future__ import annotations

from ridgeformer.language.expressions import Term
from ridgeformer.language.program import Attend, Gate, Head, Program
from ridgeformer.language.roles import Mask

__all__ = ["formulas", "symbol"]

SYMBOLS = {
    "phi": r"\varphi_@", "phi_reader": r"\varphi_@", "phi_source": r"\varphi_@", "alpha": r"\alpha_@",
    "beta": r"\beta_@", "gamma": r"\gamma_@", "rho": r"\rho_@", "eta": r"\eta_@", "one": "1", "minv": "m_@^{-1}",
}  # fmt: skip
"""Channels with a letter of their own in the theory; @ is the token."""


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

    Args:
        program: Whose constants have names.
        instruction: The sublayer.
        fresh: Channels that hold an exact zero when it writes them, or are cleared by it: they are set, not added to.
    """
    if isinstance(instruction, Gate):
        return [
            rf"{symbol(target)} \leftarrow {_sum([_term(term, program) for term in terms])}"
            for target, terms in instruction.assignments
        ]
    lines = []
    for target in dict.fromkeys(to for head in instruction.heads for to, _, _ in head.values):
        carried = [] if target in fresh else [("+", symbol(target))]
        parts = [_moved(head, target, program) for head in instruction.heads if target in _targets(head)]
        lines.append(rf"{symbol(target)} \leftarrow {_sum(carried + parts)}")
    return lines


def _targets(head: Head) -> set[str]:
    return {target for target, _, _ in head.values}


Signed = tuple[str, str]
"""A sign and a LaTeX term."""


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
    factors = [symbol(name) for name in term.factors if name != "one"]
    above = (number + r"\,".join(factors)).removesuffix(r"\,") or "1"
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
        sign, number = _coefficient(scale, program)
        both = program.channels[left].size == "features"
        factors = [symbol(left, "i"), symbol(right, token)]
        shown = r"^{\top}".join(factors) if both else r"\,".join(f for f in factors if f != "1")
        terms.append((sign, (number + shown).removesuffix(r"\,") or "1"))
    return _sum(terms) if terms else ""


def _sources(mask: Mask) -> str:
    names = dict.fromkeys("own slot" if rule.relation == "own" else f"{rule.source.value}s" for rule in mask.rules)
    return ", ".join(name.replace("aggregators", "sink").replace("nulls", "null") for name in names)
