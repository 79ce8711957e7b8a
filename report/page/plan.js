// Fills the page of a plan from its data. Names come from models, which nobody has looked at: they are set as text, never as HTML.
'use strict';

const report = JSON.parse(document.getElementById('data').textContent);
const facts = report.facts;

// Colours by cut, the most frequent first; what every process computes as a whole is grey.
const allNodes = report.drawing.regions.flatMap((region) => region.nodes);
const kinds = d3.nest().key((node) => node.kind).rollup((nodes) => nodes.length).entries(allNodes)
  .filter((entry) => entry.key !== 'whole').sort((a, b) => b.value - a.value).map((entry) => entry.key);
const kindTitles = {whole: 'whole: every process', partial: 'partial sums', exchange: 'exchanges'};
function colourOf(kind) {
  if (kind === 'whole') return '#9aa5ae';
  if (kind === 'exchange') return '#7a3ff2';
  return d3.schemeTableau10[kinds.indexOf(kind) % 9];  // the tenth is a grey
}

function fillSummary() {
  const name = (path) => path.split('/').pop();
  d3.select('#title').text(facts.output ? name(facts.output) : 'A plan');
  const levels = facts.groups > 1 ? `${facts.processes} processes in ${facts.groups} groups` : `${facts.processes} processes`;
  d3.select('#outcome').text(`${levels}, strategy ${facts.strategy}, ${facts.proved ? 'proved' : 'not proved'}`);
  document.title = `${facts.output ? name(facts.output) : 'plan'} - Rewright`;
  const entries = [
    ['A step', milliseconds(facts.seconds * 1e3), 'large'],
    ['Lower bound', milliseconds(facts.lower_bound * 1e3)],
    ['Memory, fullest process', `${d3.format('.4~s')(facts.peak_bytes)}B`],
    ['Sent by all', `${d3.format('.4~s')(facts.bytes_sent)}B`],
    ['Search', `${d3.format('.1f')(facts.search.seconds)} s, ${facts.search.stop_reason}`],
    ...Object.entries(facts.strategies).sort((a, b) => a[1] - b[1]).map(([strategy, seconds]) => [`As ${strategy}`, milliseconds(seconds * 1e3)]),
  ];
  const items = d3.select('#summary').selectAll('div').data(entries).enter().append('div').attr('class', (e) => e[2] || null);
  items.append('dt').text((e) => e[0]);
  items.append('dd').text((e) => e[1]);
}

let view = null;

function select(node) {
  view.select(null);
  const details = d3.select('#details');
  details.selectAll('*').remove();
  if (!node) return;
  view.select(node);
  const value = (v) => `${v.name}: ${v.type}${v.constant ? ' (constant)' : ''}`;
  const sent = report.exchanges.filter((e) => node.outputs.some((v) => v.name === e.value));
  const rows = [
    ['Operator', node.operator], ['Attributes', node.attributes || 'as by default'], ['Cut', node.cut],
    ...node.inputs.map((v, i) => [i ? '' : 'Reads', value(v)]), ...node.outputs.map((v, i) => [i ? '' : 'Computes', value(v)]),
    ...sent.map((e, i) => [i ? '' : 'Exchanged', `${e.exchange}: ${e.from}, to ${e.to}`]),
    ['Each process', milliseconds(node.ms)],
  ];
  details.append('h3').text(node.name);
  const line = details.append('table').selectAll('tr').data(rows).enter().append('tr');
  line.append('td').text((r) => r[0]);
  line.append('td').text((r) => r[1]);
}

// A button for each colour, which finds the nodes that have it.
function setUpKinds(find) {
  const buttons = d3.select('#kinds').selectAll('button').data([...kinds, 'whole', 'exchange']).enter().append('button')
    .attr('type', 'button').attr('class', 'kind').attr('aria-pressed', 'false');
  buttons.append('i').style('background', colourOf);
  buttons.append('span').text((kind) => kindTitles[kind] || kind);
  buttons.on('click', function(kind) {
    const on = d3.select(this).attr('aria-pressed') !== 'true';
    buttons.attr('aria-pressed', 'false');
    d3.select(this).attr('aria-pressed', String(on));
    find((node) => on && node.kind === kind);
  });
}

function drawTimeline() {
  const {ms, of, processes} = report.timeline;
  const lane = 13;
  const c = chart('#timeline', processes.length * (2 * lane + 8) + 60, {left: 70, right: 12, top: 8, bottom: 46});
  const x = d3.scaleLinear().domain([0, ms]).range([0, c.width]);
  c.svg.append('clipPath').attr('id', 'step').append('rect').attr('width', c.width).attr('height', c.height);
  const stage = c.inner.append('g').attr('clip-path', 'url(#step)');
  const pieces = processes.flatMap((process, p) => [...process.computing.map((piece) => [p, 0, ...piece]), ...process.exchanging.map((piece) => [p, 1, ...piece])]);
  const rects = stage.selectAll('rect').data(pieces).enter().append('rect')
    .attr('y', (piece) => piece[0] * (2 * lane + 8) + piece[1] * lane).attr('height', lane - 1).style('fill', (piece) => colourOf(piece[4]));
  rects.append('title').text((piece) => `${piece[5]}${piece[6] > 1 ? ` and ${piece[6] - 1} more` : ''}\n${kindTitles[piece[4]] || piece[4]}\n${milliseconds(piece[3])} from ${milliseconds(piece[2])} on`);
  c.inner.selectAll('text.name').data(processes).enter().append('text').attr('class', 'name').attr('x', -6)
    .attr('y', (_, p) => p * (2 * lane + 8) + lane + 3).text((_, p) => `process ${p}`);
  const axis = c.inner.append('g').attr('transform', `translate(0,${c.height})`);
  const place = (scale) => {
    rects.attr('x', (piece) => scale(piece[2])).attr('width', (piece) => Math.max(0.2, scale(piece[2] + piece[3]) - scale(piece[2])));
    axis.call(d3.axisBottom(scale).ticks(6));
  };
  place(x);
  c.svg.call(d3.zoom().scaleExtent([1, 400]).translateExtent([[0, 0], [520, 0]]).on('zoom', () => place(d3.event.transform.rescaleX(x))));
  c.inner.append('text').attr('class', 'note').attr('x', c.width).attr('y', c.height + 32).attr('text-anchor', 'end')
    .text(`ms; above computing, below exchanges${of > processes.length ? `; ${processes.length} of ${of} processes` : ''}`);
}

function fillTable(selector, titles, rows) {
  const table = d3.select(selector);
  table.append('thead').append('tr').selectAll('th').data(titles).enter().append('th').text((title) => title);
  const cells = table.append('tbody').selectAll('tr').data(rows).enter().append('tr').selectAll('td').data((row) => row).enter().append('td');
  cells.filter((cell) => cell.colour).append('i').style('background', (cell) => cell.colour);
  cells.append('span').text((cell) => cell.text === undefined ? cell : cell.text);
  cells.classed('number', (cell) => typeof cell === 'number' || cell.number);
}

function fillTables() {
  const cuts = d3.nest().key((node) => JSON.stringify([node.operator, node.cut, node.kind])).entries(allNodes)
    .map((entry) => ({key: JSON.parse(entry.key), nodes: entry.values, ms: d3.sum(entry.values, (node) => node.ms)}))
    .sort((a, b) => b.ms - a.ms);
  fillTable('#cuts', ['Operator', 'Nodes', 'Time', 'Cut'],
    cuts.map(({key, nodes, ms}) => [key[0], nodes.length, {text: milliseconds(ms), number: true}, {text: key[1], colour: colourOf(key[2])}]));
  fillTable('#exchanges', ['Exchange', 'Value', 'Type', 'From', 'To'], report.exchanges.map((e) => [e.exchange, e.value, e.type, e.from, e.to]));
}

fillSummary();
save('#save-facts', 'plan.json', JSON.stringify(facts, null, 2));
for (const node of allNodes) node.colour = colourOf(node.kind);
view = new GraphView(document.getElementById('graph'), report.drawing, 'Nodes', select);
setUpFolding([view]);
setUpKinds(setUpSearch([view], (node, word) => node.text.includes(word) || node.cut.includes(word)));
drawTimeline();
fillTables();
document.body.dataset.ready = 'yes';
