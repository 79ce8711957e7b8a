// Fills the page from its data: what is said of the optimization, the two graphs, rewrites and charts. Names come from models, which
// nobody has looked at: they are set as text, never as HTML.
'use strict';

const report = JSON.parse(document.getElementById('data').textContent);
const facts = report.facts;

function fillSummary() {
  const name = (path) => path.split('/').pop();
  d3.select('#title').text(`${name(facts.input)} → ${name(facts.output)}`);
  d3.select('#outcome').text(`On ${facts.device}: ${facts.outcome}`);
  document.title = `${name(facts.input)} - Rewright`;
  const times = (t) => `${milliseconds(t.before)} → ${milliseconds(t.after)}`;
  const measured = facts.measured_ms.before > 0;
  const entries = [
    ['Times as fast', d3.format('.2f')(measured ? facts.speedup : facts.predicted_ms.before / facts.predicted_ms.after), 'large'],
    ['Measured', measured ? times(facts.measured_ms) : 'not measured'],
    ['Predicted', times(facts.predicted_ms)],
    ['Nodes', `${facts.nodes.before} → ${facts.nodes.after}`],
    ['Rewrites', String(facts.search.rules_applied.length)],
    ['Search', `${d3.format('.1f')(facts.search.seconds)} s, ${facts.search.stop_reason}`],
    ['Checked', facts.check.runs ? `${facts.check.runs} ${facts.check.runs === 1 ? 'run' : 'runs'}, error ${d3.format('.1e')(facts.check.max_rel_error)}` : 'no'],
  ];
  if (facts.nodes.opaque.length) entries.push(['Kept as they are', `${facts.nodes.opaque.length} nodes`]);
  const items = d3.select('#summary').selectAll('div').data(entries).enter().append('div').attr('class', (e) => e[2] || null);
  items.append('dt').text((e) => e[0]);
  items.append('dd').text((e) => e[1]);
}

// What was measured or predicted at each of several sets of sizes.
function fillSizes() {
  const sets = facts.sets_of_sizes || [];
  if (sets.length < 2) return;
  const times = (t) => `${milliseconds(t.before)} → ${milliseconds(t.after)}`;
  const measured = sets.some((set) => set.measured_ms.before > 0);
  const rows = sets.map((set) => [
    Object.entries(set.sizes).map(([name, size]) => `${name} ${size}`).join(', '),
    d3.format('.3~g')(set.weight),
    times(measured ? set.measured_ms : set.predicted_ms),
    d3.format('.2f')(measured ? set.speedup : set.predicted_ms.before / set.predicted_ms.after),
  ]);
  const table = d3.select('#sizes').attr('hidden', null);
  table.append('caption').text('At each of the sizes; all other times are their weighted means.');
  table.append('thead').append('tr').selectAll('th').data(['Sizes', 'Weight', measured ? 'Measured' : 'Predicted', 'Times as fast']).enter().append('th')
    .text((title) => title);
  table.append('tbody').selectAll('tr').data(rows).enter().append('tr').selectAll('td').data((row) => row).enter().append('td').text((text) => text);
}

const views = {};

function select(node) {
  for (const view of Object.values(views)) view.select(null);
  const details = d3.select('#details');
  details.selectAll('*').remove();
  if (!node) return;
  node.view.select(node);
  // The same node of the other graph is marked, too.
  const other = node.view === views.before ? views.after : views.before;
  const twin = node.kept ? other.byName.get(node.name) : null;
  if (twin) other.select(twin);
  const value = (v) => `${v.name}: ${v.type}${v.constant ? ' (constant)' : ''}`;
  const rows = [
    ['Operator', node.operator], ['Attributes', node.attributes || 'as by default'],
    ...node.inputs.map((v, i) => [i ? '' : 'Reads', value(v)]), ...node.outputs.map((v, i) => [i ? '' : 'Computes', value(v)]),
    ['Predicted', node.share === 0 && node.ms === 0 ? 'nothing: fused, free or constant' : milliseconds(node.ms)],
    ['Operations', d3.format('.4~s')(node.operations)], ['Bytes moved', d3.format('.4~s')(node.bytes)],
    ['', node.kept ? 'in both graphs' : node.view === views.before ? 'rewritten' : 'made by rewriting'],
  ];
  details.append('h3').text(node.name);
  const line = details.append('table').selectAll('tr').data(rows).enter().append('tr');
  line.append('td').text((r) => r[0]);
  line.append('td').text((r) => r[1]);
  if (twin) details.append('p').append('button').attr('type', 'button').text('Show it in the other graph').on('click', () => other.show(twin));
}

function drawRule(parent, name, rewrites) {
  const rule = report.rules[name];
  const box = parent.append('div').attr('class', 'rule');
  box.append('h4').text(rewrites.length > 1 ? `${name}, ${rewrites.length} times` : name);
  if (rule) {
    if (rule.description) box.append('p').text(rule.description);
    box.append('pre').text(rule.algebra);
    const ranks = rule.proof.ranks ? `for tensors of up to ${rule.proof.ranks} axes` : 'for tensors of all ranks';
    const proof = rule.proof.status === 'proved' ? `proved ${ranks}; SHA-256 of the proof ${rule.proof.digest}` : `not proved (${rule.proof.status})`;
    box.append('p').text(`${proof}. In floating point: ${rule.math}. Found by: ${rule.origin}.`);
  }
  const places = [...new Set(rewrites.flatMap((rewrite) => rewrite.where))].filter((place) => views.before.byName.has(place));
  const buttons = box.append('div').attr('class', 'places').selectAll('button').data(places.slice(0, 40)).enter().append('button');
  buttons.attr('type', 'button').text((place) => place).on('click', (place) => {
    views.before.choose(views.before.byName.get(place));
    views.before.figure.scrollIntoView({block: 'nearest'});
  });
}

function drawRewrites() {
  const parent = d3.select('#rewrites');
  if (!report.steps.length) return parent.append('p').text('No rewrite: the graph came back as it was.');
  const gain = (ms) => Math.abs(ms) < 1e-9 ? 'gains nothing by itself' : ms > 0 ? `gains ${milliseconds(ms)}` : `costs ${milliseconds(-ms)}`;
  const steps = parent.selectAll('details').data(report.steps).enter().append('details').attr('class', 'step');
  const summary = steps.append('summary');
  summary.append('span').text((_, i) => `${i + 1}.`);
  summary.append('span').attr('class', 'what').text((step) => {
    if (!step.rewrites.length) return step.folded ? `${step.kind}: ${step.folded}` : step.kind;
    const names = d3.nest().key((r) => r.rule).rollup((list) => list.length).entries(step.rewrites);
    const told = names.slice(0, 4).map((n) => n.value > 1 ? `${n.key} × ${n.value}` : n.key).join(', ');
    return `${step.kind}: ${told}${names.length > 4 ? `, and ${names.length - 4} other rules` : ''}`;
  });
  summary.append('span').attr('class', 'gain').text((step) => `${gain(step.gain_ms)}, ${step.nodes} nodes`);
  steps.on('toggle', function(step) {
    if (!this.open || this.filled) return;
    this.filled = true;
    const body = d3.select(this).append('div').attr('class', 'body');
    if (!step.rewrites.length) body.append('p').text('No rule: constants and what nothing reads.');
    for (const entry of d3.nest().key((r) => r.rule).entries(step.rewrites)) drawRule(body, entry.key, entry.values);
  });
}

fillSummary();
fillSizes();
save('#save-certificate', 'certificate.json', report.certificate);
save('#save-facts', 'report.json', JSON.stringify(facts, null, 2));
for (const [side, title] of [['before', 'As given'], ['after', 'As found']])
  views[side] = new GraphView(document.getElementById(side), report[side], title, select);
setUpSearch(Object.values(views), (node, word) => node.text.includes(word));
setUpFolding(Object.values(views));
drawRewrites();
drawOperators('#operators', views.before.nodes, views.after.nodes);
drawRoofline('#roofline', views.before.nodes, views.after.nodes, report.roofline);
drawMemory('#memory', report.before.held_bytes, report.after.held_bytes);
drawCurve('#curve', report.curve, facts.predicted_ms.before);
document.body.dataset.ready = 'yes';
