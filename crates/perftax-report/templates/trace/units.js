// Numbers as the rest of perftax writes them: three digits, units scaled.
function digits(x) {
  if (x === 0) return '0';
  var decimals = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.abs(x)))));
  return x === Math.round(x) ? String(x) : x.toFixed(decimals);
}

function timeScale(ns) {
  ns = Math.abs(ns);
  return ns >= 1e9 ? [1e9, 's'] : ns >= 1e6 ? [1e6, 'ms'] : ns >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
}

function time(ns) {
  var scale = timeScale(ns);
  return digits(ns / scale[0]) + ' ' + scale[1];
}

// Steps of 1, 2 or 5 times a power of ten: about so many of them fit.
function step(span, most) {
  var rough = span / most, power = Math.pow(10, Math.floor(Math.log10(rough)));
  var times = rough / power;
  return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

// Places and their texts on an axis of times; all in the unit of the largest, with the digits that tell them apart.
function timeTicks(from, to, most) {
  var by = step(to - from, most), scale = timeScale(Math.max(Math.abs(from), Math.abs(to))), all = [];
  var decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(by / scale[0]) + 1e-9)));
  for (var at = Math.ceil(from / by); at * by <= to; at++) all.push([at * by, (at * by / scale[0]).toFixed(decimals) + ' ' + scale[1]]);
  return all;
}

// Long ids have an exponent: of all their digits there is no room.
function count(n) { return n === 0 ? '0' : Math.abs(n) < 1e9 ? n.toLocaleString('en') : n.toExponential(3); }

function countTicks(from, to, most) {
  var by = Math.max(1, step(to - from, most)), all = [];
  for (var at = Math.ceil(from / by); at * by <= to; at++) all.push([at * by, count(at * by)]);
  return all;
}

// On an axis of logarithms: 1, 2, 5 times powers of ten, or powers alone where there are many; between two such, plain steps.
function logTicks(from, to) {
  var all = [], decades = (to - from) / Math.LN10;
  if (decades < 0.7) {
    timeTicks(Math.exp(from), Math.exp(to), 6).forEach(function (tick) { all.push([Math.log(tick[0]), tick[1]]); });
    return all;
  }
  var wanted = decades > 6 ? [1] : decades > 3 ? [1, 3] : [1, 2, 5];
  for (var power = Math.floor(from / Math.LN10); power <= to / Math.LN10; power++) {
    wanted.forEach(function (n) {
      var ns = n * Math.pow(10, power), at = Math.log(ns);
      if (at >= from && at <= to) all.push([at, time(ns)]);
    });
  }
  return all;
}

function themed(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function element(name, text, className) {
  var made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// A canvas with as many points as the screen has; returns its context, scaled to CSS pixels.
function fitted(canvas) {
  var ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  var width = Math.max(200, Math.round(box.width)), height = Math.max(40, Math.round(box.height));
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  }
  var context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '13px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
  return { context: context, width: width, height: height, ratio: ratio };
}
