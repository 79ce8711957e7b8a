// Shared by the pages.
function milliseconds(ms) {
  return ms >= 0.1 || ms === 0 ? `${d3.format('.3~f')(ms)} ms` : `${d3.format('.3~r')(ms * 1e3)} us`;
}

function save(id, file, text) {
  d3.select(id).on('click', () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

// The search field and its buttons, over the nodes of all views. hasWord(node, word): is the node one that is looked for?
// Returns a function that finds the nodes for which a test holds.
function setUpSearch(views, hasWord) {
  const input = document.getElementById('search');
  let found = [];
  let at = -1;
  const tell = () => d3.select('#found').text(found.length ? `${at + 1} of ${found.length}` : input.value ? 'nothing' : '');
  const go = (step) => {
    if (!found.length) return;
    at = (at + step + found.length) % found.length;
    found[at].view.choose(found[at]);
    tell();
  };
  const find = (matches) => {
    const all = views.flatMap((view) => view.nodes);
    for (const node of all) node.found = matches(node);
    found = all.filter((node) => node.found);
    at = -1;
    for (const view of views) view.mark();
    if (found.length) go(1);
    tell();
  };
  input.addEventListener('input', () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    find((node) => words.length > 0 && words.every((word) => hasWord(node, word)));
  });
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') go(event.shiftKey ? -1 : 1);
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target === input) return;
    event.preventDefault();
    input.focus();
  });
  d3.select('#previous').on('click', () => go(-1));
  d3.select('#next').on('click', () => go(1));
  return (matches) => {
    input.value = '';
    find(matches);
  };
}

function setUpFolding(views) {
  const each = (action) => () => views.forEach(action);
  d3.select('#fold').on('click', each((view) => { view.setFolded(view.regions, true); view.fit(); }));
  d3.select('#unfold').on('click', each((view) => { view.setFolded(view.regions, false); view.fit(); }));
  d3.select('#fit').on('click', each((view) => view.fit()));
}
