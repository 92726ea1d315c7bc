"""One gated sublayer, rewritten, laid out, lowered and run: what primitives do to numbers, without any model."""

from dataclasses import dataclass

import torch

from ridgeformer.compiler.layout import arrange, lives
from ridgeformer.compiler.lowering import lower_gate
from ridgeformer.language.program import Channel, Gate, Program
from ridgeformer.language.roles import SUPPORT, Tokens


@dataclass
class Outcome:
    channels: dict
    program: Program
    modules: list

    def __getitem__(self, name):
        return self.channels[name]


def run_gate(primitives, values, *, constants=None, clear="", share=True, **assignments):
    """Run one gated sublayer on channels with these values; channels that only the assignments name start at 0."""
    net = Program("one sublayer", "softmax", (SUPPORT,))
    net.constant("one", "the constant 1", on=(SUPPORT,))
    for name, value in (constants or {}).items():
        net.constant(name, "a constant, or 0", on=(SUPPORT,), value=value)
    for name in values:
        net.channels.setdefault(name, Channel(name, "one", "given", "targets", (SUPPORT,)))
    net.state({name: "computed" for name in assignments if name not in net.channels}, "one")
    net.gate("the gate", clear=clear, **assignments)
    program = primitives.rewrite(net)
    layout, alive = arrange(program, 1, 1, share=share), lives(program)
    given = torch.stack([*values.values()], dim=1)
    stream = torch.zeros(len(given), layout.width, dtype=given.dtype)
    stream[:, layout.columns["one"][0]] = 1.0
    for name, value in values.items():
        stream[:, layout.columns[name][0]] = value
    modules = []
    for position, gate in enumerate(program.prelude):
        assert isinstance(gate, Gate)
        empty = frozenset(name for name, life in alive.items() if life is not None and position in life.births)
        modules.append(lower_gate(gate, layout, empty, primitives, given.dtype))
        stream = modules[-1](stream, Tokens({SUPPORT: len(given)}))
    return Outcome({name: stream[:, columns[0]] for name, columns in layout.columns.items()}, program, modules)


def spread(generator, count=4000, decades=8.0, dtype=torch.float64):
    """Numbers of both signs, spread over many orders of magnitude."""
    exponents = torch.empty(count, dtype=torch.float64).uniform_(-decades, decades, generator=generator)
    return (torch.randn(count, generator=generator, dtype=torch.float64) * 10**exponents).to(dtype)
