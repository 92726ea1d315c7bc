import json

from ridgeformer import datasets
from ridgeformer.auditing import audit
from ridgeformer.auditing.audit import STAGES
from tests.auditing.small_audits import SMALL, small_audit


def test_same_seed_same_numbers_and_progress_names_every_stage_once():
    seen = []
    again = audit(datasets.load("wine"), SMALL, progress=lambda *said: seen.append(said))
    one, other = small_audit("wine").as_dict(), again.as_dict()
    for record in (one, other):
        record.pop("seconds")
        for part in (*record["fits"], *record["regime"]["answers"]):
            part.pop("seconds")
    assert one == other
    assert [said[:2] for said in seen] == [(step, len(STAGES)) for step in range(len(STAGES) + 1)]
    assert [said[2] for said in seen] == [*STAGES, "done"]


def test_as_dict_is_plain_json_with_every_part():
    record = json.loads(json.dumps(small_audit("wine").as_dict()))
    assert record["data"]["name"] == "wine"
    assert set(record["seconds"]) == set(STAGES)
    assert record["versions"]["torch"]
    assert len(record["answer"]) == 5
    assert len(record["regime"]["answers"]) == 2 * len(SMALL.regime_widths) * SMALL.repeats
    assert len(record["influence"]["helpful"]) == SMALL.points
    assert record["malleability"]["moved"] == 3
    assert {row["claim"] for row in record["claims"]["rows"]} >= {"W4", "B2"}


def test_the_dataset_as_given_is_kept():
    digits = small_audit("digits")
    assert digits.data.dataset.n > len(digits.data.rows) + len(digits.data.rows_t) == SMALL.max_rows
