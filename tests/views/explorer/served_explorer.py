"""The explorer on a free port, and a page of it with all it asked for and complained of."""

from contextlib import contextmanager
from threading import Thread

from playwright.sync_api import TimeoutError

from ridgeformer.views.explorer.server import open_server
from ridgeformer.views.explorer.state import State
from tests.real_browser import new_page

AWAITED = """() => {
  if (!window.dash_component_api || !document.querySelector("#pattern .main-svg")) return ["the page"];
  const props = (id) => window.dash_component_api.getLayout(id).props;
  const { stored, completed, ...queues } = window.store.getState().callbacks;
  const callbacks = Object.values(queues).flat().map((one) => `callback ${one.callback.output}`);
  const written = props("written").data !== undefined && props("written").data === props("state").data;
  const sliders = [...document.querySelectorAll("input[type=range]")];
  const moving = sliders.filter((one) => Math.abs(one.value - props(one.id).value) > 0.6 * one.step);
  const plots = [...document.querySelectorAll(".dash-graph")];
  const old = plots.filter((one) => one.querySelector(".js-plotly-plot")?.data !== props(one.id).figure?.data);
  const waiting = [...dash_clientside.explorer.waiting.keys()];
  return [...callbacks, ...(written ? [] : ["address"]), ...waiting, ...[...moving, ...old].map((one) => one.id)];
}"""
"""What of the page is not yet as Dash's state says; no clock is asked, so a slow machine only takes longer."""
EVENT = "() => JSON.stringify(window.dash_component_api.getLayout('event').props.data)"
READ = """(id) => document.querySelector(`#${id} .js-plotly-plot`)._fullData.map((trace) => ({
  name: trace.name, type: trace.type,
  x: Array.from(trace.x || []), y: Array.from(trace.y || []), z: Array.from(trace.z || [], (row) => Array.from(row)),
}))"""


class Explorer:
    """One page of the explorer and what happened on it."""

    def __init__(self, browser, base, **options):
        self.base, self.complaints, self.asked = base, [], []
        self.page = new_page(browser, **options)
        self.page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, address=""):
        self.page.goto(self.base + (f"?{address}" if address else ""))
        return self.settle()

    def settle(self):
        try:
            self.page.wait_for_function(f"() => ({AWAITED})().length === 0")
        except TimeoutError:
            awaited = self.page.evaluate(AWAITED)
            raise TimeoutError(f"the explorer did not settle; it waits for {awaited}") from None
        return self

    @property
    def state(self):
        return State.parse(self.page.evaluate("location.search"))

    def text(self, selector):
        return self.page.inner_text(selector)

    def traces(self, panel):
        return {trace["name"]: trace for trace in self.page.evaluate(READ, panel)}

    def press(self, control, key, times=1):
        self.page.focus(f"#{control}")
        for _ in range(times):
            self.page.keyboard.press(key)
        return self.settle()

    def choose(self, control, label):
        chip = self.page.locator(f"#{control} label").filter(has=self.page.get_by_text(label, exact=True))
        chip.locator("input").click()
        return self.settle()

    def click_at(self, x, y):
        """Click into the curve at data coordinates."""
        area = self.page.locator("#prediction .nsewdrag").first
        left, top = area.evaluate(
            """(area, [x, y]) => { const { xaxis, yaxis } = area.closest(".js-plotly-plot")._fullLayout;
            return [xaxis.d2p(x), yaxis.d2p(y)]; }""",
            [x, y],
        )
        area.click(position={"x": left, "y": top})
        return self.settle()

    def upload(self, name, raw):
        """Give a file; whether it is taken or refused, there is an event of it."""
        before = self.page.evaluate(EVENT)
        self.page.set_input_files(
            "#upload input[type=file]", {"name": name, "mimeType": "application/octet-stream", "buffer": raw}
        )
        self.page.wait_for_function(f"(before) => ({EVENT})() !== before", arg=before)
        return self.settle()


@contextmanager
def served():
    """Serve the explorer on a free port; yield its address."""
    server = open_server("127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
