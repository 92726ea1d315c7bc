"""The trace viewer in a real browser: it plays, it answers to keys, and its numbers are the model's."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.views.viewer import trace_view, write_viewer
from tests.accessibility import violations
from tests.compiler.tasks import compiled
from tests.real_browser import chromium, needs_chromium, new_page
from tests.views.viewer_models import MODELS, TASK, cache_of, model_of, view_of

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


class Viewer:
    """A page with a viewer on it, and everything it complained about or asked the world for."""

    def __init__(self, page, path):
        self.page, self.complaints, self.requests = page, [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def state(self, name):
        return self.page.locator(".trace-viewer").get_attribute(f"data-{name}")

    @property
    def time(self):
        return int(self.state("time"))

    def go(self, time):
        self.page.locator(".trace-viewer").evaluate("(root, time) => root.viewer.go(time)", time)

    def run(self, script, *arguments):
        return self.page.locator(".trace-viewer").evaluate(script, *arguments)

    def choose(self, token, channel):
        self.page.locator(f'.tv-grid td[data-token="{token}"][data-channel="{channel}"]').first.click()

    def part(self, name):
        return self.page.locator(f'.tv-total [data-part="{name}"]')

    def number(self, name):
        return float(self.part(name).get_attribute("data-value"))

    def products(self):
        return [float(item.get_attribute("data-product")) for item in self.page.locator("[data-product]").all()]


@pytest.fixture
def open_viewer(browser, tmp_path):
    viewers = []

    def open_(view, start=0, **options):
        page = new_page(browser, **{"viewport": {"width": 1400, "height": 1000}, **options})
        viewers.append(Viewer(page, write_viewer(view, tmp_path / f"{len(viewers)}.html", start=start)))
        return viewers[-1]

    yield open_
    complaints = [complaint for viewer in viewers for complaint in viewer.complaints]
    requests = [url for viewer in viewers for url in viewer.requests if not url.startswith(("file:", "data:"))]
    for viewer in viewers:
        viewer.page.context.close()
    assert (complaints, requests) == ([], [])


def column_of(view, channel):
    return next(one.columns[0] for one in view.channels if one.name == channel)


def place_of(view, place):
    return 1 + [sublayer.place for sublayer in view.sublayers].index(place)


def shown(value):
    """Return a number as the page writes it."""
    if value == 0:
        return "0"
    if abs(value) >= 1e4 or abs(value) < 1e-3:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        text = np.format_float_positional(float(f"{value:.4g}"), trim="-")
    return text.replace("-", "\N{MINUS SIGN}")


def test_play_slider_buttons_and_keys(open_viewer):
    view = view_of("softmax cg")
    viewer = open_viewer(view)
    page = viewer.page
    assert viewer.time == 0
    page.select_option(".tv-speed", "320")
    page.click(".tv-play")
    assert page.locator(".tv-play").get_attribute("aria-label") == "Pause"
    page.wait_for_function("document.querySelector('.trace-viewer').dataset.time >= 3")
    page.click(".tv-play")
    stopped = viewer.time
    page.wait_for_timeout(500)
    assert viewer.time == stopped
    page.click(".tv-next")
    assert viewer.time == stopped + 1
    page.click(".tv-first")
    page.locator(".tv-slider").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert viewer.time == 2
    page.locator(".tv-last").focus()
    for key, time in (("ArrowLeft", 1), ("Shift+ArrowRight", 3), ("End", len(view.sublayers)), ("Home", 0)):
        page.keyboard.press(key)
        assert viewer.time == time
    page.locator(".tv-strip i").nth(6).click()
    assert viewer.time == 7
    assert page.locator(".tv-title").inner_text() == view.sublayers[6].title
    assert view.sublayers[6].sentence in page.locator(".tv-sentence").inner_text()
    assert page.locator(".tv-formulas math").count() == len(view.sublayers[6].formulas)


def test_keys_work_without_a_click(open_viewer):
    viewer = open_viewer(view_of("linear cg"))
    for key, time in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", len(view_of("linear cg").sublayers)),
    ):
        viewer.page.keyboard.press(key)
        assert viewer.time == time


WIRES = """root => root.viewer.circuit.wires().map(({ reads, writes }) => [reads, writes])"""


@pytest.mark.parametrize("name", ["softmax cg", "linear pcg", "vanilla", "linear swiglu", "program"])
def test_the_circuit_is_that_of_the_program(open_viewer, name):
    """Lines and crossings are read from the weights; the program says what they should be."""
    model = rf.compile(rf.programs.ista(steps=2), features=2) if name == "program" else model_of(name)
    view = trace_view(model, TASK.X, TASK.y, TASK.Xq) if name == "program" else view_of(name)
    viewer = open_viewer(view)
    channels = [channel.name for channel in view.channels]
    constants = {channel.name for channel in view.channels if channel.group == "constants"}  # they serve as biases
    found = viewer.run(WIRES)
    assert len(found) == len(view.sublayers)
    for (reads, writes), (_, instruction, _) in zip(found, model.sublayers, strict=True):
        assert {channels[row] for row in writes} == instruction.writes | set(instruction.clear)
        known = instruction.reads | instruction.writes | set(instruction.clear) | constants
        assert {channels[row] for row in reads} <= known


def test_the_circuit_zooms_from_the_whole_run_to_one_number(open_viewer):
    view = view_of("softmax cg")
    narrow = {"width": 600, "height": 900}
    viewer = open_viewer(view, start=place_of(view, "step 2.kernel product"), viewport=narrow)
    lines = viewer.page.locator(".tv-circuit-lines")
    assert lines.bounding_box()["width"] <= viewer.page.locator(".tv-circuit-scroll").bounding_box()["width"]
    assert viewer.page.locator(".tv-circuit-values text").count() == 0
    for _ in range(3):
        viewer.page.click(".tv-circuit-in")
    assert viewer.page.locator(".tv-circuit-values text").count() > 3
    time, column = viewer.time, column_of(view, "o")
    texts = viewer.page.locator(".tv-circuit-values text").all_text_contents()
    assert viewer.run("(root, [t, c]) => root.viewer.brief(root.viewer.engine.value(t, root.viewer.state.token, c))",
                      [time, column]) in texts  # fmt: skip
    viewer.page.click(".tv-circuit-all")
    box = lines.bounding_box()
    row = [channel.name for channel in view.channels].index("r")
    goal = place_of(view, "step 3.move")
    pitch = box["width"] / len(view.sublayers)
    lines.click(position={"x": (goal - 0.5) * pitch, "y": (row + 0.5) * 17})
    assert (viewer.time, viewer.state("channel")) == (goal, "r")


OVERLAPS = """() => {
  const nodes = (selector) => [...document.querySelectorAll(selector)];
  const boxes = (selector) => nodes(selector).map(node => node.getBoundingClientRect()).filter(box => box.width);
  const beside = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1;
  const apart = (a, b) => beside(a, b) || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
  const labels = boxes(".tv-matrix text"), cells = boxes(".tv-matrix rect[data-source]");
  const pairs = labels.flatMap((one, i) => [...labels.slice(i + 1), ...cells].filter(other => !apart(one, other)));
  const names = boxes(".tv-grid tbody th"), values = boxes(".tv-grid tbody td");
  return [labels.length, pairs.length + names.flatMap(name => values.filter(value => !apart(name, value))).length];
}"""


@pytest.mark.parametrize(("name", "place"), [("vanilla", "step 5.descend"), ("softmax cg", "step 2.kernel product")])
def test_labels_cover_neither_each_other_nor_a_token(open_viewer, name, place):
    viewer = open_viewer(view_of(name), start=place_of(view_of(name), place))
    labels, overlaps = viewer.page.evaluate(OVERLAPS)
    assert labels > 2
    assert overlaps == 0


@pytest.mark.parametrize(("route", "target"), [("vanilla", "albert"), ("cg", "t5")])
def test_an_export_is_shown_from_its_own_hidden_states(open_viewer, route, target):
    options = {"attention": "vanilla", "steps": 4} if route == "vanilla" else {"primitives": "swiglu", "steps": 1}
    model = compiled(**{"attention": "softmax", "features": 2, "ridge": 5.0, "temperature": 0.25, **options})
    exported = rf.export.to_hf(model, target)
    view = trace_view(exported, TASK.X, TASK.y, TASK.Xq, at=TASK.at)
    [answers] = exported(TASK.X, TASK.y, TASK.Xq)
    assert np.array_equal(view.predictions[-1], answers)
    last, column = exported.hidden_states(TASK.X, TASK.y, TASK.Xq)[-1], column_of(view, "alpha")
    assert np.array_equal(view.stream[-1][:, column], exported.io.channel("alpha", last)[0, :, 0])
    assert type(exported.model).__name__ in view.subject
    viewer = open_viewer(view, start=3)
    assert "(layer" in viewer.page.locator(".tv-title").inner_text()
    writes = [found[1] for found in viewer.run(WIRES)]
    assert len(writes) == len(view.sublayers)
    assert all(writes)


def test_an_edited_export_shows_what_the_class_computes():
    model = compiled("vanilla", features=2, ridge=5.0, steps=4, temperature=0.25)
    exported = rf.export.to_hf(model, "bert")
    before = trace_view(exported, TASK.X, TASK.y, TASK.Xq)
    with torch.no_grad():
        exported.model.encoder.layer[-1].attention.output.dense.weight.mul_(1.5)
    after = trace_view(exported, TASK.X, TASK.y, TASK.Xq)
    assert not after.holds
    assert np.abs(after.predictions[-1] - before.predictions[-1]).max() > 1e-3


def test_a_failed_certificate_is_red_and_says_so(open_viewer):
    model = compiled("softmax", features=2, ridge=0.01, steps=1, temperature=0.25)
    view = trace_view(model, TASK.X, TASK.y, TASK.Xq)
    assert not view.holds
    viewer = open_viewer(view)
    verdict = viewer.page.locator(".tv-verdict")
    assert verdict.evaluate("node => getComputedStyle(node).color") == "rgb(181, 40, 30)"
    assert verdict.inner_text().replace("\xa0", " ") == view.verdict


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}])
def test_everyone_can_use_it(open_viewer, options):
    viewer = open_viewer(view_of("softmax cg"), start=6, **options)
    assert violations(viewer.page) == []


def test_playing_to_the_end_stops_there(open_viewer):
    view = view_of("linear cg")
    viewer = open_viewer(view, start=len(view.sublayers) - 1)
    viewer.page.select_option(".tv-speed", "320")
    viewer.page.click(".tv-play")
    viewer.page.wait_for_function("document.querySelector('.tv-play').getAttribute('aria-label') === 'Play'")
    assert viewer.time == len(view.sublayers)


@pytest.mark.parametrize(
    ("name", "place", "channel"),
    [
        ("softmax cg", "step 2.kernel product", "o"),
        ("softmax cg", "step 2.undo normalisation", "u"),
        ("softmax cg", "step 3.move", "r"),
        ("linear pcg", "step 2.turn", "p"),
        ("vanilla", "step 5.descend", "alpha"),
        ("imitation", "step 2.kernel product", "o"),
    ],
)
def test_the_arithmetic_of_a_cell_adds_up(open_viewer, name, place, channel):
    view = view_of(name)
    time, token, column = place_of(view, place), 4, column_of(view, channel)
    viewer = open_viewer(view, start=time)
    viewer.choose(token, channel)
    before, after = view.stream[time - 1, token, column], view.stream[time, token, column]
    assert (viewer.number("before"), viewer.number("after")) == (before, after)
    assert viewer.part("after").inner_text() == shown(after)
    products = viewer.products()
    small = 1e-13 * sum(map(abs, products))
    assert sum(products) == pytest.approx(viewer.number("written"), abs=small)
    assert before + sum(products) == pytest.approx(after, abs=small)


def test_attention_shows_the_pattern_of_the_cache(open_viewer):
    for name, place in (("softmax cg", "step 2.kernel product"), ("linear cg", "step 2.turn")):
        view, (_, cache) = view_of(name), cache_of(name)
        viewer = open_viewer(view, start=place_of(view, place))
        heads = [key for key in cache if key.startswith(f"{place}.pattern.") and not key.endswith(".clear")]
        matrices = viewer.page.locator(".tv-matrix").all()
        assert len(matrices) == len(heads)
        for matrix, key in zip(matrices, heads, strict=True):
            cells = matrix.evaluate(
                "node => [...node.querySelectorAll('rect[data-source]')].map(cell => [+cell.parentNode.dataset.token, "
                "+cell.dataset.source, +cell.dataset.value])"
            )
            assert cells
            for reader, source, value in cells:
                assert value == pytest.approx(float(cache[key][reader, source]), rel=1e-12, abs=1e-300)


def test_a_term_leads_to_where_its_number_was_made(open_viewer):
    view = view_of("softmax cg")
    time = place_of(view, "step 2.undo normalisation")
    viewer = open_viewer(view, start=time)
    viewer.choose(4, "u")
    viewer.page.get_by_role("button", name="o", exact=True).click()
    assert (viewer.state("channel"), viewer.time) == ("o", place_of(view, "step 2.kernel product"))
    largest = viewer.page.locator("button.tv-term").first
    source = largest.locator("span").first.inner_text()
    largest.click()
    assert source == f"{view.tokens[int(viewer.state('token'))].label} · {viewer.state('channel')}"
    assert viewer.time == place_of(view, "step 1.turn")
    assert viewer.page.locator(".tv-grid td.tv-chosen").count() == 1


def test_cells_are_reached_by_keys_and_rows_of_attention_light_up(open_viewer):
    view = view_of("softmax cg")
    viewer = open_viewer(view, start=place_of(view, "step 1.kernel product"))
    viewer.choose(2, "p")
    viewer.page.keyboard.press("ArrowDown")
    viewer.page.keyboard.press("ArrowLeft")
    assert (viewer.state("token"), viewer.state("channel")) == ("3", "r")
    assert viewer.time == place_of(view, "step 1.kernel product")
    viewer.page.locator('.tv-matrix g[data-token="5"]').focus()
    assert viewer.page.locator(".tv-grid tr.tv-reader th").inner_text() == view.tokens[5].label
    assert viewer.page.locator(".tv-grid tr.tv-source").count() >= 2
    assert viewer.page.locator(".tv-weight").inner_text().startswith(f"{view.tokens[5].label} reads ")


def test_error_and_bound_are_those_of_the_certificate(open_viewer):
    view = view_of("softmax cg")
    viewer = open_viewer(view, start=len(view.sublayers))
    found = viewer.run("root => [...root.viewer.engine.given.bound]")
    assert np.array_equal(np.reshape(found, view.bound.shape), view.bound)
    note = viewer.page.locator(".tv-error-note").inner_text()
    assert f"{view.errors[-1, 0]:.3g}" in note
    assert f"{view.bound[-1].max():.3g}" in note


@pytest.mark.parametrize("name", MODELS)
def test_every_route_opens_and_its_run_is_repeated_from_the_weights(open_viewer, name):
    view = view_of(name)
    viewer = open_viewer(view, start=len(view.sublayers) // 2)
    viewer.go(len(view.sublayers))
    assert viewer.time == len(view.sublayers)
    rounding = 1e-4 if "float32" in name else 1e-6 if name == "imitation" else 1e-9
    assert float(viewer.state("gap")) < rounding


def test_a_moved_target_gives_what_the_model_gives(open_viewer):
    viewer = open_viewer(view_of("softmax cg"))
    point = viewer.page.locator(".tv-point").nth(3)
    point.focus()
    for _ in range(4):
        viewer.page.keyboard.press("ArrowUp")
    targets = torch.tensor(viewer.run("root => [...root.viewer.engine.targets]"), dtype=torch.float64)
    assert bool(targets[3] > TASK.y[3])
    found = viewer.run("root => [...root.viewer.engine.predictions].slice(-11)")
    assert np.allclose(found, model_of("softmax cg")(TASK.X, targets, TASK.Xq), atol=1e-10)
    assert viewer.page.locator(".tv-live").is_visible()
    viewer.page.click(".tv-reset")
    assert viewer.page.locator(".tv-live").is_hidden()
    assert np.array_equal(viewer.run("root => [...root.viewer.engine.targets]"), TASK.y)


def test_a_silenced_head_is_the_models_ablation(open_viewer):
    view = view_of("softmax cg")
    viewer = open_viewer(view, start=place_of(view, "step 1.kernel product"))
    viewer.page.locator(".tv-head-card input").check()
    found = viewer.run("root => [...root.viewer.engine.predictions].slice(-11)")
    with model_of("softmax cg").ablated("kernel product") as ablated:
        assert np.allclose(found, ablated(TASK.X, TASK.y, TASK.Xq), atol=1e-10)


def test_data_that_are_no_line_and_several_outputs(open_viewer):
    model = compiled("softmax", features=2, outputs=2, ridge=5.0, steps=2, temperature=0.25)
    view = trace_view(model, TASK.X, torch.stack([TASK.y, -2 * TASK.y], 1), TASK.Xq, name="<b>two</b>")
    viewer = open_viewer(view, start=len(view.sublayers))
    viewer.page.select_option(".tv-output", index=1)
    viewer.choose(1, "alpha")
    column = next(channel.columns[1] for channel in view.channels if channel.name == "alpha")
    assert viewer.number("value") == view.stream[-1, 1, column]
    assert viewer.page.locator(".tv-subject b").inner_text() == "<b>two</b>"


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"reduced_motion": "reduce"}])
def test_dark_and_still(open_viewer, options):
    viewer = open_viewer(view_of("softmax cg"), start=6, **options)
    ink = viewer.run("root => getComputedStyle(root).color")
    assert ink == ("rgb(231, 234, 240)" if "color_scheme" in options else "rgb(28, 35, 48)")
    step = "root => { root.querySelector('.tv-next').click(); return root.getAnimations({ subtree: true }).length; }"
    moving = viewer.run(step)  # at once: a glide is soon over
    assert (moving == 0) == ("reduced_motion" in options)


def test_a_phone_needs_no_sideways_scrolling(open_viewer):
    viewer = open_viewer(view_of("vanilla"), start=4, viewport={"width": 360, "height": 740})
    assert viewer.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_paper_shows_the_last_state(open_viewer):
    viewer = open_viewer(view_of("softmax cg"))
    assert viewer.page.locator(".tv-paper").is_hidden()
    viewer.page.emulate_media(media="print")
    assert viewer.page.locator(".tv-paper table").is_visible()
    assert viewer.page.locator(".tv-app").is_hidden()


def test_without_scripts_there_is_the_table(open_viewer):
    viewer = open_viewer(view_of("softmax cg"), java_script_enabled=False)
    assert viewer.page.locator(".tv-paper table").is_visible()
