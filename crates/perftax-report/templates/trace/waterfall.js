// One slow message in pieces.
var waterfall = (function () {
  var home = document.getElementById('trace-waterfall'), all = settings.waterfalls.all, texts = settings.waterfalls.texts;
  var colours = {};
  settings.causes.forEach(function (cause) { colours[cause.name] = cause.colour; });
  // Rows that are shown of it: the longest pieces.
  var MOST = 60;

  // Of messages with the id the one that began nearest to a time.
  function find(id, begin) {
    var best = null;
    all.forEach(function (message) {
      if (message.id === id && (!best || Math.abs(message.begin - begin) < Math.abs(best.begin - begin))) best = message;
    });
    return best;
  }

  function bar(from, ns, whole, colour) {
    var made = element('b');
    made.style.left = 100 * from / whole + '%';
    made.style.width = 100 * ns / whole + '%';
    made.style.background = colour;
    return made;
  }

  function list(message) {
    var made = [];
    for (var at = 0; at < message.pieces.length; at += 6) {
      var text = function (k) { var number = message.pieces[at + k]; return number < 0 ? '' : texts[number]; };
      made.push({ from: message.pieces[at], ns: message.pieces[at + 1], thread: text(2), cause: text(3), which: text(4), samples: text(5) });
    }
    return made;
  }

  function lanes(pieces, whole) {
    var grid = element('div', null, 'lanes'), threads = [];
    pieces.forEach(function (piece) { if (threads.indexOf(piece.thread) < 0) threads.push(piece.thread); });
    threads.forEach(function (thread) {
      grid.appendChild(element('span', thread));
      var lane = element('div', null, 'lane');
      pieces.forEach(function (piece) {
        if (piece.thread !== thread) return;
        var made = bar(piece.from, piece.ns, whole, colours[piece.cause]);
        made.title = piece.cause + (piece.which ? ': ' + piece.which : '') + ', ' + time(piece.ns) + (piece.samples ? '; ' + piece.samples : '');
        lane.appendChild(made);
      });
      grid.appendChild(lane);
    });
    grid.appendChild(element('span'));
    var axis = element('div', null, 'axis');
    [0, 0.25, 0.5, 0.75, 1].forEach(function (part) { axis.appendChild(element('span', time(part * whole))); });
    grid.appendChild(axis);
    return grid;
  }

  function table(pieces, whole) {
    var longest = pieces.slice().sort(function (a, b) { return b.ns - a.ns; }).slice(0, MOST);
    var made = element('table'), head = element('tr'), body = element('tbody');
    [['at', 'number'], ['took', 'number'], ['', ''], ['what', ''], ['thread', ''], ['samples', '']].forEach(function (name) { head.appendChild(element('th', name[0], name[1])); });
    made.appendChild(element('thead')).appendChild(head);
    var short = [];
    function fold() {
      if (!short.length) return;
      var row = element('tr'), ns = short.reduce(function (sum, piece) { return sum + piece.ns; }, 0);
      [time(short[0].from), time(ns), '', '… ' + short.length + (short.length === 1 ? ' shorter piece' : ' shorter pieces'), '', ''].forEach(function (text, at) { row.appendChild(element('td', text, at < 2 ? 'number' : '')); });
      body.appendChild(row);
      short = [];
    }
    pieces.forEach(function (piece) {
      if (longest.indexOf(piece) < 0) { short.push(piece); return; }
      fold();
      var row = element('tr');
      row.appendChild(element('td', time(piece.from), 'number'));
      row.appendChild(element('td', time(piece.ns), 'number'));
      var cell = element('td', null, 'bar');
      cell.appendChild(element('div')).appendChild(bar(piece.from, piece.ns, whole, colours[piece.cause]));
      row.appendChild(cell);
      var what = element('td'), mark = element('i');
      mark.style.background = colours[piece.cause];
      what.appendChild(mark);
      what.appendChild(document.createTextNode(' ' + piece.cause + (piece.which ? ': ' + piece.which : '')));
      row.appendChild(what);
      row.appendChild(element('td', piece.thread));
      row.appendChild(element('td', piece.samples, 'wrap'));
      body.appendChild(row);
    });
    fold();
    made.appendChild(body);
    var scroll = element('div', null, 'scroll');
    scroll.appendChild(made);
    return scroll;
  }

  function show(message) {
    home.textContent = '';
    home.dataset.message = message.id;
    home.appendChild(element('h3', 'Message ' + message.id + (message.label ? ': ' + message.label : '')));
    var facts = ['began at ' + time(message.begin), 'took ' + time(message.latency)];
    Object.keys(message.shares).sort(function (a, b) { return message.shares[b] - message.shares[a]; }).slice(0, 6).forEach(function (cause) { facts.push(cause + ' ' + time(message.shares[cause])); });
    if (message.faults) facts.push(message.faults + (message.faults === 1 ? ' page fault' : ' page faults'));
    if (message.migrations) facts.push('moved to another CPU ' + message.migrations + (message.migrations === 1 ? ' time' : ' times'));
    home.appendChild(element('p', facts.join(' · ')));
    if (message.functions) home.appendChild(element('p', 'Functions by samples: ' + message.functions));
    if (message.executed) home.appendChild(element('p', 'Executed: ' + message.executed));
    if (message.events) home.appendChild(element('p', 'Events: ' + message.events));
    if (message.doubtful) home.appendChild(element('p', 'Records were lost meanwhile: what is said of it may lack something.'));
    var pieces = list(message), whole = message.latency || 1;
    home.appendChild(lanes(pieces, whole));
    home.appendChild(table(pieces, whole));
    if (message.leftOut) home.appendChild(element('p', message.leftOut + ' short pieces and samples are left out here; its times by cause are complete.', 'note'));
    home.appendChild(command(message.id));
    var same = all.filter(function (other) { return other.id === message.id; }).length;
    if (same > 1) home.appendChild(element('p', 'Several messages have this id: the command shows the slowest of them, --occurrence N another.', 'note'));
  }

  function command(id) {
    var made = element('pre', 'perftax trace show ' + settings.folder + ' ' + id);
    made.tabIndex = 0;
    return made;
  }

  // A message that the page does not have in pieces.
  function brief(id, text) {
    home.textContent = '';
    home.dataset.message = id;
    home.appendChild(element('h3', 'Message ' + id));
    home.appendChild(element('p', text + '. The page has the pieces of the slowest ' + all.length + ' messages only; of this one:'));
    home.appendChild(command(id));
  }

  return { find: find, show: show, brief: brief, all: all };
})();
