'use strict';
(function () {
  var palette = ['#3b7dd8', '#e0752d', '#2fa36b', '#c2479b', '#8a63d2', '#b5891b', '#1fa3b5', '#d64545'];
  var config = { responsive: true, displaylogo: false, displayModeBar: 'hover', plotlyServerURL: '', showTips: false,
    modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d'] };

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  // Plotly wants colours by attribute; these are the ones that follow the page's light or dark look.
  function dressed(layout) {
    var ink = colour('--ink'), grid = colour('--grid'), line = colour('--line'), paper = colour('--paper');
    layout.paper_bgcolor = 'rgba(0,0,0,0)';
    layout.plot_bgcolor = 'rgba(0,0,0,0)';
    layout.colorway = palette;
    layout.font = { family: 'system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif', size: 14, color: ink };
    layout.modebar = { orientation: 'v', bgcolor: 'rgba(0,0,0,0)', color: colour('--line'), activecolor: colour('--accent') };
    layout.hoverlabel = { bgcolor: paper, bordercolor: line, font: { color: ink } };
    Object.keys(layout).forEach(function (key) {
      if (!/^[xy]axis\d*$/.test(key)) return;
      var axis = layout[key];
      axis.gridcolor = grid; axis.linecolor = line; axis.zerolinecolor = line; axis.tickcolor = line;
      axis.automargin = true;
      if (axis.title) axis.title.font = { size: 14 };
    });
    (layout.updatemenus || []).forEach(function (menu) { menu.bgcolor = paper; menu.bordercolor = line; menu.font = { color: ink, size: 13 }; });
    (layout.annotations || []).forEach(function (a) { a.font = Object.assign({ size: 13 }, a.font, { color: ink }); });
    return layout;
  }

  function inked(data) {
    data.forEach(function (trace) {
      if (trace.type !== 'bar') return; // an error bar on a bar must be seen on the bar and beside it
      [trace.error_x, trace.error_y].forEach(function (bars) { if (bars) bars.color = colour('--ink'); });
    });
    return data;
  }

  var plots = Array.prototype.slice.call(document.querySelectorAll('.plot'));
  var figures = {};
  plots.forEach(function (div) {
    try {
      var figure = JSON.parse(document.querySelector('script[data-plot="' + div.id + '"]').textContent);
      figures[div.id] = figure;
      Plotly.newPlot(div, inked(figure.data), dressed(figure.layout), config)
        .catch(function (error) { failed(div, error); });
    } catch (error) { failed(div, error); }
  });

  function failed(div, error) {
    div.className += ' failed';
    div.textContent = 'This plot could not be drawn (' + error + '). Its numbers stand in the table.';
  }

  function redress() {
    plots.forEach(function (div) {
      var figure = figures[div.id];
      if (div.className.indexOf('failed') < 0) Plotly.react(div, inked(figure.data), dressed(figure.layout), config);
    });
  }
  ['(prefers-color-scheme: dark)', 'print'].forEach(function (query) {
    window.matchMedia(query).addEventListener('change', redress);
  });
})();
