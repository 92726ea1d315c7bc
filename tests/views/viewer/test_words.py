"""Every sublayer has a place in the algorithm and a sentence."""

import pytest

from tests.views.viewer_models import MODELS, model_of, view_of


@pytest.mark.parametrize("name", MODELS)
def test_sentences_name_what_is_written_and_what_it_means(name):
    meanings = {channel.name: channel.meaning for channel in model_of(name).program.channels.values()}
    for sublayer in view_of(name).sublayers:
        assert sublayer.writes
        for written in sublayer.writes:
            assert f"{written} ({meanings[written]})" in sublayer.sentence


def test_titles_count_steps():
    titles = {sublayer.place: sublayer.title for sublayer in view_of("softmax cg").sublayers}
    assert titles["prelude.square residual"] == "Before the first step: square residual"
    assert titles["step 3.curvature"] == "CG step 3 of 3: curvature"
    last = view_of("softmax richardson").sublayers[-1]
    assert last.title == "After the last step: undo normalisation"


def sentence(name, place):
    return next(s for s in view_of(name).sublayers if s.place == place).sentence


def test_sentences_say_who_reads_whom():
    assert sentence("softmax cg, aggregator", "step 1.pool curvature").startswith("The aggregator reads supports, all ")
    assert sentence("linear cg", "step 1.move").startswith("Supports and queries read only themselves, weighed by")
    assert sentence("linear pcg", "step 1.turn").startswith("3 heads (beta p, new part, r'z) work at once: p = z")
    assert sentence("softmax cg", "step 1.step size").endswith("gamma (step size); s and w are cleared.")
