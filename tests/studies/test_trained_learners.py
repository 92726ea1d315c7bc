"""Trained networks: checkpoints are kept, the weights are read rightly, claims say only what was run."""

import pytest
import torch

from ridgeformer.identification.adapters import QueryLast
from ridgeformer.studies import STUDIES, Store, run, trained_networks
from ridgeformer.studies.reexamined_claims import CLAIMS
from ridgeformer.studies.trained_networks import (
    FEATURES,
    FRACTIONS,
    LinearAttentionNetwork,
    SoftmaxNetwork,
    covariance,
    draw_tasks,
    preconditioners,
    train,
)


def test_step_sizes_are_read_from_the_weights():
    network = LinearAttentionNetwork(2, FEATURES, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for A, size in zip(network.A, (0.5, 1.2), strict=True):
            A.copy_(size * torch.linalg.inv(covariance(10.0)))
    sizes, apart = preconditioners(network, 10.0)
    assert sizes == pytest.approx([0.5, 1.2])
    assert apart < 1e-12


def test_queries_of_a_softmax_network_do_not_see_each_other():
    network = SoftmaxNetwork(2, FEATURES, mlp=True, norm=True, seed=0)
    group = draw_tasks("softmax", 10.0, 3, torch.Generator().manual_seed(1))
    pairs = torch.cat([group.X, group.y[..., None]], -1)
    tokens = torch.cat([pairs, torch.nn.functional.pad(group.Xq, (0, 1))], 1).float()
    with torch.no_grad():
        together = network(tokens, 8)[:, -8:].double()
    assert torch.allclose(together, QueryLast(network)(group.X, group.y, group.Xq), atol=1e-5)


def test_draws_of_a_process_have_its_variance():
    group = draw_tasks("process", 1.0, 400, torch.Generator().manual_seed(1))
    assert float(group.truth.square().mean()) == pytest.approx(1.0, abs=0.1)


def test_training_goes_on_from_checkpoint_to_checkpoint(monkeypatch):
    monkeypatch.setattr(trained_networks, "ROUNDS", 20)
    stages = list(train("linear", 1, False, False, 10.0, 200, 0))
    assert [fraction for fraction, _ in stages] == list(FRACTIONS)
    group = draw_tasks("linear", 10.0, 100, torch.Generator().manual_seed(2))
    errors = [float((QueryLast(network)(group.X, group.y, group.Xq) - group.truth).square().mean())
              for _, network in stages]  # fmt: skip
    assert errors[-1] <= errors[0]


def row(**values):
    return {"network": "linear", "layers": 2, "condition": 10.0, "identified": "gd_covariance-2/k", "reason": None,
            "best": "gd_covariance-2/k", "from_covariance": 0.02, **values}  # fmt: skip


def test_claims_are_confirmed_only_by_an_answer_and_silent_where_nothing_was_trained():
    preconditioned = next(claim for claim in CLAIMS if claim.source == "Ahn2023")
    networks, ours, null, says, verdict = preconditioned.examine([row(), row()], [row(from_covariance=0.9)] * 2)
    assert (networks, ours, null) == (2, "0.020 (0.020 to 0.020)", "0.900 (0.900 to 0.900)")
    assert says == "2 of 2 named so"
    assert verdict == "confirmed by the predictions"
    failed = row(identified="", reason="NEAR", best="ridge")
    assert preconditioned.examine([failed], [failed])[-2:] == (
        "0 of 1 named so; else no answer, nearest ridge", "not confirmed"
    )  # fmt: skip
    assert all(claim.examine([], [])[-1].startswith("not yet run: ridgeformer reproduce") for claim in CLAIMS)
    wrong_depth = row(identified="gd_covariance-1/k")
    assert preconditioned.examine([wrong_depth], [wrong_depth])[-1] == "not confirmed"


@pytest.mark.slow
def test_the_smoke_preset_runs_and_keeps_its_checkpoints(tmp_path):
    report = run("identify-trained", store=tmp_path / "store.db", preset="smoke")
    assert report.computed == 2
    with Store(tmp_path / "store.db") as store:
        study = STUDIES["identify-trained"]
        for result in store.results(study.name, study.version):
            kept = store.tensors(result)
            assert {name.partition(".")[0] for name in kept} >= {"0", "1"}
