// Moving through the run: captions, buttons, keys, play, and the network run again in the page.

const caption = () => {
  const { time } = state, sublayer = sublayers[time - 1];
  find(".tv-title").textContent = sublayer ? sublayer.title : "The embedding: every token through the weights of its role";
  find(".tv-sentence").textContent = sublayer
    ? `Sublayer ${time} of ${sublayers.length}, ${sublayer.kind}. ${sublayer.sentence}`
    : "Supports carry their features and their target, queries their features only; constants mark the roles. Nothing has been computed yet.";
  find(".tv-formulas").innerHTML = sublayer ? sublayer.formulas.join("") : "";
  find(".tv-slider").value = time;
  find(".tv-slider").setAttribute("aria-valuetext", find(".tv-title").textContent);
  find(".tv-strip").childNodes.forEach((node, n) => { node.classList.toggle("tv-done", n < time); node.classList.toggle("tv-here", n === time - 1); });
};

const follow = () => {
  if (!state.following) return;
  const wrote = state.time ? sublayers[state.time - 1].writes : [];
  const channels = wrote.map(name => data.channels.find(channel => channel.name === name));
  const busy = channels.filter(channel => columnsOf(channel).some(column => engine.value(state.time, state.token, column) !== 0));
  const channel = busy[0] ?? channels[0];
  if (channel) Object.assign(state, { channel, column: columnsOf(channel)[0] });
};

const draw = ({ animate = true } = {}) => {
  root.classList.toggle("tv-quick", !animate); // nothing glides that did not happen
  follow();
  caption();
  grid.draw(animate);
  grid.arcs();
  number.draw();
  answer.draw(animate);
  attention.draw();
  circuit.draw();
  find(".tv-follow input").checked = state.following;
  Object.assign(root.dataset, { time: state.time, token: state.token, channel: state.channel.name, column: state.column });
};

const go = (time, options) => {
  state.time = Math.max(0, Math.min(sublayers.length, time));
  draw(options);
  if (state.time === sublayers.length) pause();
};

const pick = (token, channel, column, { follow: following = false } = {}) => {
  Object.assign(state, { token, channel, column, following });
  draw({ animate: false });
};

/** Go to where the number that stands in a cell at `time` was made. */
const jump = (token, column, time) => {
  const channel = engine.holder(time, column);
  if (!channel) return;
  pause();
  Object.assign(state, { token, channel, column, following: false });
  go(engine.written(time, token, column));
};

/** Go to a cell at a time. */
const land = (token, column, time) => {
  const channel = engine.holder(time, column) ?? state.channel;
  pause();
  Object.assign(state, { token, channel, column, following: false });
  go(time);
};

const pause = () => {
  clearInterval(state.playing);
  state.playing = null;
  const button = find(".tv-play");
  button.querySelector("span").textContent = "Play";
  button.setAttribute("aria-label", "Play");
  root.classList.remove("tv-playing");
  find(".tv-sentence").setAttribute("aria-live", "polite");
};

const play = () => {
  if (state.playing) return pause();
  if (state.time === sublayers.length) go(0);
  const button = find(".tv-play");
  button.querySelector("span").textContent = "Pause";
  button.setAttribute("aria-label", "Pause");
  root.classList.add("tv-playing");
  find(".tv-sentence").setAttribute("aria-live", "off"); // a reader cannot keep up with it
  state.playing = setInterval(() => go(state.time + 1), Number(find(".tv-speed").value));
};

/** Run the network again, here, for the targets and silenced heads of the moment. */
const relive = () => {
  const begin = performance.now();
  engine.rerun();
  find(".tv-live").hidden = false;
  const silent = engine.silenced.size ? `; silent: ${[...engine.silenced].join(", ")}` : "";
  find(".tv-live span").textContent = `Live: all ${sublayers.length} sublayers ran in this page in ${(performance.now() - begin).toFixed(0)} ms${silent}. The bound belongs to the recorded run.`;
  grid.scales.clear();
  answer.moved();
  draw({ animate: false });
};

const restore = () => {
  engine.reset();
  find(".tv-live").hidden = true;
  grid.scales.clear();
  answer.moved();
  draw({ animate: false });
};

/** The time at which the next step of the algorithm has ended, or the one before this. */
const section = way => {
  const ends = sublayers.map((_, n) => n + 1).filter(t => sublayers[t]?.place.split(".")[0] !== sublayers[t - 1].place.split(".")[0]);
  return way > 0 ? ends.find(t => t > state.time) ?? sublayers.length : ends.findLast(t => t < state.time) ?? 0;
};

const keys = event => {
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
  const cell = event.target.closest?.("td[data-token]");
  if (cell && walk(event, cell)) return;
  if (event.target.matches?.("select, input")) return;
  const stride = way => (event.shiftKey ? section(way) : state.time + way);
  const act = { ArrowLeft: () => go(stride(-1)), ArrowRight: () => go(stride(1)), Home: () => go(0), End: () => go(sublayers.length) }[event.key];
  const space = event.key === " " && !event.target.closest?.("button");
  if (!act && !space) return;
  event.preventDefault();
  if (space) return play();
  pause();
  act();
};

/** Arrow keys inside the grid move from cell to cell. */
const walk = (event, cell) => {
  const row = cell.parentNode, cells = [...row.querySelectorAll("td[data-token]")], place = cells.indexOf(cell);
  const next = {
    ArrowLeft: () => cells[place - 1],
    ArrowRight: () => cells[place + 1],
    ArrowUp: () => row.previousElementSibling?.querySelectorAll("td[data-token]")[place],
    ArrowDown: () => row.nextElementSibling?.querySelectorAll("td[data-token]")[place],
  }[event.key]?.();
  if (!next) return ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key);
  event.preventDefault();
  chooseCell(next);
  next.focus();
  return true;
};

const chooseCell = cell => {
  const channel = data.channels.find(one => one.name === cell.dataset.channel);
  pick(Number(cell.dataset.token), channel, Number(cell.dataset.column));
};

const listen = () => {
  const slider = find(".tv-slider");
  slider.max = sublayers.length;
  slider.addEventListener("input", () => { pause(); go(Number(slider.value)); });
  find(".tv-first").addEventListener("click", () => { pause(); go(0); });
  find(".tv-back").addEventListener("click", () => { pause(); go(state.time - 1); });
  find(".tv-next").addEventListener("click", () => { pause(); go(state.time + 1); });
  find(".tv-last").addEventListener("click", () => { pause(); go(sublayers.length); });
  find(".tv-play").addEventListener("click", play);
  find(".tv-speed").addEventListener("change", () => { if (state.playing) { pause(); play(); } });
  find(".tv-scale").addEventListener("change", () => draw({ animate: false }));
  find(".tv-reset").addEventListener("click", restore);
  find(".tv-follow input").addEventListener("change", event => { state.following = event.target.checked; draw({ animate: false }); });
  find(".tv-grid").addEventListener("click", event => { const cell = event.target.closest("td[data-token]"); if (cell) chooseCell(cell); });
  (document.body.hasAttribute("data-viewer") ? document : root).addEventListener("keydown", keys); // alone on its page, it needs no click first
  const output = find(".tv-output");
  for (let n = 0; n < engine.outputs; n++) output.append(html("option", { value: n }, String(n + 1)));
  find(".tv-output-label").hidden = engine.outputs === 1;
  output.addEventListener("change", () => {
    state.output = Number(output.value);
    state.column = columnsOf(state.channel)[0];
    answer.shown = null;
    rebuild();
  });
  find(".tv-strip").replaceChildren(...sublayers.map((sublayer, n) => {
    const section = place => place?.place.split(".")[0];
    const classes = [sublayer.kind === "attention" && "tv-attends", section(sublayer) !== section(sublayers[n - 1]) && n && "tv-new-step"].filter(Boolean).join(" ");
    return html("i", { class: classes || null, title: sublayer.title, on: { click: () => { pause(); go(n + 1); } } });
  }));
  new ResizeObserver(() => grid.arcs()).observe(find(".tv-sheet"));
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    answer.build();
    circuit.build();
    draw({ animate: false });
  }).observe(root);
};

const rebuild = () => {
  grid.build();
  answer.build();
  circuit.build();
  draw({ animate: false });
};

/** The whole run repeated from the weights alone, against what was recorded. */
const repeat = () => {
  const begin = performance.now();
  engine.rerun();
  const spent = performance.now() - begin, largest = values => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const gap = largest(engine.predictions.map((value, n) => value - engine.given.predictions[n])) / (largest(engine.given.predictions) || 1);
  engine.reset();
  root.dataset.gap = gap;
  find(".tv-repeat").textContent = `These numbers were computed by PyTorch. This page recomputed all ${sublayers.length} sublayers from the weights in ${spent.toFixed(0)} ms: predictions differ by at most ${show(gap, 2)} of the largest one. Keys: ← → one sublayer, with Shift one step, space plays, Home and End; inside the grid, arrows move from cell to cell.`;
};

if (data.channels.some(channel => channel.size === "features" && channel.columns.length > 40)) state.shut.add("features");
state.token = engine.places.support[Math.floor(engine.supports / 3)];
state.channel = data.channels.find(channel => channel.columns.includes(data.reading[0][0]) && channel.group !== "scratch") ?? data.channels[0];
state.column = columnOf(state.channel);
state.time = Number(root.dataset.start);
find(".tv-app").hidden = false;
listen();
repeat();
rebuild();
circuit.listen();
root.viewer = { engine, state, go, circuit, brief }; // for tests and the curious
