// What the reader does.
(function () {
  var canvas = picture.canvas, tip = document.getElementById('trace-tip'), said = document.getElementById('trace-said');
  var home = document.getElementById('trace-waterfall'), rows = Array.prototype.slice.call(document.querySelectorAll('[data-select]'));

  function legend() {
    var home = document.getElementById('trace-legend');
    home.textContent = '';
    picture.legend().forEach(function (entry) { home.appendChild(chip(entry[0], entry[1] + ' (' + entry[2].toLocaleString('en') + ')')); });
  }

  // The point of a message; -1 where the picture does not have it.
  function pointOf(id, begin) {
    var best = -1;
    points.slow.forEach(function (i) {
      if (points.name(i) === id && (best < 0 || Math.abs(points.begin[i] - begin) < Math.abs(points.begin[best] - begin))) best = i;
    });
    return best;
  }

  // Several messages may have one id: the one that began then.
  function mark(id, begin) {
    rows.forEach(function (button) {
      var is = button.dataset.select === id && Math.abs(Number(button.dataset.begin) - begin) < settings.quantum + 2;
      button.closest('tr').className = is ? 'chosen' : '';
      button.setAttribute('aria-pressed', String(is));
    });
  }

  // Shows a message of the table or of the address.
  function select(id, begin, isSought) {
    var message = waterfall.find(id, begin), point = pointOf(id, message ? message.begin : begin);
    picture.chosen = point;
    if (message) waterfall.show(message);
    else if (point >= 0) waterfall.brief(id, picture.text(point));
    else { said.textContent = 'The page has no slow message ' + id + '.'; return; }
    said.textContent = point >= 0 ? picture.text(point) : '';
    mark(id, message ? message.begin : points.begin[point]);
    if (point >= 0) picture.reveal(point);
    if (isSought) home.scrollIntoView({ block: 'nearest' });
  }

  // Shows a message of the picture.
  function choose(i) {
    picture.chosen = i;
    var id = points.name(i), message = id && waterfall.find(id, points.begin[i]);
    // Another message of this id is not this one.
    if (message && Math.abs(message.begin - points.begin[i]) > settings.quantum + 1) message = null;
    said.textContent = picture.text(i);
    if (message) waterfall.show(message); else if (id) waterfall.brief(id, picture.text(i));
    mark(id, points.begin[i]);
    picture.reveal(i);
  }

  rows.forEach(function (button) {
    button.addEventListener('click', function () { select(button.dataset.select, Number(button.dataset.begin), true); });
  });

  function at(event) {
    var box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  canvas.addEventListener('wheel', function (event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) picture.move(-(event.deltaX || event.deltaY), 0);
    else picture.zoom(Math.pow(1.0015, event.deltaY * (event.deltaMode === 1 ? 30 : 1)), at(event).x);
  }, { passive: false });

  var held = null;
  canvas.addEventListener('pointerdown', function (event) {
    var place = at(event);
    held = { x: place.x, y: place.y, startX: place.x, startY: place.y, frames: event.shiftKey, moved: false };
    try { canvas.setPointerCapture(event.pointerId); } catch (gone) { /* a pointer that is no more holds nothing */ }
  });
  canvas.addEventListener('pointermove', function (event) {
    var place = at(event);
    if (!held) { hint(place); return; }
    if (Math.abs(place.x - held.startX) + Math.abs(place.y - held.startY) > 4) held.moved = true;
    if (held.frames && held.moved) frame(held.startX, held.startY, place.x, place.y);
    else if (held.moved) picture.move(place.x - held.x, place.y - held.y);
    held.x = place.x; held.y = place.y;
    tip.hidden = true;
  });
  canvas.addEventListener('pointerup', function (event) {
    var place = at(event), was = held;
    held = null;
    if (!was) return;
    if (was.frames && was.moved) { picture.frame(was.startX, was.startY, place.x, place.y); return; }
    if (was.moved) return;
    var i = picture.nearest(place.x, place.y, 12);
    if (i >= 0) choose(i);
  });
  canvas.addEventListener('pointercancel', function () { held = null; });
  canvas.addEventListener('pointerleave', function () { tip.hidden = true; });
  canvas.addEventListener('dblclick', picture.reset);

  function frame(x0, y0, x1, y1) {
    picture.draw();
    var context = canvas.getContext('2d');
    context.strokeStyle = themed('--accent'); context.lineWidth = 1.5;
    context.strokeRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
  }

  function hint(place) {
    var i = picture.nearest(place.x, place.y, 8);
    tip.hidden = i < 0;
    if (i < 0) return;
    tip.textContent = picture.text(i);
    var right = place.x > canvas.clientWidth / 2;
    tip.style.left = right ? 'auto' : place.x + 14 + 'px';
    tip.style.right = right ? canvas.clientWidth - place.x + 14 + 'px' : 'auto';
    tip.style.top = place.y + 14 + 'px';
  }

  function nextSlow(by) {
    var slow = points.slow, i = picture.chosen < 0 ? (by > 0 ? -1 : slow.length) : slow.indexOf(picture.chosen);
    if (slow.length) choose(slow[Math.max(0, Math.min(slow.length - 1, i + by))]);
  }

  var keys = {
    ArrowLeft: function () { picture.move(80, 0); }, ArrowRight: function () { picture.move(-80, 0); },
    ArrowUp: function () { picture.move(0, 40); }, ArrowDown: function () { picture.move(0, -40); },
    '+': function () { picture.zoom(0.7); }, '=': function () { picture.zoom(0.7); }, '-': function () { picture.zoom(1 / 0.7); },
    '0': picture.reset, n: function () { nextSlow(1); }, p: function () { nextSlow(-1); },
  };
  canvas.addEventListener('keydown', function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  function on(id, name, what) { document.getElementById(id).addEventListener(name, what); }
  on('trace-in', 'click', function () { picture.zoom(0.5); });
  on('trace-out', 'click', function () { picture.zoom(2); });
  on('trace-all', 'click', picture.reset);
  on('trace-y', 'change', function (event) {
    var whole, view = picture.view;
    picture.mode = event.target.value;
    whole = picture.whole();
    picture.view = { from: view.from, to: view.to, low: whole.low, high: whole.high };
    picture.redraw();
  });
  on('trace-colour', 'change', function (event) { picture.colouring = event.target.value; legend(); picture.redraw(); });
  on('trace-slow', 'change', function (event) { picture.slowAlone = event.target.checked; legend(); picture.redraw(); });
  if (!settings.hasAllIds) document.querySelector('#trace-y option[value="id"]').textContent = 'message id (slow ones)';

  picture.changed.push(noise.draw);
  window.addEventListener('resize', picture.redraw);
  ['(prefers-color-scheme: dark)', 'print'].forEach(function (query) { window.matchMedia(query).addEventListener('change', picture.redraw); });

  function fromAddress() {
    var wanted = /^#select=(\d+)$/.exec(location.hash);
    if (wanted) select(wanted[1], 0, true);
    return wanted;
  }
  window.addEventListener('hashchange', fromAddress);
  legend();
  picture.draw();
  document.documentElement.dataset.traceReady = String(Math.round(performance.now()));
  if (!fromAddress() && waterfall.all.length) {
    var first = waterfall.all[0];
    picture.chosen = pointOf(first.id, first.begin);
    waterfall.show(first);
    mark(first.id, first.begin);
    picture.redraw();
  }
  // For tests and scripts that drive the page.
  window.perftaxTrace = { picture: picture, points: points, noise: noise, waterfall: waterfall, select: select };
})();
