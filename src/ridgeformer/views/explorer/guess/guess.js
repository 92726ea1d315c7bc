// The game in the browser: it draws, drags and asks; every number is the server's.

const find = id => document.getElementById(id);
const game = { round: 1, rounds: 0, right: 0, x: [], y: [], first: [], suspect: null, answered: false, chosen: 0, curve: null };
const HEIGHT = 330;

async function ask(what, given = {}) {
  const reply = await fetch(`guess/${what}?${new URLSearchParams({ round: game.round, ...given })}`);
  const found = await reply.json();
  find("refusal").hidden = reply.ok;
  if (!reply.ok) {
    find("refusal").textContent = found.refused;
    throw new Error(found.refused);
  }
  return found;
}

/** Ask for the curve; while one answer is on its way, only the last change waits. */
let busy = false, again = false;
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const given = { x: game.x.join(), y: game.y.join() };
    if (game.suspect) given.suspect = game.suspect;
    game.curve = await ask("curve", given);
    draw();
  } finally {
    busy = false;
    if (again) { again = false; refresh(); }
  }
}

function draw() {
  const { curve } = game, low = Math.min(-2, ...game.y), high = Math.max(2, ...game.y);
  const size = { width: Math.max(260, find("plot").clientWidth), height: HEIGHT, left: 34, bottom: 24 };
  const frame = new Frame(find("plot"), size, [-1, 1], [low - 0.15, high + 0.15], {});
  game.frame = frame;
  frame.line(curve.grid.map((x, i) => [x, curve.model[i]]), { class: "model-line" });
  if (curve.suspect && game.suspect) frame.line(curve.grid.map((x, i) => [x, curve.suspect[i]]), { class: "suspect-line" });
  game.x.forEach((x, i) => {
    const at = { cx: frame.x(x), cy: frame.y(game.y[i]) };
    frame.body.append(svg("circle", { ...at, r: 5, class: i === game.chosen ? "point chosen" : "point" }), svg("circle", { ...at, r: 14, class: "hit", "data-point": i }));
  });
  find("height").value = game.y[game.chosen];
  find("which").value = game.chosen;
}

function place(i, y) {
  game.chosen = i;
  game.y[i] = Math.round(Math.max(-2, Math.min(2, y)) * 1000) / 1000;
  draw();
  refresh();
}

async function start(round) {
  Object.assign(game, { round, suspect: null, answered: false, chosen: 0 });
  const { x, y } = await ask("points");
  Object.assign(game, { x, y, first: [...y] });
  find("round").textContent = `round ${round}`;
  find("answer").hidden = true;
  find("overlaid").textContent = "a suspect, once you test one";
  find("which").replaceChildren(...x.map((_, i) => html("option", { value: i }, String(i + 1))));
  for (const node of document.querySelectorAll("output")) { node.textContent = ""; node.className = ""; }
  for (const node of document.querySelectorAll(".bar i")) node.style.width = "0";
  for (const node of document.querySelectorAll(".accuse")) node.disabled = false;
  history.replaceState(null, "", round === 1 ? location.pathname : `?round=${round}`);
  await refresh();
}

async function working(button, work) {
  button.setAttribute("aria-busy", "true");
  try { await work(); } finally { button.removeAttribute("aria-busy"); }
}

const tested = button => working(button, async () => {
  const { value, says } = await ask("symmetry", { name: button.dataset.test });
  const node = button.parentNode.querySelector("output");
  node.textContent = says;
  node.className = value === null ? "" : value <= 0.02 ? "holds" : "fails";
});

const fitted = button => working(button, async () => {
  const name = button.dataset.fit, row = button.parentNode, { title, error, says } = await ask("suspect", { name });
  row.querySelector("output").textContent = `${title}: ${says}`;
  row.querySelector(".bar i").style.width = `${Math.min(100, 100 * error)}%`;
  game.suspect = name;
  find("overlaid").textContent = title;
  await refresh();
});

const accuse = button => working(button, async () => {
  const found = await ask("answer", { guess: button.dataset.guess }), node = find("answer");
  if (!game.answered) { game.rounds += 1; game.right += found.right ? 1 : 0; game.answered = true; }
  for (const name of ["headline", "hidden", "verdict", "lesson"]) find(name).textContent = found[name];
  node.className = `card answer ${found.right ? "right" : "wrong"}`;
  node.hidden = false;
  node.scrollIntoView({ block: "nearest", behavior: still() ? "auto" : "smooth" });
  find("score").textContent = `${game.right} of ${game.rounds} right.`;
});

document.addEventListener("click", event => {
  const button = event.target.closest("button");
  if (!button || button.getAttribute("aria-busy")) return;
  if (button.dataset.test) tested(button);
  else if (button.dataset.fit) fitted(button);
  else if (button.dataset.guess) accuse(button);
  else if (button.id === "next") start(game.round + 1).then(() => scrollTo({ top: 0 }));
  else if (button.id === "reset") { game.y = [...game.first]; refresh(); }
});
find("which").addEventListener("change", event => { game.chosen = Number(event.target.value); draw(); });
find("height").addEventListener("input", event => place(game.chosen, Number(event.target.value)));

let dragged = null;
find("plot").addEventListener("pointerdown", event => {
  const hit = event.target.closest(".hit");
  if (!hit) return;
  dragged = Number(hit.dataset.point);
  find("plot").setPointerCapture(event.pointerId);
  event.preventDefault();
});
find("plot").addEventListener("pointermove", event => {
  if (dragged === null) return;
  const box = find("plot").getBoundingClientRect();
  place(dragged, game.frame.inverse((event.clientY - box.top) * HEIGHT / box.height));
});
for (const name of ["pointerup", "pointercancel"]) find("plot").addEventListener(name, () => { dragged = null; });

addEventListener("resize", () => { if (game.curve) draw(); });

const wanted = Number(new URLSearchParams(location.search).get("round"));
start(Number.isInteger(wanted) && wanted > 0 ? wanted : 1);
