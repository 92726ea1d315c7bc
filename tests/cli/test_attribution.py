import json

import numpy as np

from ridgeformer import datasets


def test_words_page_json_and_a_missing_array(tmp_path, run):
    data = datasets.load("digits", limit=140)
    X, y = datasets.unit_rows(data.X), data.y
    np.savez(tmp_path / "s.npz", scores=X[:110] @ X[110:].T)
    np.savez(tmp_path / "f.npz", train=X[:110], query=X[110:])
    np.savez(tmp_path / "l.npz", train=y[:110], query=y[110:])
    files = {"--features": tmp_path / "f.npz", "--labels": tmp_path / "l.npz"}
    options = [word for pair in files.items() for word in pair]
    words = ["attribution", "score", tmp_path / "s.npz", *options, "--subsets", "20", "--ridge", "0.5"]
    code, out, _ = run(*words, "--html", str(tmp_path / "page.html"))
    assert code == 0
    assert "rank correlation with exact refits" in out
    assert (tmp_path / "page.html").exists()
    code, out, _ = run(*words, "--json")
    assert json.loads(out)["methods"][1]["name"] == "exact leave-one-out"
    np.savez(tmp_path / "l.npz", labels=y)
    code, _, err = run(*words)
    assert code == 2
    assert "has no array 'train'" in err
