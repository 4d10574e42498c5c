"use strict";
// Depth and kind: layers down, kinds across, a cell the most that a tensor used of what it is allowed.

const MOST_ROWS = 120;

class Depth {
  constructor(tensors, filter) {
    this.tensors = tensors;
    this.filter = filter;
  }

  // "layers.3" of "layers.3.mlp.fc1", "head" of "head": where in the depth of the model it is.
  rowOf(at) {
    const parts = this.tensors.text("module", at).split(".");
    const layer = this.tensors.raw.layer[at];
    if (layer === null) return parts[0];
    return parts.slice(0, parts.indexOf(String(layer)) + 1).join(".");
  }

  show(step) {
    const kinds = [];
    const rows = new Map();
    for (const at of this.tensors.ofStep(step)) {
      const kind = this.tensors.text("kind", at);
      if (!kinds.includes(kind)) kinds.push(kind);
      const name = this.rowOf(at);
      const row = rows.get(name) ?? rows.set(name, { name, layer: this.tensors.raw.layer[at], cells: new Map() }).get(name);
      const cell = row.cells.get(kind) ?? row.cells.set(kind, { used: null, alarming: false, count: 0 }).get(kind);
      this.add(cell, at);
    }
    byId("depth").hidden = rows.size < 2 && kinds.length < 2;
    byId("depth-table").replaceChildren(this.table(this.joined([...rows.values()]), kinds));
  }

  add(cell, at) {
    ++cell.count;
    const used = this.tensors.used[at];
    if (used !== null && (cell.used === null || used > cell.used)) cell.used = used;
    if (this.tensors.raw.alarming[at] === 1) cell.alarming = true;
  }

  // Neighbours in one row where there are too many.
  joined(rows) {
    const every = Math.ceil(rows.length / MOST_ROWS);
    if (every < 2) return rows;
    const out = [];
    for (let i = 0; i < rows.length; i += every) {
      const group = rows.slice(i, i + every);
      const row = { name: `${group[0].name} – ${group[group.length - 1].name}`, layer: undefined, cells: new Map() };
      for (const one of group) {
        for (const [kind, cell] of one.cells) {
          const sum = row.cells.get(kind) ?? row.cells.set(kind, { used: null, alarming: false, count: 0 }).get(kind);
          sum.count += cell.count;
          sum.alarming ||= cell.alarming;
          if (cell.used !== null && (sum.used === null || cell.used > sum.used)) sum.used = cell.used;
        }
      }
      out.push(row);
    }
    return out;
  }

  table(rows, kinds) {
    const head = element("tr", {}, element("td"), ...kinds.map((kind) => element("th", { scope: "col" }, words(kind))));
    const body = rows.map((row) => element("tr", {}, element("th", { scope: "row" }, row.name),
      ...kinds.map((kind) => element("td", {}, ...this.button(row, kind)))));
    return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  }

  button(row, kind) {
    const cell = row.cells.get(kind);
    if (!cell) return [];
    const label = cell.used === null ? (cell.alarming ? "✗" : "·") : short(cell.used);
    const title = `${row.name} · ${words(kind)}: ${cell.count} tensor${cell.count === 1 ? "" : "s"}, at most ${label} of what is allowed`;
    return [element("button", {
      type: "button", class: `h${this.heat(cell)}`, title, "aria-label": title,
      onclick: () => this.filter(row, kind),
    }, label)];
  }

  // From 0 (nothing known) over 3 (nearly all that is allowed) to 8 (10^8 times it, or wrong without number).
  heat({ used, alarming }) {
    if (used === null) return alarming ? 8 : 0;
    if (used <= 1 && !alarming) return used <= 0.03 ? 1 : used <= 0.3 ? 2 : 3;
    return Math.max(4, Math.min(8, 4 + Math.floor(Math.log10(Math.max(used, 1)) / 1.5)));
  }
}
