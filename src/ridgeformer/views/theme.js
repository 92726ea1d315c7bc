/* Light, dark, or as the system has it: a button, remembered where the browser allows it. Runs before the first paint. */
const theme = {
  choices: ["auto", "light", "dark"],
  read() { try { return localStorage.getItem("ridgeformer-theme") || "auto"; } catch { return "auto"; } },
  keep(choice) { try { localStorage.setItem("ridgeformer-theme", choice); } catch { /* a page without storage */ } },
  show(choice) {
    if (choice === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    const button = document.getElementById("theme");
    if (!button) return;
    const next = this.choices[(this.choices.indexOf(choice) + 1) % this.choices.length];
    button.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[choice];
    button.setAttribute("aria-label", `Colours: ${choice}. Press for ${next}.`);
    button.onclick = () => { this.keep(next); this.show(next); document.dispatchEvent(new Event("theme")); };
    button.hidden = false;
  },
};
theme.show(theme.read());
document.addEventListener("DOMContentLoaded", () => theme.show(theme.read()));
