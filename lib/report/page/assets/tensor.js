"use strict";
// The chosen tensor: all that the page knows of it.

class TensorPanel {
  constructor(tensors, close) {
    this.tensors = tensors;
    this.panel = byId("tensor");
    this.close = close;
  }

  show(at) {
    const { tensors } = this;
    const { raw } = tensors;
    const facts = [];
    const add = (label, value) => { if (value !== "" && value !== null && value !== undefined) facts.push(element("dt", {}, label), element("dd", {}, value)); };
    add("id", tensors.id(at));
    add("outcome", words(tensors.text("outcome", at)));
    add("reason", tensors.text("reason", at));
    add("used", raw.used[at] === null ? "" : `${short(raw.used[at])} of what is allowed`);
    add("error", raw.error[at] === null ? "" : short(raw.error[at]) + (raw.eps[at] === null ? "" : ` = ${short(raw.eps[at])} ε`));
    add("allowed", short(raw.allowed[at]));
    add("rule", tensors.text("rule", at));
    add("module", tensors.text("module", at));
    add("phase", words(tensors.text("phase", at)));
    add("shape", `${tensors.text("shape", at)} ${tensors.text("dtype", at)}`.trim());
    const number = tensors.findingOf[at];
    if (number >= 0) add("finding", element("a", { href: `#finding-${number + 1}` }, `${number + 1}  ${tensors.findings[number].title}`));
    this.panel.replaceChildren(
      element("header", {}, element("h2", {}, `${tensors.text("name", at)} · ${words(tensors.text("kind", at))}`),
        element("button", { type: "button", onclick: this.close, "aria-label": "close" }, "✕")),
      element("dl", {}, ...facts));
    this.panel.hidden = false;
  }

  hide() { this.panel.hidden = true; }
}
