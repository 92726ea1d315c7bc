"""The adversary: promises of ridgeformer tried on random and hostile cases against exact arithmetic.

`python -m hostile` (or `make hostile`) runs it; each kind of attack is one file with an `attack(tally, index, seed)`
that tries one case. A case is determined by (seed, index) alone, so any failure can be replayed.
"""
