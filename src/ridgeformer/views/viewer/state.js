// The page has one state, and every panel draws itself from it.

const root = document.currentScript.closest(".trace-viewer");
const find = selector => root.querySelector(selector);
const engine = new Engine(JSON.parse(find(".tv-data").textContent));
const { data, sublayers, tokens } = engine;
const visible = tokens.map((_, i) => i).filter(i => tokens[i].visible);
const GROUPS = ["features", "state", "scratch", "constants"];
const FEW = 6; // features beyond this are drawn as thin stripes
const LETTERS = { alpha: "α", beta: "β", gamma: "γ", rho: "ρ", phi: "φ", eta: "η" };
const LISTED = 7; // terms of a sum that are shown one by one

const state = { time: 0, token: 0, channel: null, column: 0, output: 0, following: true, playing: null, shut: new Set(["constants"]) };

/** The width a picture has on the page, so that its letters keep their size. */
const room = node => Math.round(Math.max(260, node.parentNode.clientWidth - 2 * parseFloat(getComputedStyle(node.parentNode).paddingLeft)));

const columnOf = channel => channel.columns[channel.size === "outputs" ? state.output : 0];
const columnsOf = channel => (channel.size === "features" ? channel.columns : [columnOf(channel)]);
const channelName = (channel, column) => (channel.size === "features" ? `${channel.name} ${channel.columns.indexOf(column) + 1}` : channel.name);
