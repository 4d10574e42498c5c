"use strict";
// The tensors of the page: columns, inflated and decoded.

// Execution goes through these phases; the bands of the profile are in this order.
const PHASES = ["parameter", "input", "forward", "loss", "backward", "synchronisation", "grad_norm", "optimizer"];
const BAND_OF = {
  parameter: "param", input: "forward", forward: "forward", loss: "forward", backward: "backward",
  synchronisation: "main grad", grad_norm: "main grad", optimizer: "update",
};
const BANDS = ["param", "forward", "backward", "main grad", "update"];

async function inflated(element) {
  const text = element.textContent.trim();
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

class Tensors {
  constructor(raw) {
    this.raw = raw;
    this.count = raw.name.length;
    this.findings = raw.findings;
    // Which finding a tensor is of: the first that names it.
    this.findingOf = new Int32Array(this.count).fill(-1);
    raw.findings.forEach((finding, number) => {
      for (const at of finding.members) if (this.findingOf[at] < 0) this.findingOf[at] = number;
      if (finding.shown !== null && this.findingOf[finding.shown] < 0) this.findingOf[finding.shown] = number;
    });
    this.used = raw.used.map((used) => (used === "nan" ? Infinity : used));
    this.order = this.inOrder();
    this.search = null;
    this.byId = null;
  }

  text(column, at) { return this.raw.texts[this.raw[column][at]]; }

  id(at) {
    const { step, microbatch, call, copy } = this.raw;
    return `${step[at]}/${microbatch[at] ?? "-"}/${this.text("kind", at)}/${this.text("name", at)}/${call[at]}/${copy[at]}`;
  }

  find(id) {
    if (!this.byId) {
      this.byId = new Map();
      for (let at = this.count - 1; at >= 0; --at) this.byId.set(this.id(at), at);
    }
    return this.byId.get(id);
  }

  // What a filter looks for words in.
  searched(at) {
    if (!this.search) {
      this.search = Array.from({ length: this.count }, (_, i) =>
        `${this.id(i)} ${this.text("outcome", i)} ${this.text("reason", i)}`.toLowerCase());
    }
    return this.search[at];
  }

  band(at) { return BAND_OF[this.text("phase", at)] ?? "forward"; }

  // By step, band and micro-batch; within these as the report has them, in the order of the data flow.
  inOrder() {
    const { step, microbatch } = this.raw;
    const band = Array.from({ length: this.count }, (_, at) => BANDS.indexOf(this.band(at)));
    return Array.from({ length: this.count }, (_, at) => at).sort((a, b) =>
      step[a] - step[b] || band[a] - band[b] || (microbatch[a] ?? -1) - (microbatch[b] ?? -1) || a - b);
  }

  steps() { return [...new Set(this.raw.step)].sort((a, b) => a - b); }

  // The order of one step.
  ofStep(step) { return this.order.filter((at) => this.raw.step[at] === step); }
}
