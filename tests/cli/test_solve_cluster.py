"""`ridgeformer solve` on a cluster: the local answer, and what it says when there is none."""

import json

import distributed
import pytest


def test_on_a_scheduler_by_its_address(run):
    ask = ("solve", "wine", "--ridge", "5", "--json")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", protocol="tcp", silence_logs=50
    ) as cluster:
        code, out, _ = run(*ask, "--scheduler", cluster.scheduler_address)
    there, here = json.loads(out), json.loads(run(*ask, "--algorithm", "direct")[1])
    assert (code, there["status"], there["algorithm"]) == (0, "converged", "mixed_pcg")
    assert there["held_out_score"] == pytest.approx(here["held_out_score"], abs=1e-8)


def test_workers_and_scheduler_are_two_ways(run):
    code, _, err = run("solve", "wine", "--workers", "2", "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "give one of them" in " ".join(err.split())
