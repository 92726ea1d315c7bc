"""`ridgeformer identify`: a factory of one's own, a page, and models that cannot be loaded."""

import json
from pathlib import Path

FACTORY = """
import numpy as np


def factory():
    def mean(X, y, Xq):
        return np.full(len(Xq), float(y.mean()))

    return mean


number = 3
"""

FEW = ("--features", 2, "--candidates", "mean,ols,knn", "--no-controls")


def test_a_factory_is_identified_and_its_page_is_written(run):
    Path("mymodel.py").write_text(FACTORY)
    code, out, err = run("identify", "mymodel:factory", *FEW, "--json", "--html", "page.html")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["identified"][0]["key"] == "mean"
    assert "the mean of the targets" in found["answer"][0]
    page = Path("page.html").read_text()
    assert "Which algorithm does this model run?" in page
    assert "The error of each family" in page


def test_the_answer_is_printed_in_words(run):
    Path("mymodel.py").write_text(FACTORY)
    code, out, _ = run("identify", "mymodel:factory", *FEW)
    assert code == 0
    assert "its predictions are those of the mean of the targets" in " ".join(out.split())


def test_what_is_no_model_is_refused(run):
    Path("mymodel.py").write_text(FACTORY)
    code, _, err = run("identify", "mymodel:number", *FEW)
    assert code == 2
    assert "a function without arguments" in err
    code, _, err = run("identify", "nowhere", *FEW)
    assert code == 2
    assert "neither module:factory nor the directory" in err
