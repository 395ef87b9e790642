// Every message over time: painted point by point into an image, which takes some milliseconds for a million, so there are no levels of
// detail to keep.
var margin = { left: 84, right: 14, top: 10, bottom: 44 };
var picture = (function () {
  var canvas = document.getElementById('trace-picture');
  var sheet = document.createElement('canvas');
  var n = points.count, i;
  var last = 0, longest = 0, lowest = Infinity, highest = -Infinity, lowId = Infinity, highId = -Infinity;
  for (i = 0; i < n; i++) {
    last = Math.max(last, points.begin[i] + points.latency[i]);
    longest = Math.max(longest, points.latency[i]);
    lowest = Math.min(lowest, points.logged[i]); highest = Math.max(highest, points.logged[i]);
    if (points.id[i] < lowId) lowId = points.id[i];
    if (points.id[i] > highId) highId = points.id[i];
  }
  if (!n) { lowest = 0; highest = 1; last = 1; }
  if (!(lowId <= highId)) { lowId = 0; highId = 1; }
  var self = { mode: 'latency', colouring: 'cause', slowAlone: false, chosen: -1, view: null, drawMs: 0, changed: [] };
  var pixels = null, image = null, scheduled = false, area = null, slowLine = null;

  // Colours as the image has them: its bytes are red, green, blue, opaque, and the machine is little-endian.
  function packed(colour) {
    return (255 << 24 | parseInt(colour.slice(5, 7), 16) << 16 | parseInt(colour.slice(3, 5), 16) << 8 | parseInt(colour.slice(1, 3), 16)) >>> 0;
  }
  var causeColours = Uint32Array.from(settings.causes.map(function (cause) { return packed(cause.colour); }));
  var none = '#8b949e', others = '#9c6b4f';
  var functionColour = function (number) {
    return number === 0 ? none : number <= settings.palette.length ? settings.palette[number - 1] : others;
  };
  var functionColours = Uint32Array.from(Array.from({ length: settings.functions.length + 1 }, function (_, number) { return packed(functionColour(number)); }));

  function whole() {
    var pad = Math.max(last * 0.01, 1);
    return { from: -pad, to: last + pad, low: self.mode === 'id' ? lowId - (highId - lowId) * 0.03 - 1 : lowest - 0.4,
      high: self.mode === 'id' ? highId + (highId - lowId) * 0.03 + 1 : highest + 0.3 };
  }

  self.reset = function () { self.view = whole(); self.redraw(); };

  self.redraw = function () {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(function () { scheduled = false; self.draw(); });
  };

  self.draw = function () {
    var started = performance.now(), view = self.view;
    var at = fitted(canvas), context = at.context;
    area = { x: margin.left, y: margin.top, width: at.width - margin.left - margin.right, height: at.height - margin.top - margin.bottom };
    axes(context, at, view);
    var width = Math.round(area.width * at.ratio), height = Math.round(area.height * at.ratio);
    if (!image || image.width !== width || image.height !== height) {
      sheet.width = width; sheet.height = height;
      image = sheet.getContext('2d').createImageData(width, height);
      pixels = new Uint32Array(image.data.buffer);
    }
    pixels.fill(0);
    paint(width, height, view, at.ratio);
    sheet.getContext('2d').putImageData(image, 0, 0);
    context.drawImage(sheet, area.x, area.y, area.width, area.height);
    ring(context);
    named(context);
    self.drawMs = performance.now() - started;
    self.changed.forEach(function (tell) { tell(view); });
  };

  function slowIn(from, to) {
    var seen = 0;
    for (var at = 0; at < points.slow.length; at++) if (points.slow[at] >= from && points.slow[at] < to) seen++;
    return seen;
  }

  function paint(width, height, view, ratio) {
    var begin = points.begin, ys = self.mode === 'id' ? points.id : points.logged, latency = points.latency, isSlow = points.isSlow;
    var codes = self.colouring === 'cause' ? points.cause : points.function_;
    var colours = self.colouring === 'cause' ? causeColours : functionColours;
    var perTime = width / (view.to - view.from), perY = height / (view.high - view.low);
    var from = firstFrom(view.from - longest), to = firstFrom(view.to);
    // Slow ones are squares that can be told from the others, and from each other where they are many.
    var small = Math.max(1, Math.round(ratio * 1.5)), large = Math.round(ratio * (slowIn(from, to) > 3000 ? 3 : 5));
    // From its beginning to its end where that can be seen, unless so many at once would take longer than a look.
    var hasLengths = longest * perTime > 2 && (to - from) * Math.min(width, longest * perTime) < 3e7;
    function block(x, y, w, h, colour) {
      var x0 = Math.max(0, x), x1 = Math.min(width, x + w), y0 = Math.max(0, y), y1 = Math.min(height, y + h);
      for (var row = y0; row < y1; row++) pixels.fill(colour, row * width + x0, row * width + x1);
    }
    function one(i, size) {
      var x = Math.round((begin[i] - view.from) * perTime), y = Math.round((view.high - ys[i]) * perY);
      if (!(y > -size && y < height + size)) return;
      var colour = colours[codes[i]], half = size >> 1;
      if (hasLengths) {
        var length = Math.round(latency[i] * perTime);
        if (x + length < 0) return;
        if (length > 1) block(x, y - Math.max(1, half >> 1), length, Math.max(2, half), colour);
      }
      if (x > -size && x < width + size) block(x - half, y - half, size, size, colour);
    }
    if (!self.slowAlone) {
      // Where they are many a point is a pixel: no call for each that is no longer than that.
      if (to - from > 20000) {
        for (var i = from; i < to; i++) {
          if (isSlow[i]) continue;
          if (hasLengths && latency[i] * perTime > 2) { one(i, small + 1); continue; }
          var x = (begin[i] - view.from) * perTime | 0, y = (view.high - ys[i]) * perY | 0;
          if (x >= 0 && x < width - 1 && y >= 0 && y < height - 1) {
            var place = y * width + x, colour = colours[codes[i]];
            pixels[place] = colour;
            if (small > 1) { pixels[place + 1] = colour; pixels[place + width] = colour; pixels[place + width + 1] = colour; }
          }
        }
      } else {
        for (var k = from; k < to; k++) if (!isSlow[k]) one(k, small + 1);
      }
    }
    points.slow.forEach(function (i) { if (i >= from && i < to) one(i, large); });
  }

  function axes(context, at, view) {
    slowLine = null;
    var ink = themed('--soft'), grid = themed('--grid');
    context.lineWidth = 1; context.strokeStyle = grid; context.fillStyle = ink;
    context.textBaseline = 'middle'; context.textAlign = 'right';
    var upwards = self.mode === 'id' ? countTicks(view.low, view.high, 8) : logTicks(view.low, view.high);
    upwards.forEach(function (tick) {
      var y = area.y + (view.high - tick[0]) / (view.high - view.low) * area.height;
      line(context, area.x, y, area.x + area.width, y);
      context.fillText(tick[1], area.x - 8, y);
    });
    context.textBaseline = 'top'; context.textAlign = 'center';
    timeTicks(view.from, view.to, Math.max(3, area.width / 110)).forEach(function (tick) {
      var x = area.x + (tick[0] - view.from) / (view.to - view.from) * area.width;
      line(context, x, area.y, x, area.y + area.height);
      if (x < at.width - 30) context.fillText(tick[1], x, area.y + area.height + 6);
    });
    context.fillText('since the first message began', area.x + area.width / 2, area.y + area.height + 26);
    if (self.mode === 'latency' && settings.slow > 0) {
      var y = area.y + (view.high - Math.log(settings.slow)) / (view.high - view.low) * area.height;
      if (y > area.y && y < area.y + area.height) {
        context.setLineDash([6, 5]); context.strokeStyle = '#8b949e';
        line(context, area.x, y, area.x + area.width, y);
        context.setLineDash([]);
        slowLine = y;
      }
    }
  }

  // The line from which on messages are slow, above the messages that lie there.
  function named(context) {
    if (slowLine === null) return;
    var text = 'slow from here on (99 %)', width = context.measureText(text).width;
    context.globalAlpha = 0.85; context.fillStyle = themed('--paper');
    context.fillRect(area.x + area.width - width - 10, slowLine - 20, width + 8, 18);
    context.globalAlpha = 1; context.fillStyle = themed('--soft');
    context.textAlign = 'right'; context.textBaseline = 'middle';
    context.fillText(text, area.x + area.width - 6, slowLine - 11);
  }

  function line(context, x0, y0, x1, y1) {
    context.beginPath(); context.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5); context.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5); context.stroke();
  }

  // Around the message that was chosen.
  function ring(context) {
    if (self.chosen < 0) return;
    var place = self.place(self.chosen);
    if (place.x < area.x || place.x > area.x + area.width || place.y < area.y || place.y > area.y + area.height) return;
    context.strokeStyle = themed('--ink'); context.lineWidth = 2;
    context.beginPath(); context.arc(place.x, place.y, 8, 0, 2 * Math.PI); context.stroke();
  }

  // Where a message is on the canvas, CSS pixels.
  self.place = function (i) {
    var view = self.view, y = self.mode === 'id' ? points.id[i] : points.logged[i];
    return { x: area.x + (points.begin[i] - view.from) / (view.to - view.from) * area.width,
      y: area.y + (view.high - y) / (view.high - view.low) * area.height };
  };

  // The message nearest to a place, at most so far away; a slow one first. -1 for none.
  self.nearest = function (x, y, reach) {
    var view = self.view, perPixel = (view.to - view.from) / area.width, centre = view.from + (x - area.x) * perPixel;
    var from = firstFrom(centre - reach * perPixel - longest), to = firstFrom(centre + reach * perPixel);
    var best = -1, bestDistance = reach * reach, bestSlow = -1, slowDistance = reach * reach;
    for (var i = from; i < to; i++) {
      if (self.slowAlone && !points.isSlow[i]) continue;
      var begin = (points.begin[i] - centre) / perPixel, end = begin + points.latency[i] / perPixel;
      if (end < -reach) continue;
      var across = begin > 0 ? begin : end < 0 ? end : 0, up = self.place(i).y - y, distance = across * across + up * up;
      if (distance < bestDistance) { best = i; bestDistance = distance; }
      if (points.isSlow[i] && distance < slowDistance) { bestSlow = i; slowDistance = distance; }
    }
    return bestSlow >= 0 ? bestSlow : best;
  };

  self.zoom = function (factor, x) {
    var view = self.view, centre = x === undefined ? (view.from + view.to) / 2 : view.from + (x - area.x) / area.width * (view.to - view.from);
    var all = whole(), span = Math.max(100, Math.min(all.to - all.from, (view.to - view.from) * factor));
    var share = (centre - view.from) / (view.to - view.from);
    view.from = centre - share * span; view.to = view.from + span;
    kept();
  };

  self.move = function (x, y) {
    var view = self.view, across = x / area.width * (view.to - view.from), up = y / area.height * (view.high - view.low);
    view.from -= across; view.to -= across; view.low += up; view.high += up;
    kept();
  };

  // Within what there is.
  function kept() {
    var view = self.view, all = whole(), span = view.to - view.from, height = view.high - view.low;
    if (view.from < all.from) { view.from = all.from; view.to = all.from + span; }
    if (view.to > all.to) { view.to = all.to; view.from = all.to - span; }
    if (view.low < all.low) { view.low = all.low; view.high = Math.min(all.high, all.low + height); }
    if (view.high > all.high) { view.high = all.high; view.low = Math.max(all.low, all.high - height); }
    self.redraw();
  }

  // Into a frame on the canvas.
  self.frame = function (x0, y0, x1, y1) {
    var view = self.view, perX = (view.to - view.from) / area.width, perY = (view.high - view.low) / area.height;
    var from = view.from + (Math.min(x0, x1) - area.x) * perX, to = view.from + (Math.max(x0, x1) - area.x) * perX;
    var high = view.high - (Math.min(y0, y1) - area.y) * perY, low = view.high - (Math.max(y0, y1) - area.y) * perY;
    if (to - from < 100) return;
    self.view = { from: from, to: to, low: low, high: high };
    kept();
  };

  // So that a message can be seen.
  self.reveal = function (i) {
    var view = self.view, begin = points.begin[i];
    if (begin < view.from || begin > view.to) {
      var half = (view.to - view.from) / 2;
      view.from = begin - half; view.to = begin + half;
      kept();
    }
    self.redraw();
  };

  // What is said of one beside its picture.
  self.text = function (i) {
    var name = points.name(i), number = points.function_[i];
    return (name ? 'message ' + name : 'a message') + ' at ' + time(points.begin[i]) + ': ' + time(points.latency[i]) + ', mostly ' +
      settings.causes[points.cause[i]].name + (number ? ' in ' + settings.functions[number - 1] : '') + (points.isSlow[i] ? ', slow' : '');
  };

  self.legend = function () {
    var entries = [], counts = new Float64Array(Math.max(settings.causes.length, settings.functions.length + 2));
    var codes = self.colouring === 'cause' ? points.cause : points.function_;
    for (var i = 0; i < n; i++) if (!self.slowAlone || points.isSlow[i]) counts[codes[i]]++;
    if (self.colouring === 'cause') {
      settings.causes.forEach(function (cause, at) { if (counts[at]) entries.push([cause.colour, cause.name, counts[at]]); });
    } else {
      var rest = 0;
      settings.functions.forEach(function (name, at) {
        if (at < settings.palette.length) { if (counts[at + 1]) entries.push([settings.palette[at], name, counts[at + 1]]); } else rest += counts[at + 1];
      });
      if (rest) entries.push([others, 'other functions', rest]);
      if (counts[0]) entries.push([none, 'no sample of it', counts[0]]);
    }
    return entries;
  };
  self.canvas = canvas;
  self.area = function () { return area; };
  self.whole = whole;
  self.view = whole();
  return self;
})();
