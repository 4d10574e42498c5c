"use strict";
// The profile: error over allowed along the order of execution, one mark a tensor.

class Profile {
  constructor(tensors, choose) {
    this.tensors = tensors;
    this.choose = choose;
    this.canvas = byId("profile");
    this.tip = byId("tip");
    this.marks = [];
    this.hovered = null;
    this.chosen = null;
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; this.point(null); });
    this.canvas.addEventListener("click", (event) => { const mark = this.nearest(event); if (mark) this.choose(mark.at); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    byId("legend").replaceChildren(
      legendItem("--bad", "beyond what is allowed, or in one run alone"), legendItem("--mark", "within"),
      legendItem("--unsure", "not judged"), element("span", {}, "◯ a finding"));
  }

  // Shows the tensors of a step, or those of one of its bands.
  show(step, band) {
    const all = this.tensors.ofStep(step);
    this.order = band === "" ? all : all.filter((at) => this.bandName(at) === band);
    this.draw();
  }

  bandName(at) {
    const microbatch = this.tensors.raw.microbatch[at];
    return this.tensors.band(at) + (microbatch === null ? "" : ` mb ${microbatch}`);
  }

  bands(step) { return [...new Set(this.tensors.ofStep(step).map((at) => this.bandName(at)))]; }

  // The exponents that the axis reaches from and to.
  range() {
    let low = -2;
    let high = 1;
    for (const at of this.order) {
      const used = this.tensors.used[at];
      if (used === null || !Number.isFinite(used) || used <= 0) continue;
      low = Math.min(low, Math.log10(used));
      high = Math.max(high, Math.log10(used));
    }
    return [Math.max(Math.floor(low), -8), Math.min(Math.ceil(high + 0.1), 16)];
  }

  draw() {
    if (!this.order) return;
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (width === 0) return;
    const context = prepared(this.canvas, width, height);
    const [low, high] = this.range();
    // Above and below the axis: infinite, exact, and without a number.
    this.box = { left: 52, right: width - 12, top: 36, bottom: height - 52 };
    const box = this.box;
    const y = (power) => box.bottom - ((power - low) / (high - low)) * (box.bottom - box.top);
    const step = (box.right - box.left) / Math.max(this.order.length, 1);
    const x = (i) => box.left + (i + 0.5) * step;
    this.drawBands(context, x, step, height);
    this.drawAxis(context, y, low, high, width, height);
    const colours = { bad: colour("--bad"), mark: colour("--mark"), unsure: colour("--unsure"), text: colour("--text") };
    this.marks = this.order.map((at, i) => {
      const used = this.tensors.used[at];
      const place = used === null ? height - 16 : used === 0 ? height - 34
        : Number.isFinite(used) ? y(Math.min(Math.max(Math.log10(used), low), high)) : 30;
      return { at, x: x(i), y: place };
    });
    const radius = Math.max(1.6, Math.min(3.5, step));
    for (const pass of [false, true]) {
      for (const mark of this.marks) {
        const alarming = this.tensors.raw.alarming[mark.at] === 1;
        if (alarming !== pass) continue;
        const outcome = this.tensors.text("outcome", mark.at);
        context.fillStyle = alarming ? colours.bad : outcome === "match" || outcome === "holds" || outcome === "given" ? colours.mark : colours.unsure;
        context.beginPath();
        context.arc(mark.x, mark.y, alarming ? radius + 0.6 : radius, 0, 2 * Math.PI);
        context.fill();
      }
    }
    context.strokeStyle = colours.text;
    context.lineWidth = 1.4;
    for (const mark of this.marks) {
      if (!this.isShown(mark.at)) continue;
      context.beginPath();
      context.arc(mark.x, mark.y, 7, 0, 2 * Math.PI);
      context.stroke();
    }
    this.drawPointer(context);
  }

  // Whether a finding's card is of this tensor.
  isShown(at) {
    const number = this.tensors.findingOf[at];
    return number >= 0 && this.tensors.findings[number].shown === at;
  }

  drawBands(context, x, step, height) {
    // Calls back with the first and the last mark of each run of one name.
    const runs = (nameOf, found) => {
      const names = this.order.map(nameOf);
      for (let begin = 0, i = 1; i <= names.length; ++i) {
        if (i < names.length && names[i] === names[begin]) continue;
        found(names[begin], x(begin) - step / 2, x(i - 1) + step / 2);
        begin = i;
      }
    };
    const ground = colour("--band");
    const dim = colour("--dim");
    let odd = false;
    runs((at) => this.bandName(at), (name, left, right) => {
      context.fillStyle = ground;
      if (odd) context.fillRect(left, 18, right - left, height);
      odd = !odd;
    });
    // A name stands where it has room.
    const label = (text, left, right, y) => {
      context.fillStyle = dim;
      if (text !== "" && context.measureText(text).width + 6 <= right - left) context.fillText(text, left + 4, y);
    };
    runs((at) => this.tensors.band(at), (name, left, right) => {
      label(name, left, right, 13);
      context.strokeStyle = dim;
      context.lineWidth = 0.6;
      context.strokeRect(left, -2, right - left, 19);
    });
    runs((at) => this.bandName(at), (name, left, right) => label(name.replace(/^.*?(mb |$)/, "$1"), left, right, 28));
  }

  drawAxis(context, y, low, high, width, height) {
    const { left, right } = this.box;
    context.fillStyle = colour("--dim");
    context.strokeStyle = colour("--line");
    context.textAlign = "right";
    const every = Math.ceil((high - low) / 7);
    for (let power = Math.ceil(low / every) * every; power <= high; power += every) {
      context.lineWidth = 0.6;
      context.beginPath();
      context.moveTo(left, y(power));
      context.lineTo(right, y(power));
      context.stroke();
      context.fillText(power === 0 ? "1" : Math.abs(power) <= 2 ? String(Number((10 ** power).toPrecision(2))) : `1e${power}`, left - 6, y(power) + 4);
    }
    context.fillText("exact", left - 6, height - 30);
    context.fillText("none", left - 6, height - 12);
    if (this.order.some((at) => this.tensors.used[at] !== null && !Number.isFinite(this.tensors.used[at]))) context.fillText("∞", left - 6, 34);
    context.textAlign = "left";
    context.strokeStyle = colour("--text");
    context.lineWidth = 1;
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(left, y(0));
    context.lineTo(width, y(0));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour("--text");
    context.fillText("allowed", left + 4, y(0) - 5);
  }

  drawPointer(context) {
    const mark = this.marks.find((one) => one.at === this.chosen);
    if (!mark) return;
    context.strokeStyle = colour("--link");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(mark.x, 20);
    context.lineTo(mark.x, this.canvas.clientHeight);
    context.stroke();
    context.lineWidth = 3;
    context.beginPath();
    context.arc(mark.x, mark.y, 6, 0, 2 * Math.PI);
    context.stroke();
  }

  nearest(event) {
    const area = this.canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const y = event.clientY - area.top;
    let best = null;
    let bestDistance = 24 ** 2;
    for (const mark of this.marks) {
      const distance = (mark.x - x) ** 2 + (mark.y - y) ** 2;
      if (distance < bestDistance) [best, bestDistance] = [mark, distance];
    }
    return best;
  }

  hover(event) {
    const mark = this.nearest(event);
    this.point(mark);
  }

  point(mark) {
    if (!mark) { this.tip.hidden = true; return; }
    showTip(this.tip, this.describe(mark.at), mark.x, mark.y);
  }

  describe(at) {
    const used = this.tensors.raw.used[at];
    return `${this.tensors.text("name", at)} · ${this.tensors.text("kind", at)} · ${this.bandName(at)}\n` +
      `${words(this.tensors.text("outcome", at))}${used === null ? "" : `, ${short(used)} of what is allowed`}`;
  }

  mark(at) { this.chosen = at; this.draw(); }

  key(event) {
    const move = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (move !== undefined && this.marks.length > 0) {
      event.preventDefault();
      const now = this.marks.findIndex((one) => one.at === this.chosen);
      const next = this.marks[Math.max(0, Math.min(this.marks.length - 1, now < 0 ? 0 : now + move))];
      this.mark(next.at);
      this.point(next);
    } else if (event.key === "Enter" && this.chosen !== null) {
      this.choose(this.chosen);
    }
  }
}
