/* Draws every figure of the page in its colours, follows the theme, and makes figures fit the sheet when printing. */
(() => {
  const PRINT_WIDTH = 680;
  const plots = [...document.querySelectorAll(".plotly-graph-div")];
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const [ink, card, line] = ["--ink", "--card", "--line"].map(name => style.getPropertyValue(name).trim());
    return { ink, card, line };
  };
  const dress = ({ ink, card, line }, axes) => {
    const look = { "font.color": ink, "hoverlabel.bgcolor": card, "hoverlabel.font.color": ink, "hoverlabel.bordercolor": line };
    for (const axis of axes) look[`${axis}.gridcolor`] = line;
    return look;
  };
  const axes = plot => Object.keys(plot.layout).filter(key => /^[xy]axis\d*$/.test(key));
  for (const plot of plots) {
    const { data, layout } = JSON.parse(plot.querySelector("script").textContent);
    plot.replaceChildren();
    plot.hidden = false;
    Plotly.newPlot(plot, data, layout, {
      displaylogo: false, responsive: true,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    });
  }
  const redress = () => plots.forEach(plot => Plotly.relayout(plot, dress(colours(), axes(plot))));
  redress();
  document.addEventListener("theme", redress);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redress);
  const paper = { ink: "#1c2330", card: "#ffffff", line: "#dfe2e8" };
  addEventListener("beforeprint", () => plots.forEach(plot =>
    Plotly.relayout(plot, { ...dress(paper, axes(plot)), autosize: false, width: PRINT_WIDTH })));
  addEventListener("afterprint", () => {
    plots.forEach(plot => Plotly.relayout(plot, { autosize: true, width: null }));
    redress();
  });
})();
