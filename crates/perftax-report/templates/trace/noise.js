// What kept each CPU from the program: a lane of each kind, over the time that the picture shows.
var noise = (function () {
  var canvas = document.getElementById('trace-noise'), about = settings.noise, bytes = column('noise');
  var kinds = about.kinds.length, gap = 8, offset = 0;
  var cpus = about.cpus.map(function (cpu) {
    var made = { number: cpu[0], bins: cpu[1], offset: offset };
    offset += cpu[1] * kinds;
    return made;
  });
  if (!canvas) return { draw: function () {} };
  // Fewer points a lane where there are many CPUs; they must all be seen.
  var lane = cpus.length <= 8 ? 7 : cpus.length <= 32 ? 4 : 2;
  canvas.style.height = cpus.length * (lane * kinds + gap) + 10 + 'px';
  var share = function (at) { return (bytes[2 * at] | bytes[2 * at + 1] << 8) / 65535; };
  var legend = document.getElementById('trace-noise-legend');
  about.kinds.forEach(function (kind) { legend.appendChild(chip(kind.colour, kind.name)); });

  function draw(view) {
    var at = fitted(canvas), context = at.context, left = margin.left, width = at.width - left - margin.right;
    var perPixel = (view.to - view.from) / width;
    context.textAlign = 'right'; context.textBaseline = 'middle';
    cpus.forEach(function (cpu, row) {
      var top = row * (lane * kinds + gap) + 4;
      context.globalAlpha = 1;
      context.fillStyle = themed('--soft');
      if (lane * kinds + gap >= 14) context.fillText('CPU ' + cpu.number, left - 8, top + lane * kinds / 2);
      context.fillStyle = themed('--code');
      context.fillRect(left, top, width, lane * kinds);
      for (var kind = 0; kind < kinds; kind++) {
        context.fillStyle = about.kinds[kind].colour;
        for (var x = 0; x < width; x++) {
          var first = Math.floor((view.from + x * perPixel - about.from) / about.bin);
          var last = Math.max(first + 1, Math.ceil((view.from + (x + 1) * perPixel - about.from) / about.bin));
          var sum = 0, most = Math.min(last, cpu.bins);
          for (var bin = Math.max(0, first); bin < most; bin++) sum += share(cpu.offset + bin * kinds + kind);
          if (sum === 0) continue;
          // A thousandth of the time must be seen, too: the root of the share.
          context.globalAlpha = Math.min(1, 0.15 + 0.85 * Math.sqrt(sum / (last - first)));
          context.fillRect(left + x, top + kind * lane, 1, lane - (lane > 3 ? 1 : 0));
        }
      }
    });
    context.globalAlpha = 1;
  }
  return { draw: draw };
})();

function chip(colour, text) {
  var entry = element('span'), mark = element('i');
  mark.style.background = colour;
  entry.appendChild(mark);
  entry.appendChild(document.createTextNode(text));
  return entry;
}
