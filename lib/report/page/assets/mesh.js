"use strict";
// The ranks of the candidate as a heat map over two axes of its mesh: whose shard holds how much of a
// finding's squared error, or which ranks agree with each other.

class MeshMap {
  constructor(tensors) {
    this.tensors = tensors;
    this.axes = tensors.raw.mesh.filter(([, size]) => size > 1);
    this.canvas = byId("mesh-map");
    this.tip = byId("mesh-tip");
    this.findings = tensors.findings.map((finding, number) => ({ finding, number }))
      .filter(({ finding }) => finding.shards.length > 0 || finding.classes.length > 1);
    this.possible = this.axes.length > 0 && this.findings.length > 0;
    if (!this.possible) return;
    fill(byId("mesh-finding"), this.findings.map(({ finding, number }) => [number, `${number + 1}  ${finding.title}`]));
    const names = tensors.raw.mesh.map(([name], i) => [i, name]).filter(([i]) => tensors.raw.mesh[i][1] > 1);
    fill(byId("mesh-across"), names);
    fill(byId("mesh-down"), names.length > 1 ? names : [[-1, "–"]]);
    // The longer of the two innermost axes goes to the right, where there is more room.
    const inner = names.slice(-2).sort(([a], [b]) => tensors.raw.mesh[a][1] - tensors.raw.mesh[b][1]);
    byId("mesh-across").value = inner[inner.length - 1][0];
    byId("mesh-down").value = inner.length > 1 ? inner[0][0] : -1;
    for (const id of ["mesh-finding", "mesh-down", "mesh-across"]) byId(id).addEventListener("change", () => this.draw());
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
  }

  // The mesh's coordinates of each rank, row-major; the last axis changes fastest.
  coordinates() {
    const sizes = this.tensors.raw.mesh.map(([, size]) => size);
    const total = sizes.reduce((product, size) => product * size, 1);
    const out = new Map();
    for (let i = 0; i < Math.min(total, 1 << 20); ++i) {
      const at = [];
      let rest = i;
      for (let d = sizes.length - 1; d >= 0; --d) {
        at[d] = rest % sizes[d];
        rest = Math.floor(rest / sizes[d]);
      }
      out.set(this.tensors.raw.meshRanks[i] ?? i, at);
    }
    return out;
  }

  // Of each rank: the share of its shard, and its class of replicas.
  facts(finding) {
    const out = new Map();
    finding.classes.forEach((ranks, number) => {
      for (const rank of ranks) out.set(rank, { share: null, error: null, group: number });
    });
    for (const [share, error, ranks] of finding.shards) {
      for (const rank of ranks) {
        const known = out.get(rank) ?? out.set(rank, { share: null, error: null, group: null }).get(rank);
        if (known.share === null || share > known.share) [known.share, known.error] = [share, error];
      }
    }
    return out;
  }

  draw() {
    if (!this.possible) return;
    const finding = this.tensors.findings[Number(byId("mesh-finding").value)];
    const across = Number(byId("mesh-across").value);
    const down = Number(byId("mesh-down").value);
    const facts = this.facts(finding);
    const sizes = this.tensors.raw.mesh.map(([, size]) => size);
    // One axis alone folds into rows.
    const single = down < 0 || down === across;
    const columns = single && sizes[across] > 64 ? Math.ceil(Math.sqrt(sizes[across] * 4)) : sizes[across];
    const rows = single ? Math.ceil(sizes[across] / columns) : sizes[down];
    const byClass = finding.classes.length > 1;
    this.cells = new Map();
    for (const [rank, at] of this.coordinates()) {
      const place = single ? at[across] : at[down] * columns + at[across];
      const cell = this.cells.get(place) ?? this.cells.set(place, { ranks: [], share: null, error: null, groups: new Set() }).get(place);
      const known = facts.get(rank);
      cell.ranks.push(rank);
      if (!known) continue;
      if (known.group !== null) cell.groups.add(known.group);
      if (known.share !== null && (cell.share === null || known.share > cell.share)) [cell.share, cell.error] = [known.share, known.error];
    }
    const room = byId("mesh").clientWidth - 70;
    const cell = (space, count) => Math.max(2, Math.min(34, Math.floor((10 * space) / count) / 10));
    this.layout = { columns, wide: cell(room, columns), high: cell(420, rows), left: 44, top: 20 };
    const width = columns * this.layout.wide + 60;
    const height = rows * this.layout.high + 30;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = prepared(this.canvas, width, height);
    this.paint(context, columns, byClass);
    this.name(context, single ? null : this.tensors.raw.mesh[down][0], this.tensors.raw.mesh[across][0]);
    byId("mesh-legend").replaceChildren(...(byClass
      ? [element("span", {}, "one colour: ranks that agree with each other")]
      : [legendItem("--s0", "none of the squared error", true), legendItem("--s3", "some", true), legendItem("--s6", "all of it is in the rank's shard", true)]));
    this.canvas.setAttribute("aria-label", `${facts.size} ranks, ${byClass ? "by who agrees with whom" : "by the share of the squared error in the rank's shard"}`);
  }

  paint(context, columns, byClass) {
    const { wide, high, left, top } = this.layout;
    const gap = Math.min(wide, high) > 6 ? 1 : Math.min(wide, high) / 10;
    const shades = Array.from({ length: 7 }, (_, i) => colour(`--s${i}`));
    const line = colour("--line");
    const largest = Math.max(...[...this.cells.values()].map((cell) => cell.share ?? 0), 1e-300);
    for (const [place, cell] of this.cells) {
      const x = left + (place % columns) * wide;
      const y = top + Math.floor(place / columns) * high;
      context.fillStyle = byClass ? this.classColour([...cell.groups]) : shades[this.shade(cell.share, largest)];
      context.fillRect(x, y, wide - gap, high - gap);
      if (Math.min(wide, high) >= 24 && cell.ranks.length === 1) {
        context.fillStyle = colour("--text");
        context.textAlign = "center";
        context.fillText(String(cell.ranks[0]), x + wide / 2 - 0.5, y + high / 2 + 4);
        context.textAlign = "left";
      }
      if (cell.share === null && cell.groups.size === 0) {
        context.strokeStyle = line;
        context.strokeRect(x + 0.5, y + 0.5, wide - 1 - gap, high - 1 - gap);
      }
    }
  }

  // Of the largest share, by its logarithm over two decades.
  shade(share, largest) {
    if (!share) return 0;
    return Math.max(1, Math.min(6, Math.ceil((1 + Math.log10(share / largest) / 2) * 6)));
  }

  classColour(groups) {
    if (groups.length !== 1) return colour(groups.length === 0 ? "--ground" : "--dim");
    // Neighbouring numbers far apart on the circle of hues.
    return `hsl(${(groups[0] * 137.5 + 210) % 360} 55% 55%)`;
  }

  name(context, down, across) {
    context.fillStyle = colour("--dim");
    context.fillText(`${across} →`, this.layout.left, 14);
    if (down) context.fillText(`${down} ↓`, 4, this.layout.top + 14);
  }

  hover(event) {
    const area = this.canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - area.left - this.layout.left) / this.layout.wide);
    const y = Math.floor((event.clientY - area.top - this.layout.top) / this.layout.high);
    const cell = x >= 0 && x < this.layout.columns && y >= 0 ? this.cells.get(y * this.layout.columns + x) : undefined;
    if (!cell) { this.tip.hidden = true; return; }
    const ranks = cell.ranks.length > 6 ? `${cell.ranks.slice(0, 6).join(", ")} … (${cell.ranks.length})` : cell.ranks.join(", ");
    const parts = [`rank ${ranks}`];
    if (cell.groups.size > 0) parts.push(`agrees with class ${[...cell.groups].map((one) => one + 1).join(", ")}`);
    parts.push(cell.share === null ? "holds none of this tensor" : `its shard holds ${short(100 * cell.share)} % of the squared error, error ${short(cell.error)}`);
    showTip(this.tip, parts.join("\n"), event.clientX - area.left, event.clientY - area.top);
  }
}
