"""The fragment: small, self-contained, and safe whatever the data are called."""

import base64
import json
import re

import numpy as np
import pytest

from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.views.viewer import render_viewer, trace_view, view_data, write_viewer
from tests.views.viewer_models import MODELS, TASK, model_of, view_of

EVIL = '</script><script>alert("1")</script><b>&'


def embedded(html):
    return json.loads(re.search(r'<script type="application/json" class="tv-data">(.*?)</script>', html, re.S)[1])


def unpacked(text, *shape):
    return np.frombuffer(base64.b64decode(text), "<f8").reshape(shape)


@pytest.mark.parametrize("name", MODELS)
def test_the_data_replay_to_the_stream(name):
    view = view_of(name)
    data = json.loads(json.dumps(view_data(view)))
    tokens = len(view.tokens)
    state = unpacked(data["stream"], tokens, data["width"]).copy()
    assert np.array_equal(state, view.stream[0])
    for row, after in zip(data["sublayers"]["rows"], view.stream[1:], strict=True):
        state[:, row["columns"]] = unpacked(row["values"], tokens, len(row["columns"]))
        assert np.array_equal(state, after)
    assert np.array_equal(unpacked(data["predictions"], *view.predictions.shape), view.predictions)


@pytest.mark.parametrize("name", MODELS)
def test_a_fragment_is_below_a_megabyte_and_asks_nobody(name):
    html = render_viewer(view_of(name))
    assert len(html.encode()) < 1_000_000
    addresses = set(re.findall(r"https?://[\w./]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    assert not re.search(r"@import|url\((?!#)|\bsrc=|<link", html.replace("url(#${id})", ""))


def test_words_are_kept_once():
    data = view_data(view_of("softmax cg"))["sublayers"]
    first, again = (next(r for r in data["rows"] if r["place"] == f"step {n}.curvature") for n in (2, 3))
    assert [first[key] for key in ("sentence", "formulas", "alive")] == [
        again[key] for key in ("sentence", "formulas", "alive")
    ]
    assert data["kept"][first["sentence"]].startswith("Every token, on its own, computes w = p * u.")


def test_names_cannot_break_out():
    labels = [EVIL, *(f"row {i}" for i in range(1, 9))]
    view = trace_view(model_of("softmax cg"), TASK.X, TASK.y, TASK.Xq, name=EVIL, labels=labels)
    html = render_viewer(view)
    assert EVIL not in html
    assert html.count("</script>") == render_viewer(view_of("softmax cg")).count("</script>")
    data = embedded(html)
    assert (data["name"], data["tokens"][0]["label"]) == (EVIL, EVIL)


def test_paper_has_the_last_state():
    view = view_of("softmax cg")
    html = render_viewer(view)
    (alpha,) = next(channel.columns for channel in view.channels if channel.name == "alpha")
    assert f"<td>{view.stream[-1, 0, alpha]:.4g}</td>" in html[html.index('class="tv-paper"') :]


def test_a_whole_page_is_written(tmp_path):
    path = write_viewer(view_of("linear cg"), tmp_path / "deep" / "trace.html", start=2)
    text = path.read_text()
    assert text.startswith("<!doctype html>")
    assert 'data-start="2"' in text
    (tmp_path / "file").write_text("")
    with pytest.raises(RidgeformerError, match="choose another place"):
        write_viewer(view_of("linear cg"), tmp_path / "file" / "trace.html")


def test_start_must_be_a_sublayer():
    last = len(view_of("linear cg").sublayers)
    assert f'data-start="{last}"' in render_viewer(view_of("linear cg"), start=last)
    with pytest.raises(InputError, match=f"the run has {last} sublayers"):
        render_viewer(view_of("linear cg"), start=last + 1)
