"""The explorer on a free port, and a page of it with all it asked for and complained of."""

from contextlib import contextmanager
from threading import Thread

from ridgeformer.app.server import open_server
from ridgeformer.app.state import State

COUNT_REQUESTS = """
window.busy = 0; window.lastBusy = performance.now();
const fetched = window.fetch;
window.fetch = async (...given) => {
  window.busy += 1;
  try { return await fetched(...given); } finally { window.busy -= 1; window.lastBusy = performance.now(); }
};
"""
SETTLED = "() => window.busy === 0 && performance.now() - window.lastBusy > 300"
READ = """(id) => document.querySelector(`#${id} .js-plotly-plot`)._fullData.map((trace) => ({
  name: trace.name, type: trace.type,
  x: Array.from(trace.x || []), y: Array.from(trace.y || []), z: Array.from(trace.z || [], (row) => Array.from(row)),
}))"""


class Explorer:
    """One page of the explorer and what happened on it."""

    def __init__(self, browser, base, **options):
        self.base, self.complaints, self.asked = base, [], []
        self.page = browser.new_context(**options).new_page()
        self.page.set_default_timeout(30_000)
        self.page.add_init_script(COUNT_REQUESTS)
        self.page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, address=""):
        self.page.goto(self.base + (f"?{address}" if address else ""))
        self.page.wait_for_selector("#attention .main-svg", state="attached")
        return self.settle()

    def settle(self):
        self.page.wait_for_function(SETTLED)
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
        self.page.wait_for_timeout(200)  # a slider waits for more keys
        return self.settle()

    def choose(self, control, label):
        chip = self.page.locator(f"#{control} label").filter(has=self.page.get_by_text(label, exact=True))
        chip.locator("input").click()
        return self.settle()

    def click_at(self, x, y):
        """Click into the curve at data coordinates."""
        place = self.page.evaluate(
            """([x, y]) => { const plot = document.querySelector("#prediction .js-plotly-plot");
            const box = plot.querySelector(".nsewdrag").getBoundingClientRect(), axes = plot._fullLayout;
            return [box.left + axes.xaxis.d2p(x), box.top + axes.yaxis.d2p(y)]; }""",
            [x, y],
        )
        self.page.mouse.click(*place)
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
