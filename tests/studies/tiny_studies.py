"""Small studies for the tests; the module is importable wherever a task runs."""

import multiprocessing
import os
import signal
import time
from multiprocessing import forkserver

import torch

from ridgeformer import studies
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.studies import Preset, Result, Study, product


def draw(x, seed):
    """A little of everything whose last bits could depend on where it runs; a line in the log, if there is one."""
    if log := os.environ.get("TINY_LOG"):
        with open(log, "a") as file:
            file.write(f"{x} {seed}\n")
    time.sleep(float(os.environ.get("TINY_SLEEP", "0")))
    A = torch.from_numpy(numpy_generator(seed, "tiny").standard_normal((40, 40)))
    numbers = A.numpy()
    return {
        "trace": float(torch.linalg.inv(A @ A.T + torch.eye(40)).trace()),
        "sum": float(numbers.sum()),
        "product": float((numbers @ numbers).mean()),
        "x_squared": x * x,
    }


def slow(x, seed):
    time.sleep(0.15)
    return draw(x, seed)


def grumpy(x, seed):
    if x == 3:
        raise ValueError("three is not to my taste")
    return {"value": x}


def keep_tensors(x, seed):
    return Result({"value": x}, {"weights": torch.full((2,), float(x))})


def dawdle(x, seed):
    for _ in range(200 if x else 1):
        time.sleep(0.05)
    return {"value": x}


def sleep_deeply(x, seed):
    time.sleep(30 if x else 0)
    return {"value": x}


def hoard(x, seed):
    return {"value": float(torch.zeros(x << 20, dtype=torch.uint8).sum())}


def hoard_numbers(x, seed):
    return {"value": len(bytearray(x << 20))}


def die(x, seed):
    if x:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": x}


def study(function, values, seeds=1, **options):
    return Study(
        "tiny",
        1,
        "Small.",
        f"tests.studies.tiny_studies:{function}",
        {"quick": Preset(product(x=values), seeds)},
        **options,
    )


STUDY = study("draw", range(50), seeds=3)
GRUMPY = study("grumpy", range(6))


def run_here(store, log, sleep):
    """Run STUDY in this process, with a log of what was started."""
    os.environ |= {"TINY_LOG": str(log), "TINY_SLEEP": str(sleep)}
    studies.run(STUDY, store=store, preset="quick")


def claim_and_wait(store, ready):
    kept = studies.Store(store)
    kept.claim("one")
    ready.set()
    time.sleep(60)


def context():
    """Processes that start in milliseconds, from one server that has imported everything."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload([__name__, "ridgeformer.studies.runners", "distributed.nanny"])
    forkserver.ensure_running()
    return found
