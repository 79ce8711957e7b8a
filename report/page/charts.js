// The charts. Colours and fonts are those of the style sheet.
function chart(parent, height, margin) {
  const width = 520;
  const svg = d3.select(parent).append('svg').attr('viewBox', `0 0 ${width} ${height}`).attr('role', 'img');
  const inner = svg.append('g').attr('transform', `translate(${margin.left},${margin.top})`);
  return {svg, inner, width: width - margin.left - margin.right, height: height - margin.top - margin.bottom};
}

function nothing(parent, why) {
  d3.select(parent).append('p').text(why);
}

function axisTitle(c, x, y) {
  c.inner.append('text').attr('class', 'note').attr('x', c.width).attr('y', c.height + 32).attr('text-anchor', 'end').text(x);
  c.inner.append('text').attr('class', 'note').attr('x', -40).attr('y', -9).text(y);
}

function drawOperators(parent, before, after) {
  const total = (nodes) => d3.nest().key((node) => node.operator).rollup((list) => d3.sum(list, (node) => node.ms)).object(nodes);
  const sides = {before: total(before), after: total(after)};
  const names = [...new Set([...Object.keys(sides.before), ...Object.keys(sides.after)])];
  const time = (side, name) => sides[side][name] || 0;
  const rows = names.map((name) => ({name, most: Math.max(time('before', name), time('after', name))})).filter((row) => row.most > 0)
      .sort((a, b) => b.most - a.most).slice(0, 14);
  if (!rows.length) return nothing(parent, 'There are no times of nodes.');
  const c = chart(parent, rows.length * 30 + 46, {left: 130, right: 60, top: 6, bottom: 38});
  const x = d3.scaleLinear().domain([0, d3.max(rows, (row) => row.most)]).nice().range([0, c.width]);
  const y = d3.scaleBand().domain(rows.map((row) => row.name)).range([0, c.height]).padding(0.25);
  for (const [k, side] of ['before', 'after'].entries()) {
    const bars = c.inner.append('g').selectAll('g').data(rows).enter().append('g')
        .attr('transform', (row) => `translate(0,${y(row.name) + k * y.bandwidth() / 2})`);
    bars.append('rect').attr('class', `bar ${side}`).attr('width', (row) => x(time(side, row.name))).attr('height', y.bandwidth() / 2 - 1);
    bars.append('text').attr('class', 'note').attr('x', (row) => x(time(side, row.name)) + 5).attr('y', y.bandwidth() / 2 - 2)
        .text((row) => time(side, row.name) ? milliseconds(time(side, row.name)) : '');
  }
  c.inner.append('g').call(d3.axisLeft(y).tickSize(0));
  c.inner.append('g').attr('transform', `translate(0,${c.height})`).call(d3.axisBottom(x).ticks(5));
  axisTitle(c, 'predicted, ms', '');
}

function drawRoofline(parent, before, after, rates) {
  const points = [['before', before], ['after', after]].flatMap(([side, nodes]) => nodes
      .filter((node) => node.ms > 0 && node.share >= 1 && node.operations > 0 && node.bytes > 0)
      .map((node) => ({side, node, x: node.operations / node.bytes, y: node.operations / node.ms * 1e3})));
  if (!points.length) return nothing(parent, 'No node computes for a known time.');
  const c = chart(parent, 330, {left: 62, right: 28, top: 24, bottom: 40});
  const ridge = rates.operations_per_second / rates.bytes_per_second;
  const x = d3.scaleLog().domain([d3.min([ridge / 4, ...points.map((p) => p.x)]), d3.max([ridge * 4, ...points.map((p) => p.x)])]).range([0, c.width]);
  const top = d3.max([rates.operations_per_second * 1.5, ...points.map((p) => p.y)]);
  const y = d3.scaleLog().domain([d3.min(points, (p) => p.y) / 2, top]).range([c.height, 0]);
  const roof = x.domain().concat(ridge).sort(d3.ascending).map((i) => [x(i), y(Math.max(y.domain()[0], Math.min(rates.operations_per_second, i * rates.bytes_per_second)))]);
  c.inner.append('path').attr('class', 'roof').attr('d', d3.line()(roof));
  c.inner.selectAll('circle').data(points).enter().append('circle').attr('class', (p) => `dot ${p.side}`)
      .attr('cx', (p) => x(p.x)).attr('cy', (p) => y(p.y)).attr('r', (p) => 2.5 + 5 * Math.sqrt(p.node.ms / d3.max(points, (q) => q.node.ms)))
      .on('click', (p) => p.node.view.choose(p.node))
      .append('title').text((p) => `${p.node.operator} ${p.node.name}\n${d3.format('.3s')(p.y)}FLOP/s at ${d3.format('.3g')(p.x)} FLOP a byte, ${milliseconds(p.node.ms)}`);
  c.inner.append('g').attr('transform', `translate(0,${c.height})`).call(d3.axisBottom(x).ticks(6, '~g'));
  c.inner.append('g').call(d3.axisLeft(y).ticks(6, '~s'));
  axisTitle(c, 'operations a byte', 'operations a second');
}

function drawMemory(parent, before, after) {
  const series = [['before', before], ['after', after]];
  const c = chart(parent, 300, {left: 62, right: 28, top: 24, bottom: 40});
  const x = d3.scaleLinear().domain([0, 100]).range([0, c.width]);
  const y = d3.scaleLinear().domain([0, d3.max([...before, ...after, 1]) / 1e6]).nice().range([c.height, 0]);
  for (const [side, held] of series) {
    const line = d3.line().curve(d3.curveStepAfter).x((_, i) => x(100 * i / Math.max(1, held.length - 1))).y((bytes) => y(bytes / 1e6));
    c.inner.append('path').attr('class', `line ${side}`).attr('d', line(held)).append('title').text(`${side}: at most ${d3.format('.4~s')(d3.max(held))}B`);
  }
  c.inner.append('g').attr('transform', `translate(0,${c.height})`).call(d3.axisBottom(x).ticks(5).tickFormat((p) => `${p} %`));
  c.inner.append('g').call(d3.axisLeft(y).ticks(6));
  axisTitle(c, 'of the nodes computed', 'held, MB');
}

function drawCurve(parent, curve, before) {
  if (curve.length < 2) return nothing(parent, 'The search was over at once.');
  const c = chart(parent, 300, {left: 62, right: 28, top: 24, bottom: 40});
  const x = d3.scaleLinear().domain([0, d3.max(curve, (p) => p[0])]).range([0, c.width]);
  const y = d3.scaleLinear().domain([0, d3.max([before, ...curve.map((p) => p[1])])]).nice().range([c.height, 0]);
  c.inner.append('path').attr('class', 'line after').attr('d', d3.line().curve(d3.curveStepAfter).x((p) => x(p[0])).y((p) => y(p[1]))(curve));
  c.inner.append('g').attr('transform', `translate(0,${c.height})`).call(d3.axisBottom(x).ticks(6));
  c.inner.append('g').call(d3.axisLeft(y).ticks(6));
  axisTitle(c, 'seconds of search', 'best predicted, ms');
}
