// One of the two graphs: regions one below the other, each folded to a box or drawn as it was laid out.
class GraphView {
  static kFoldedWidth = 230;
  static kFoldedHeight = 40;
  static kGap = 34;
  static kLabel = 16;
  // Beyond this, regions in which nothing differs begin folded.
  static kUnfoldedNodes = 150;

  constructor(figure, drawing, title, onSelect) {
    this.figure = figure;
    this.regions = drawing.regions;
    this.onSelect = onSelect;
    this.selected = null;
    this.nodes = [];
    this.byName = new Map();      // of the node
    this.producers = new Map();   // value -> node
    this.users = new Map();       // value -> nodes
    this.exits = new Map();       // value's number -> {region, port}
    this.regions.forEach((region, r) => {
      region.changed = region.nodes.some((node) => !node.kept);
      for (const node of region.nodes) this.index(node, r);
      for (const port of region.exits) this.exits.set(port.value, {region: r, port});
    });
    const large = this.nodes.length > GraphView.kUnfoldedNodes;
    for (const region of this.regions) region.folded = large && !region.changed;
    d3.select(figure).select('figcaption').text(
        `${title}: ${this.nodes.length} nodes` + (drawing.left_out ? `, ${drawing.left_out} computed from constants not drawn` : ''));
    this.svg = d3.select(figure).select('svg');
    this.stage = this.svg.append('g');
    this.edgeLayer = this.stage.append('g');
    this.regionLayer = this.stage.append('g');
    this.zoom = d3.zoom().scaleExtent([0.02, 3]).on('zoom', () => this.stage.attr('transform', d3.event.transform));
    this.svg.call(this.zoom).on('dblclick.zoom', null).on('keydown', () => this.key(d3.event));
    this.draw();
    this.fit(false);
  }

  index(node, region) {
    node.region = region;
    node.view = this;
    node.text = [node.name, node.operator, node.shape, node.attributes].join(' ').toLowerCase();
    this.nodes.push(node);
    if (!this.byName.has(node.name)) this.byName.set(node.name, node);
    for (const value of node.outputs) this.producers.set(value.name, node);
    for (const value of node.inputs) {
      if (!this.users.has(value.name)) this.users.set(value.name, []);
      this.users.get(value.name).push(node);
    }
  }

  // Positions of the regions, and the paths between them.
  place() {
    let y = 0;
    let widest = 0;
    for (const region of this.regions) {
      region.w = region.folded ? GraphView.kFoldedWidth : region.width;
      region.h = region.folded ? GraphView.kFoldedHeight : region.height + GraphView.kLabel;
      region.x = -region.w / 2;
      region.y = y;
      y += region.h + GraphView.kGap;
      widest = Math.max(widest, region.w);
    }
    this.size = {width: widest, height: Math.max(1, y - GraphView.kGap)};
    const end = (region, port, top) => [region.folded ? 0 : region.x + port.x, region.y + (top ? (region.folded ? 0 : GraphView.kLabel) : region.h)];
    const paths = [];
    let lane = 0;
    this.regions.forEach((region, r) => {
      for (const port of region.entries) {
        const [x, bottom] = end(region, port, true);
        const from = this.exits.get(port.value);
        if (!from) {
          paths.push({path: `M${x},${bottom - 22}V${bottom}`, label: port.name, x, y: bottom - 26});
          continue;
        }
        const [sx, sy] = end(this.regions[from.region], from.port, false);
        if (from.region + 1 === r) {
          const middle = (sy + bottom) / 2;
          paths.push({path: `M${sx},${sy}C${sx},${middle} ${x},${middle} ${x},${bottom}`});
        } else {  // around what lies between
          const side = widest / 2 + 20 + 8 * (lane++ % 12);
          paths.push({path: `M${sx},${sy}C${sx},${sy + 24} ${side},${sy} ${side},${sy + 30}V${bottom - 30}C${side},${bottom} ${x},${bottom - 24} ${x},${bottom}`});
        }
      }
      for (const port of region.exits) {
        if (!port.graph) continue;
        const [x, sy] = end(region, port, false);
        paths.push({path: `M${x},${sy}v16`, label: port.name, x, y: sy + 28});
      }
    });
    return paths;
  }

  draw() {
    const paths = this.place();
    this.edgeLayer.selectAll('*').remove();
    this.edgeLayer.selectAll('path').data(paths).enter().append('path').attr('class', 'edge').attr('d', (p) => p.path);
    this.edgeLayer.selectAll('text').data(paths.filter((p) => p.label)).enter().append('text').attr('class', 'port')
        .attr('x', (p) => p.x).attr('y', (p) => p.y).text((p) => p.label);
    const groups = this.regionLayer.selectAll('g.region').data(this.regions);
    const view = this;
    groups.enter().append('g').merge(groups).attr('transform', (region) => `translate(${region.x},${region.y})`)
        .each(function(region, r) {
          if (this.drawnFolded === region.folded) return;
          this.drawnFolded = region.folded;
          view.drawRegion(d3.select(this), region, r);
        });
  }

  drawRegion(group, region, r) {
    group.selectAll('*').remove();
    group.attr('class', `region${region.folded ? ' folded' : ''}${region.changed ? ' changed' : ''}`);
    const toggle = () => this.setFolded([region], !region.folded);
    group.append('rect').attr('rx', 5).attr('width', region.w).attr('height', region.h).on('click', region.folded ? toggle : null);
    const label = group.append('text').attr('class', 'label').on('click', toggle);
    const ms = d3.sum(region.nodes, (node) => node.ms);
    const same = region.same_as >= 0 ? `, like part ${region.same_as + 1}` : '';
    if (region.folded) {
      label.attr('x', region.w / 2).attr('y', 17).attr('text-anchor', 'middle')
          .text(`+ part ${r + 1}: ${region.nodes.length} nodes, ${milliseconds(ms)}${same}`);
      const counts = d3.nest().key((node) => node.operator).rollup((nodes) => nodes.length).entries(region.nodes)
          .sort((a, b) => b.value - a.value).slice(0, 3).map((c) => `${c.key} ${c.value}`).join(', ');
      group.append('text').attr('class', 'label').attr('x', region.w / 2).attr('y', 32).attr('text-anchor', 'middle').text(counts).on('click', toggle);
      return;
    }
    label.attr('x', 6).attr('y', 12).text(`- part ${r + 1}, ${milliseconds(ms)}${same}`);
    const inner = group.append('g').attr('transform', `translate(0,${GraphView.kLabel})`);
    inner.selectAll('path').data(region.edges).enter().append('path').attr('class', 'edge').attr('d', (path) => path);
    const nodes = inner.selectAll('g.node').data(region.nodes).enter().append('g')
        .attr('class', (node) => `node ${node.kept ? 'kept' : 'changed'}`)
        .attr('transform', (node) => `translate(${node.x},${node.y})`)
        .on('click', (node) => { d3.event.stopPropagation(); this.onSelect(node); })
        .each(function(node) { node.element = this; });
    nodes.append('rect').attr('rx', 4).attr('x', (node) => -node.w / 2).attr('y', -17).attr('width', (node) => node.w).attr('height', 34)
        .style('fill', (node) => node.colour || null).style('fill-opacity', (node) => node.colour ? 0.45 : null);
    nodes.append('text').attr('y', -3).text((node) => node.operator);
    nodes.append('text').attr('class', 'shape').attr('y', 11).text((node) => node.shape.length > 28 ? node.shape.slice(0, 27) + '…' : node.shape);
    nodes.append('title').text((node) => `${node.name}\n${node.attributes}\n${milliseconds(node.ms)}`);
    this.mark(region.nodes);
  }

  setFolded(regions, folded) {
    for (const region of regions) {
      region.folded = folded;
      if (folded) for (const node of region.nodes) node.element = null;
    }
    this.draw();
  }

  fit(animated = true) {
    const {width, height} = this.svg.node().getBoundingClientRect();
    if (!width || !height) return;
    const scale = Math.min(1.2, width / (this.size.width + 60), Math.max(height / (this.size.height + 80), 0.6));
    const whole = scale * this.size.height <= height - 40;
    this.move(d3.zoomIdentity.translate(width / 2, whole ? (height - scale * this.size.height) / 2 : 40).scale(scale), animated);
  }

  move(transform, animated) {
    const still = !animated || matchMedia('(prefers-reduced-motion: reduce)').matches;
    (still ? this.svg : this.svg.transition().duration(250)).call(this.zoom.transform, transform);
  }

  // Unfolds what the node stands in and brings it to the middle.
  show(node) {
    const region = this.regions[node.region];
    if (region.folded) this.setFolded([region], false);
    const {width, height} = this.svg.node().getBoundingClientRect();
    const scale = Math.max(0.8, d3.zoomTransform(this.svg.node()).k);
    const x = region.x + node.x;
    const y = region.y + GraphView.kLabel + node.y;
    this.move(d3.zoomIdentity.translate(width / 2 - scale * x, height / 2 - scale * y).scale(scale), true);
  }

  mark(nodes = this.nodes) {
    for (const node of nodes)
      if (node.element) d3.select(node.element).classed('selected', node === this.selected).classed('found', Boolean(node.found));
  }

  select(node) {
    this.selected = node;
    this.mark();
  }

  key(event) {
    const pan = {ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0]}[event.key];
    if (pan && !this.selected) this.svg.call(this.zoom.translateBy, ...pan.map((p) => p / d3.zoomTransform(this.svg.node()).k));
    else if (pan) this.follow(event.key);
    else if (event.key === '+' || event.key === '=') this.svg.call(this.zoom.scaleBy, 1.3);
    else if (event.key === '-') this.svg.call(this.zoom.scaleBy, 1 / 1.3);
    else if (event.key === '0') this.fit();
    else if (event.key === 'Escape') this.onSelect(null);
    else if (event.key === 'Enter' && !this.selected && this.nodes.length) this.choose(this.nodes[0]);
    else return;
    event.preventDefault();
  }

  // Up: what made the first operand; down: what reads the result; left and right: others that read the same.
  follow(key) {
    const node = this.selected;
    const made = node.inputs.map((value) => this.producers.get(value.name)).find(Boolean);
    const read = node.outputs.flatMap((value) => this.users.get(value.name) || []);
    const beside = node.inputs.filter((value) => !value.constant).flatMap((value) => this.users.get(value.name) || []);
    const at = beside.indexOf(node);
    const next = {ArrowUp: made, ArrowDown: read[0], ArrowLeft: beside[at - 1], ArrowRight: beside[at + 1]}[key];
    if (next) this.choose(next);
  }

  choose(node) {
    this.onSelect(node);
    this.show(node);
  }
}
