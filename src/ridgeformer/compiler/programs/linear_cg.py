"""Linear attention, conjugate gradients on K = Phi Phi': plain, or with Jacobi's preconditioner."""

from __future__ import annotations

from ridgeformer.language.program import Program
from ridgeformer.language.roles import QUERY, SUPPORT, own

__all__ = ["linear_cg"]


def linear_cg(ridge: float, *, jacobi: bool = False) -> Program:
    """Return the program of (preconditioned) conjugate gradients in linear attention.

    Linear attention is trilinear, (q.k) v, so every product is native to it; only the two quotients take
    gated sublayers. Queries hold p = 0, and their r collects minus the prediction: it costs nothing.
    """
    net = Program("linear-attention conjugate gradients", "linear", (SUPPORT, QUERY), {"ridge": ridge})
    net.features("phi", "features", on=(SUPPORT, QUERY))
    net.constant("one", "the constant 1", on=(SUPPORT, QUERY))
    net.targets("r", "residual; on queries, minus the prediction")
    net.state({"alpha": "coefficients", "p": "search direction", "rho": "r'z"})
    net.state({"u": "A p; on queries, k(x)'p", "s": "p'A p", "gamma": "step size", "t": "r / rho"})
    z = "z" if jacobi else "r"
    if jacobi:
        net.state({"z": "preconditioned residual"})
        net.state({"m": "K_ii + ridge", "minv": "1 / (K_ii + ridge)"}, "one")
    _prelude(net, z, ridge, jacobi)
    net.begin_step()
    _step(net, z, ridge, jacobi)
    return net


def _prelude(net: Program, z: str, ridge: float, jacobi: bool) -> None:
    everyone, supports, itself = net.everyone_reads_itself(), net.everyone_reads_supports(), own(SUPPORT)
    if jacobi:
        square = net.head("diagonal", {("phi", "phi"): 1.0}, {"m": "one"}, everyone)
        shift = net.head("ridge", {("one", "one"): ridge}, {"m": "one"}, everyone)
        net.attend("diagonal", "m = phi.phi + ridge", square, shift)
        net.gate("invert diagonal", minv="one / m", clear="m")
        net.gate("precondition", z="minv * r")
    copy = net.head("first direction", {("one", "one"): 1.0}, {"p": z}, itself)
    square = net.head("r'z", {("one", "r"): 1.0}, {"rho": z}, supports)
    net.attend("start", f"p = {z}, rho = r'{z}", copy, square, clear="z" if jacobi else "")


def _step(net: Program, z: str, ridge: float, jacobi: bool) -> None:
    everyone, supports, itself = net.everyone_reads_itself(), net.everyone_reads_supports(), own(SUPPORT)
    product = net.head("kernel product", {("phi", "phi"): 1.0}, {"u": "p"}, supports)
    shift = net.head("ridge", {("one", "one"): ridge}, {"u": "p"}, everyone)
    net.attend("kernel product", "u = K p + ridge p", product, shift)

    net.attend("curvature", "s = p'u", net.head("p'u", {("one", "u"): 1.0}, {"s": "p"}, supports))
    net.gate("step size", gamma="rho / s", clear="s")
    net.record("gamma")

    move = net.head("move", {("gamma", "one"): 1.0}, {"alpha": "p", "r": ("u", -1.0)}, everyone)
    net.attend("move", "alpha += gamma p, r -= gamma u", move, clear="u gamma")
    net.record("alpha")
    net.record("r")
    net.record("f", "r", QUERY, -1.0)

    if jacobi:
        net.gate("precondition", z="minv * r", t="r / rho", clear="rho")
    else:
        net.gate("scale", t="r / rho", clear="rho")
    turn = net.head("beta p", {("p", "t"): 1.0}, {"p": z}, supports)
    copy = net.head("new part", {("one", "one"): 1.0}, {"p": z}, itself)
    square = net.head("r'z", {("one", "r"): 1.0}, {"rho": z}, supports)
    scratch = "p t z" if jacobi else "p t"
    net.attend("turn", f"p = {z} + (t'{z}) p, rho = r'{z}", turn, copy, square, clear=scratch)
    net.record("p")
    net.record("rho")
