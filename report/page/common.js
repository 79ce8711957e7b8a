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
