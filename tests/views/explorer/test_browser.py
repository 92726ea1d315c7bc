"""The explorer in a real browser: every control, good and bad files, and its numbers beside the library's."""

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.words import number
from ridgeformer.views.explorer import compute, panels
from ridgeformer.views.explorer.compute import look
from ridgeformer.views.explorer.controls import PRESETS
from ridgeformer.views.explorer.data import load_regression
from ridgeformer.views.explorer.state import DRAWN, State
from tests.accessibility import violations
from tests.real_browser import chromium, needs_chromium
from tests.views.explorer.served_explorer import Explorer, served

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def explorer():
    with served() as base, chromium() as browser:
        yield Explorer(browser, base, viewport={"width": 1400, "height": 1000}).open()


@pytest.fixture(autouse=True)
def _quiet_and_at_home(explorer):
    explorer.complaints.clear()
    yield
    assert explorer.complaints == []
    strangers = [url for url in explorer.asked if not url.startswith((explorer.base, "data:", "blob:"))]
    assert strangers == []


def the_librarys(state):
    """The three predictions by public calls that the explorer does not make."""
    task = load_regression(state)
    kernel = rf.kernels.DotProduct() if state.attention == "linear" else rf.kernels.Exponential(state.temperature)
    algorithm = rf.algorithms.ConjugateGradients(steps=state.steps)
    model = rf.compile(kernel, algorithm, features=task.X.shape[1], ridge=state.ridge)
    head = rf.NadarayaWatsonRegressor(state.temperature).fit(task.X.numpy(), task.y.numpy())
    found = {
        "compiled transformer": model(task.X, task.y, task.Xq),
        "exact kernel ridge": rf.solve(kernel, task.X, task.y, ridge=state.ridge).predict(task.Xq),
        "one softmax head": head.predict(task.Xq.numpy()),
    }
    return {name: np.asarray(values) + task.mean for name, values in found.items()}


def same_numbers(explorer):
    state = explorer.state
    shown = explorer.traces("prediction")
    for name, values in the_librarys(state).items():
        assert np.allclose(shown[name]["y"], values, atol=1e-9), name
    found = compute.run(state)
    assert explorer.text("#fact-distance") == number(found.distance(found.predicted))
    assert np.allclose(explorer.traces("convergence")["relative error"]["y"], found.errors, rtol=1e-12)
    assert np.allclose(explorer.traces("convergence")["bound"]["y"], found.bound, rtol=1e-12)
    spectrum = compute.spectrum(state)
    assert explorer.traces("spectrum")["effective dimension"]["x"] == [spectrum.d_eff] * 2
    assert explorer.text("#headline") == panels.describe_headline(state)
    assert explorer.text("#convergence-says") == panels.PANELS["convergence"](state)[1]


def test_it_opens_with_every_panel_and_the_librarys_numbers(explorer):
    assert explorer.page.title() == "ridgeformer explore"
    assert explorer.state == State()
    assert explorer.page.locator(".js-plotly-plot .main-svg").count() >= 6
    same_numbers(explorer)


SLIDERS = {
    "steps": ("ArrowRight", {"steps": 9}),
    "rows": ("ArrowLeft", {"rows": 23}),
    "ridge": ("ArrowRight", {"ridge": 0.112}),
    "temperature": ("ArrowRight", {"temperature": 0.562}),
    "width": ("ArrowLeft", {"width": 19}),
    "sublayer": ("ArrowRight", {"sublayer": 5}),
}


def test_everyone_can_use_it(explorer):
    explorer.open("steps=7&point=17")
    assert violations(explorer.page) == []
    explorer.open("steps=7&attention=vanilla&algorithm=richardson")  # choices that were made anew keep their roles
    assert violations(explorer.page) == []


def test_every_slider_moves_its_part_by_keyboard(explorer):
    explorer.open()
    expected = vars(State())
    for name, (key, change) in SLIDERS.items():
        explorer.press(name, key)
        expected = expected | change
        assert explorer.state == State(**expected), name
    assert explorer.text("#stream-place").startswith(look(explorer.state).title)


CHIPS = [
    ("algorithm", "richardson", {"algorithm": "richardson"}),
    ("algorithm", "nesterov", {"algorithm": "nesterov"}),
    ("kernel", "gaussian", {"kernel": "gaussian"}),
    ("kernel", "dot product", {"kernel": "dot_product", "attention": "linear"}),
    ("algorithm", "pcg", {"algorithm": "pcg"}),
    ("attention", "imitation", {"attention": "imitation", "algorithm": "cg"}),
    ("kernel", "exponential", {"kernel": "exponential", "attention": "softmax"}),
    ("attention", "vanilla", {"attention": "vanilla", "algorithm": "richardson"}),
    ("head", "update queries", {"head": 2}),
    ("sketch", "orthogonal", {"sketch": "orthogonal"}),
    ("data", "bumps", {"data": "bumps", "width": None}),
]


def test_every_choice_chooses(explorer):
    explorer.open("width=13&sublayer=1")
    expected = vars(State(width=13, sublayer=1))
    for control, label, change in CHIPS:
        explorer.choose(control, label)
        expected = expected | change
        assert explorer.state == State(**expected), (control, label)
    assert explorer.page.locator("#algorithm input:disabled").count() == 7


def test_numbers_stay_the_librarys_after_changes(explorer):
    explorer.open("data=wine&temperature=13&rows=80&steps=6&output=1")
    explorer.choose("output", "class_2").press("ridge", "ArrowRight", times=4)
    assert explorer.state.output == 2
    same_numbers(explorer)
    explorer.open("attention=linear&ridge=0.01")
    same_numbers(explorer)


def test_stream_and_attention_are_the_librarys(explorer):
    explorer.open("steps=3&sublayer=4")
    view = look(explorer.state)
    shown = explorer.traces("stream")
    for name, columns in view.channels:
        assert np.array_equal(shown[name]["z"], view.values[:, columns]), name
    assert np.array_equal(explorer.traces("pattern")["attention"]["z"], look(explorer.state).weights)
    assert explorer.text("#stream-formula") == view.formula


def test_a_click_asks_about_a_point_and_shows_the_fit_without_it(explorer):
    explorer.open()
    task = load_regression(State())
    explorer.click_at(task.x[6], task.targets[6])
    state = explorer.state
    assert state == State(point=6)
    keep = [i for i in range(24) if i != 6]
    refit = rf.solve(rf.kernels.Exponential(0.5), task.X[keep], task.y[keep], ridge=0.1).predict(task.Xq) + task.mean
    assert np.allclose(explorer.traces("prediction")["exact, without the point"]["y"], refit, atol=1e-8)
    assert "Without point 6" in explorer.text("#influence-says")
    explorer.click_at(task.x[6], task.targets[6])
    assert explorer.state == State()


def test_clicks_and_numbers_draw_points(explorer):
    explorer.open("data=drawn&points=-0.5,0;0.5,0.5")
    explorer.click_at(0.1, 0.3)
    assert explorer.state.data == DRAWN
    assert np.allclose(explorer.state.points[1], (0.1, 0.3), atol=0.02)
    explorer.page.fill("#draw-x", "-0.8")
    explorer.page.fill("#draw-y", "0.4")
    explorer.page.click("#add")
    explorer.settle()
    assert explorer.state.points[0] == (-0.8, 0.4)
    same_numbers(explorer)
    explorer.page.fill("#point", "1")
    explorer.page.press("#point", "Enter")
    explorer.settle().page.click("#remove")
    explorer.settle()
    assert [x for x, _ in explorer.state.points] == [-0.8, explorer.state.points[1][0], 0.5]


def test_a_held_out_point_can_be_asked_about(explorer):
    explorer.open("data=diabetes&temperature=10&ridge=1&rows=60")
    found = compute.run(explorer.state)
    explorer.click_at(found.task.truth[4], found.predicted[4])
    assert explorer.state.point is not None
    assert f"Held-out point {explorer.state.point} is predicted" in explorer.text("#influence-says")


def test_two_settings_stand_side_by_side(explorer):
    explorer.open("steps=3")
    assert not explorer.page.is_visible("#kept")
    explorer.page.click("#keep")
    explorer.settle().press("steps", "ArrowRight", times=6)
    assert explorer.state == State(steps=9, against="steps=3")
    assert np.allclose(explorer.traces("kept")["compiled transformer"]["y"], compute.run(State(steps=3)).predicted)
    left, right = (explorer.page.locator(f"#{name}").bounding_box() for name in ("prediction", "kept"))
    assert right["x"] > left["x"] + left["width"]
    assert abs(right["y"] - left["y"]) < 1
    assert violations(explorer.page) == []
    explorer.page.click("#drop")
    assert explorer.settle().state == State(steps=9)
    assert not explorer.page.is_visible("#kept")


def test_the_images_behind_a_digit_are_above_the_fold(explorer):
    explorer.open("data=digits&rows=100&output=3&ridge=1&steps=16&point=28")
    boxes = [image.bounding_box() for image in explorer.page.locator("#pictures img").all()]
    assert len(boxes) == 7
    assert all(box["y"] + box["height"] < 800 for box in boxes)


def test_good_files_are_shown_and_bad_ones_refused(explorer, tmp_path):
    explorer.open()
    rows = np.random.default_rng(0).normal(size=(40, 3))
    explorer.upload("table.csv", ("a,b,y\n" + "\n".join(",".join(map(str, row)) for row in rows)).encode())
    assert explorer.state.data.startswith("upload-")
    same_numbers(explorer)
    first = explorer.state
    np.savez(tmp_path / "line.npz", X=np.linspace(0, 5, 30)[:, None], y=np.sin(np.linspace(0, 5, 30)))
    explorer.upload("line.npz", (tmp_path / "line.npz").read_bytes())
    assert load_regression(explorer.state).line
    for name, raw, said in (
        ("bad.csv", b"a,y\n1,2,3\n4,5\n", "bad.csv"),
        ("empty.npz", b"", "empty.npz is empty"),
        ("notes.txt", b"hello", ".csv or .npz was expected"),
        ("big.csv", b"0" * (5 * 1024 * 1024 + 1), "at most 5 MB"),
    ):
        before = explorer.state
        explorer.upload(name, raw)
        assert said in explorer.text("#refusal"), name
        assert explorer.state == before
        assert before != first


def test_what_the_library_refuses_is_said_in_its_words(explorer):
    explorer.open("algorithm=neumann")
    assert explorer.text("#headline").startswith("The Neumann series needs")
    explorer.choose("algorithm", "cg")
    assert explorer.state == State()
    same_numbers(explorer)


@pytest.mark.parametrize("address", ["steps=many", "data=titanic", "colour=red", "data=upload-0123456789abcdef"])
def test_a_bad_address_is_a_sentence(explorer, address):
    explorer.open(address)
    said = explorer.text("#refusal") if "upload" not in address else explorer.text("#headline")
    assert said.endswith(".")
    assert len(said) > 20


def test_an_address_shows_the_same_page_again(explorer):
    explorer.open()
    explorer.page.get_by_role("button", name="Too narrow").click()
    explorer.settle()
    assert explorer.state == PRESETS["Too narrow"]
    before = explorer.traces("prediction")
    explorer.open(explorer.state.address)
    assert explorer.traces("prediction") == before


def test_play_walks_through_the_sublayers(explorer):
    explorer.open("steps=1&sublayer=10")
    explorer.page.click("#play")
    explorer.page.wait_for_function("() => document.getElementById('play').textContent === 'Play'")
    explorer.settle()
    assert explorer.state.sublayer == look(explorer.state).last


def test_the_certificate_is_shown(explorer):
    explorer.open("steps=1&rows=6")
    explorer.page.click("#certify")
    explorer.page.wait_for_function("() => document.querySelector('#certificate .alarm')")
    assert explorer.page.text_content("#certificate .alarm").startswith("Not shown to be accurate")
    explorer.open("steps=20&rows=6")
    explorer.page.click("#certify")
    explorer.page.wait_for_function("() => document.querySelector('#certificate .proved')")
    assert explorer.page.text_content("#certificate .proved").startswith("Proved within")


def test_a_phone_and_a_dark_room(explorer):
    browser = explorer.page.context.browser
    phone = Explorer(browser, explorer.base, viewport={"width": 400, "height": 800}, color_scheme="dark").open()
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert phone.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 26)"
    widths = {round(panel.bounding_box()["width"]) for panel in phone.page.locator(".panel:not(.unused)").all()}
    assert widths == {round(phone.page.locator(".columns").bounding_box()["width"])}
    assert not phone.page.is_visible("#steps")
    phone.page.click("summary >> text=Settings")
    assert phone.page.is_visible("#steps")
    assert phone.complaints == []
    phone.page.context.close()
