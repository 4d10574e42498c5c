"use strict";
// Puts the parts together: the step, the chosen tensor, links, keys and the theme.

class Page {
  constructor(tensors) {
    this.tensors = tensors;
    this.choose = this.choose.bind(this);
    this.panel = new TensorPanel(tensors, () => this.unchoose());
    this.profile = new Profile(tensors, this.choose);
    this.depth = new Depth(tensors, (row, kind) => this.narrowTo(row, kind));
    this.mesh = new MeshMap(tensors);
    for (const part of document.querySelectorAll(".drawn")) part.hidden = false;
    document.documentElement.classList.add("drawing");
    byId("mesh").hidden = !this.mesh.possible;
    this.table = new Table(tensors, this.choose);
    const steps = tensors.steps();
    fill(byId("step"), steps);
    byId("steps-label").hidden = steps.length < 2;
    const first = tensors.findings.find((finding) => finding.shown !== null);
    this.setStep(first ? tensors.raw.step[first.shown] : steps[0]);
    byId("step").addEventListener("change", () => this.setStep(Number(byId("step").value)));
    byId("band").addEventListener("change", () => this.profile.show(this.step, byId("band").value));
    this.makeCountsButtons();
    window.addEventListener("hashchange", () => this.follow());
    window.addEventListener("resize", () => this.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    window.addEventListener("beforeprint", () => {
      for (const part of document.querySelectorAll("details")) part.open = true;
      this.redraw();
    });
    window.addEventListener("afterprint", () => this.redraw());
    document.addEventListener("keydown", (event) => this.key(event));
    byId("theme").addEventListener("click", () => this.nextTheme());
    this.redraw();
    this.follow();
  }

  setStep(step) {
    this.step = step;
    byId("step").value = step;
    fill(byId("band"), [["", "whole step"], ...this.profile.bands(step)]);
    this.profile.show(step, "");
    this.depth.show(step);
  }

  redraw() {
    this.profile.draw();
    this.mesh.draw();
    this.table.paint(true);
  }

  // Shows a tensor everywhere, and makes it the page's address.
  choose(at) {
    if (this.tensors.raw.step[at] !== this.step) this.setStep(this.tensors.raw.step[at]);
    this.chosen = at;
    this.panel.show(at);
    this.profile.mark(at);
    this.table.mark(at);
    const hash = `#t=${encodeURIComponent(this.tensors.id(at)).replaceAll("%2F", "/")}`;
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }

  unchoose() {
    this.panel.hide();
    this.profile.mark(null);
    this.table.mark(undefined);
    // In the frame of a notebook the address is "about:srcdoc", which is no path.
    history.replaceState(null, "", location.href.split("#")[0]);
  }

  // Opens what the address names.
  follow() {
    let hash = location.hash.slice(1);
    try { hash = decodeURIComponent(hash); } catch { return; }
    for (const card of document.querySelectorAll("article.chosen")) card.classList.remove("chosen");
    if (hash.startsWith("finding-")) {
      const card = byId(hash);
      if (!card) return;
      card.classList.add("chosen");
      card.scrollIntoView({ block: "start" });
    } else if (hash.startsWith("t=")) {
      const at = this.tensors.find(hash.slice(2));
      if (at === undefined) return;
      this.choose(at);
      byId("profile").scrollIntoView({ block: "center" });
    }
  }

  narrowTo(row, kind) {
    this.table.narrow(row.layer === undefined ? { kind } : row.layer === null ? { kind, text: row.name } : { kind, layer: String(row.layer) });
    byId("tensors").scrollIntoView();
  }

  makeCountsButtons() {
    for (const item of document.querySelectorAll(".counts li")) {
      const { outcome } = item.dataset;
      const button = element("button", { type: "button", title: "show these in the table", onclick: () => { this.table.narrow({ outcome }); byId("tensors").scrollIntoView(); } });
      button.append(...item.childNodes);
      item.replaceChildren(button);
    }
  }

  // Goes to the next finding's card, or the one before.
  goFinding(move) {
    const cards = [...document.querySelectorAll("article")];
    if (cards.length === 0) return;
    const now = cards.findIndex((card) => card.classList.contains("chosen"));
    const next = cards[Math.max(0, Math.min(cards.length - 1, now < 0 ? (move > 0 ? 0 : cards.length - 1) : now + move))];
    location.hash = next.id;
    next.focus({ preventScroll: true });
    const { shown } = this.tensors.findings[cards.indexOf(next)];
    if (shown !== null) this.profile.mark(shown);
  }

  key(event) {
    if (event.key === "Escape") {
      if (!byId("tensor").hidden) this.unchoose();
      else if (event.target === byId("filter")) this.table.narrow({});
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "/") { event.preventDefault(); byId("filter").focus(); }
    if (event.key === "n") this.goFinding(1);
    if (event.key === "p") this.goFinding(-1);
  }

  nextTheme() {
    const themes = ["system", "light", "dark"];
    const root = document.documentElement;
    const next = themes[(themes.indexOf(root.dataset.theme ?? "system") + 1) % themes.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    byId("theme").textContent = `theme: ${next}`;
    this.redraw();
  }
}

inflated(byId("data")).then((raw) => {
  if (raw.name.length > 0) window.page = new Page(new Tensors(raw));
  document.documentElement.dataset.ready = "yes";
});
