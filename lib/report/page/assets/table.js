"use strict";
// All tensors as a table: of ten thousand rows only those in sight are elements.

const ROW = 26;  // pixels, as in the style
const COLUMNS = [
  ["name", "tensor"], ["kind", "kind"], ["step", "step", true], ["microbatch", "mb", true], ["outcome", "outcome"],
  ["used", "used", true], ["error", "error", true], ["eps", "ε", true], ["allowed", "allowed", true], ["shape", "shape"], ["dtype", "dtype"],
];
const TEXTS = ["name", "kind", "outcome", "shape", "dtype"];

class Table {
  constructor(tensors, choose) {
    this.tensors = tensors;
    this.choose = choose;
    this.sorting = { column: "used", down: true };
    this.layerRow = null;
    this.host = byId("rows");
    this.space = element("div", { class: "space", role: "rowgroup" });
    this.head = element("div", { class: "line head", role: "row" }, ...COLUMNS.map(([column, label, number]) =>
      element("div", { role: "columnheader", class: number ? "number" : null, "data-column": column },
        element("button", { type: "button", onclick: () => this.sort(column) }, label))));
    this.host.replaceChildren(this.head, this.space);
    this.host.setAttribute("aria-colcount", COLUMNS.length);
    this.host.addEventListener("scroll", () => this.paint());
    this.host.addEventListener("keydown", (event) => this.key(event));
    this.space.addEventListener("click", (event) => {
      const line = event.target.closest(".line");
      if (line) this.choose(Number(line.dataset.at));
    });
    const names = (column) => [...new Set(tensors.raw[column])].map((i) => tensors.raw.texts[i]).sort();
    fill(byId("filter-kind"), [["", "all"], ...names("kind").map((kind) => [kind, words(kind)])]);
    fill(byId("filter-outcome"), [["", "all"], ["!", "all that is wrong"], ...names("outcome").map((outcome) => [outcome, words(outcome)])]);
    const layers = [...new Set(tensors.raw.layer)].filter((layer) => layer !== null).sort((a, b) => a - b);
    fill(byId("filter-layer"), [["", "all"], ...layers, ["-", "outside layers"]]);
    byId("filter").addEventListener("input", () => this.filter());
    for (const id of ["filter-kind", "filter-outcome", "filter-layer"]) byId(id).addEventListener("change", () => this.filter());
    this.filter();
  }

  // Filters by these values, and leaves the others free.
  narrow({ text = "", kind = "", outcome = "", layer = "" }) {
    byId("filter").value = text;
    byId("filter-kind").value = kind;
    byId("filter-outcome").value = outcome;
    byId("filter-layer").value = layer;
    this.filter();
  }

  filter() {
    const wanted = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = byId("filter-kind").value;
    const outcome = byId("filter-outcome").value;
    const layer = byId("filter-layer").value;
    const { tensors } = this;
    this.rows = [];
    for (const at of tensors.order) {
      if (kind && tensors.text("kind", at) !== kind) continue;
      if (outcome === "!" ? tensors.raw.alarming[at] !== 1 : outcome && tensors.text("outcome", at) !== outcome) continue;
      if (layer === "-" ? tensors.raw.layer[at] !== null : layer && tensors.raw.layer[at] !== Number(layer)) continue;
      if (wanted.length > 0 && !wanted.every((word) => tensors.searched(at).includes(word))) continue;
      this.rows.push(at);
    }
    this.arrange();
  }

  sort(column) {
    this.sorting = { column, down: this.sorting.column === column ? !this.sorting.down : !TEXTS.includes(column) };
    this.arrange();
  }

  arrange() {
    const { column, down } = this.sorting;
    const value = TEXTS.includes(column) ? (at) => this.tensors.text(column, at)
      : (at) => { const one = (column === "used" ? this.tensors.used : this.tensors.raw[column])[at]; return one === "nan" ? Infinity : one; };
    // What has no number comes last, but what is wrong without one first.
    const rank = (at, v) => (v !== null ? 1 : column === "used" && this.tensors.raw.alarming[at] === 1 ? 0 : 2);
    const keyed = this.rows.map((at) => ({ at, v: value(at) }));
    for (const one of keyed) one.rank = rank(one.at, one.v);
    const collator = TEXTS.includes(column) ? new Intl.Collator("en", { numeric: true }) : null;
    const sign = down ? -1 : 1;
    keyed.sort((a, b) => a.rank - b.rank || sign * (a.v === b.v ? 0 : collator ? collator.compare(a.v, b.v) : a.v < b.v ? -1 : 1));
    this.rows = keyed.map(({ at }) => at);
    this.place = new Map(this.rows.map((at, row) => [at, row]));
    for (const cell of this.head.children) {
      if (cell.dataset.column === column) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    byId("shown").textContent = this.rows.length === this.tensors.count ? `${this.tensors.count} tensors` : `${this.rows.length} of ${this.tensors.count} tensors`;
    this.host.setAttribute("aria-rowcount", this.rows.length + 1);
    this.space.style.height = `${this.rows.length * ROW}px`;
    this.host.scrollTop = 0;
    this.paint(true);
  }

  paint(anew = false) {
    const first = Math.max(0, Math.floor(this.host.scrollTop / ROW) - 8);
    const last = Math.min(this.rows.length, first + Math.ceil(this.host.clientHeight / ROW) + 16);
    if (!anew && this.painted && this.painted[0] === first && this.painted[1] === last) return;
    this.painted = [first, last];
    const lines = [];
    for (let row = first; row < last; ++row) lines.push(this.line(row));
    this.space.replaceChildren(...lines);
  }

  line(row) {
    const at = this.rows[row];
    const { raw } = this.tensors;
    const cells = COLUMNS.map(([column, , number]) => {
      const text = TEXTS.includes(column) ? this.tensors.text(column, at) : column === "step" || column === "microbatch" ? String(raw[column][at] ?? "") : short(raw[column][at]);
      const alarm = column === "outcome" && raw.alarming[at] === 1;
      return element("div", { role: "gridcell", class: number ? "number" : alarm ? "alarm" : null, title: column === "name" ? text : null }, column === "outcome" || column === "kind" ? words(text) : text);
    });
    const line = element("div", { class: `line${at === this.chosen ? " chosen" : ""}`, role: "row", "aria-rowindex": row + 2, "data-at": at, "aria-selected": at === this.chosen ? "true" : null }, ...cells);
    line.style.top = `${row * ROW}px`;
    return line;
  }

  // Marks a tensor and scrolls to it, if the filter lets it through.
  mark(at) {
    this.chosen = at;
    const row = this.place.get(at);
    if (row !== undefined) {
      const top = row * ROW;
      if (top < this.host.scrollTop || top > this.host.scrollTop + this.host.clientHeight - 3 * ROW) this.host.scrollTop = Math.max(0, top - this.host.clientHeight / 2);
    }
    this.paint(true);
  }

  key(event) {
    const page = Math.floor(this.host.clientHeight / ROW) - 2;
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 }[event.key];
    if (move !== undefined && this.rows.length > 0) {
      event.preventDefault();
      const now = this.place.get(this.chosen) ?? -1;
      this.mark(this.rows[Math.max(0, Math.min(this.rows.length - 1, now + move))]);
    } else if (event.key === "Enter" && this.chosen !== undefined && event.target === this.host) {
      this.choose(this.chosen);
    }
  }
}
