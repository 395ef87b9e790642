// The messages, out of their columns. Reads what src/html/trace/packed.rs writes.
var settings = JSON.parse(document.getElementById('trace-settings').textContent);

function column(name) {
  var element = document.querySelector('script[data-column="' + name + '"]');
  var text = atob(element.textContent);
  element.remove(); // megabytes that nobody needs twice
  var bytes = new Uint8Array(text.length);
  for (var i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

var points = (function () {
  var n = settings.count, i, at, byte, shift, value;
  var begin = new Float64Array(n), latency = new Float64Array(n), logged = new Float32Array(n);
  var times = column('times'), last = 0;
  for (i = 0, at = 0; i < n; i++) {
    value = 0; shift = 1;
    do { byte = times[at++]; value += (byte & 127) * shift; shift *= 128; } while (byte > 127);
    last += value;
    begin[i] = last * settings.quantum;
  }
  var codes = column('latencies');
  for (i = 0; i < n; i++) {
    logged[i] = (codes[2 * i] | codes[2 * i + 1] << 8) / settings.latencySteps;
    latency[i] = Math.exp(logged[i]);
  }
  var causes = column('causes'), slow = [];
  for (i = 0; i < n; i++) {
    if (causes[i] > 127) slow.push(i);
    causes[i] &= 127;
  }
  var packed = column('functions'), functions = new Uint16Array(n);
  for (i = 0, at = 0; i < n; i++) {
    value = 0; shift = 0;
    do { byte = packed[at++]; value |= (byte & 127) << shift; shift += 7; } while (byte > 127);
    functions[i] = value;
  }
  slow = Uint32Array.from(slow);
  var isSlow = new Uint8Array(n);
  slow.forEach(function (i) { isSlow[i] = 1; });

  // Ids have 64 bits: two halves of 32, and as a number only for the axis.
  var high = new Uint32Array(n), low = new Uint32Array(n), id = new Float64Array(n).fill(NaN);
  var bytes = column('ids'), low0 = 0, high0 = 0, lo, hi, negative, sum;
  at = 0;
  function next(i) {
    lo = 0; hi = 0; shift = 0;
    do {
      byte = bytes[at++]; value = byte & 127;
      if (shift < 28) lo |= value << shift;
      else if (shift === 28) { lo |= value << 28; hi |= value >>> 4; }
      else hi |= value << (shift - 32);
      shift += 7;
    } while (byte > 127);
    negative = lo & 1;
    lo = lo >>> 1 | hi << 31; hi = hi >>> 1;
    if (negative) { lo = ~lo; hi = ~hi; }
    sum = low0 + (lo >>> 0);
    high0 = high0 + (hi >>> 0) + (sum > 4294967295 ? 1 : 0) >>> 0;
    low0 = sum >>> 0;
    low[i] = low0; high[i] = high0; id[i] = high0 * 4294967296 + low0;
  }
  if (settings.hasAllIds) for (i = 0; i < n; i++) next(i);
  else slow.forEach(next);
  return { count: n, begin: begin, latency: latency, logged: logged, cause: causes, function_: functions, slow: slow,
    isSlow: isSlow, id: id,
    name: function (i) {
      if (id[i] !== id[i]) return '';
      return high[i] < 2097152 ? String(id[i]) : (BigInt(high[i]) << 32n | BigInt(low[i])).toString();
    } };
})();

// The first message that begins at a time or later.
function firstFrom(time) {
  var low = 0, high = points.count;
  while (low < high) {
    var middle = low + high >> 1;
    if (points.begin[middle] < time) low = middle + 1; else high = middle;
  }
  return low;
}
