"use strict";
// Elements, numbers and colours. Texts are put in as text, never as markup.

const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const out = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (attribute.startsWith("on")) out.addEventListener(attribute.slice(2), value);
    else if (value !== null && value !== undefined) out.setAttribute(attribute, value);
  }
  out.append(...children);
  return out;
}

// Fills a select with [value, label] pairs, or with texts.
function fill(select, options) {
  select.replaceChildren(...options.map((option) => {
    const [value, label] = Array.isArray(option) ? option : [option, option];
    return element("option", { value }, String(label));
  }));
}

function words(text) { return text.replaceAll("_", " "); }

// Three digits, as the text report writes numbers.
function short(value) {
  if (value === null || value === undefined) return "";
  if (value === "nan") return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e4 || size < 1e-3) return value.toExponential(1).replace("e+", "e").replace(".0e", "e");
  return String(Number(value.toPrecision(3)));
}

// The value of a custom property as a colour that a canvas takes.
function colour(name) {
  const probe = colour.probe ??= document.body.appendChild(element("span", { hidden: "" }));
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

// Sizes a canvas to its place at the screen's resolution.
function prepared(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return context;
}

// Shows a tip beside a point of its parent.
function showTip(tip, text, x, y) {
  if (tip.textContent !== text) tip.textContent = text;
  tip.hidden = false;
  const room = tip.parentElement.clientWidth;
  tip.style.left = `${Math.max(0, Math.min(x + 14, room - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 16}px`;
}

function legendItem(variable, label, square = false) {
  const dot = element("i", square ? { class: "square" } : {});
  dot.style.background = `var(${variable})`;
  return element("span", {}, dot, label);
}
