// What needs the browser: clicks into the curve, the address, files that are too large. No framework, no request.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  explorer: {
    write(state) {
      if (state !== undefined && state !== null) {
        history.replaceState(null, "", state ? "?" + state : location.pathname);
      }
      return [state, ""];
    },

    // Plots in sight are drawn at once; the others one at a time, whenever the browser has nothing better to do.
    waiting: new Map(),
    draw(figures) {
      const { waiting } = dash_clientside.explorer;
      for (const [name, figure] of Object.entries(figures || {})) waiting.set(name, figure);
      const one = (name) => {
        dash_clientside.set_props(name, { figure: waiting.get(name) });
        waiting.delete(name);
      };
      const idle = (next) => { // not every browser says when it has time
        if (window.requestIdleCallback) requestIdleCallback(next, { timeout: 500 });
        else setTimeout(next, 30);
      };
      const inSight = (name) => {
        const box = document.getElementById(name).getBoundingClientRect();
        return box.bottom > 0 && box.top < innerHeight;
      };
      [...waiting.keys()].filter(inSight).forEach(one);
      const rest = () => {
        const name = [...waiting.keys()].sort((a, b) => inSight(b) - inSight(a))[0];
        if (name === undefined) return;
        one(name);
        idle(rest);
      };
      idle(rest);
    },
  },
});

(() => {
  const NEAR = 14; // pixels within which a click means a point
  const MOST_BYTES = 5 * 1024 * 1024;
  const tell = (data) => dash_clientside.set_props("event", { data: { ...data, at: Date.now() } });

  function nearest(plot, left, top) {
    const { xaxis, yaxis } = plot._fullLayout;
    let best = null;
    for (const trace of plot._fullData) {
      if (trace.meta !== "pick") continue;
      for (let i = 0; i < trace.x.length; i += 1) {
        const distance = Math.hypot(xaxis.d2p(trace.x[i]) - left, yaxis.d2p(trace.y[i]) - top);
        if (distance <= NEAR && (best === null || distance < best.distance)) best = { point: i, distance };
      }
    }
    return best;
  }

  document.addEventListener("click", (event) => {
    const plot = event.target.closest("#prediction .js-plotly-plot");
    const area = plot && plot.querySelector(".nsewdrag");
    if (!area || event.target.closest(".legend")) return;
    const box = area.getBoundingClientRect();
    const left = event.clientX - box.left;
    const top = event.clientY - box.top;
    if (left < 0 || top < 0 || left > box.width || top > box.height) return;
    const { xaxis, yaxis } = plot._fullLayout;
    const hit = nearest(plot, left, top);
    if (hit) tell({ point: hit.point });
    else if (plot._fullLayout.meta === "draw") tell({ x: xaxis.p2d(left), y: yaxis.p2d(top) });
  }, true);

  // While a slider is dragged, only where it rests counts; when it is let go of, that counts at once.
  const REST = 120; // milliseconds
  let resting = null;
  document.addEventListener("input", (event) => {
    if (event.target.type !== "range" || event.rested) return;
    event.stopImmediatePropagation();
    clearTimeout(resting);
    resting = setTimeout(() => {
      event.target.dispatchEvent(Object.assign(new Event("input", { bubbles: true }), { rested: true }));
    }, REST);
  }, true);

  const tooLarge = (event, files) => {
    const large = [...(files || [])].find((file) => file.size > MOST_BYTES);
    if (!large) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    tell({ refused: `${large.name} has ${(large.size / 1024 / 1024).toFixed(1)} MB; at most 5 MB are accepted here.` });
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("#upload input[type=file]")) tooLarge(event, event.target.files);
  }, true);
  document.addEventListener("drop", (event) => {
    if (event.target.closest("#upload")) tooLarge(event, event.dataTransfer && event.dataTransfer.files);
  }, true);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("#copy-link");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy the address bar";
    }
    setTimeout(() => { button.textContent = "Copy link"; }, 1600);
  });

  // Play: one sublayer after the other, until the last or until it is stopped.
  let timer = null;
  const stop = (button) => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("#play");
    if (!button) return;
    if (timer !== null) { stop(button); return; }
    button.textContent = "Pause";
    timer = setInterval(() => {
      const slider = document.getElementById("sublayer");
      const next = Number(slider.value) + 1;
      if (next > Number(slider.max)) { stop(button); return; }
      dash_clientside.set_props("sublayer", { value: next });
    }, 500);
  });

  // On a narrow screen the settings start closed: the picture comes first.
  const fold = () => {
    const settings = document.getElementById("settings");
    if (!settings) { requestAnimationFrame(fold); return; }
    if (matchMedia("(max-width: 60rem)").matches) settings.removeAttribute("open");
  };
  fold();
})();

// Dash calls its radio buttons options of a list box, around inputs of their own: a screen reader is told twice, and
// neither has a name. The inputs say it all; what stands around them is a group that its legend names.
(() => {
  const plain = () => {
    for (const list of document.querySelectorAll('.chips[role="listbox"]')) {
      list.setAttribute("role", "group");
      list.setAttribute("aria-label", list.closest("fieldset")?.querySelector("legend")?.textContent ?? list.id);
      list.removeAttribute("aria-multiselectable");
    }
    for (const option of document.querySelectorAll(".chips [role='option'], .chips label[aria-selected]")) {
      option.removeAttribute("role");
      option.removeAttribute("aria-selected");
    }
  };
  new MutationObserver(plain).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ["role", "aria-selected"] });
})();
