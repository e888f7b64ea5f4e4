// Starts the page: theme, records, and the views whose sections are in this file.

function startTheme() {
  for (const input of document.querySelectorAll(".theme input"))
    input.addEventListener("change", () => {
      if (input.value === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = input.value;
    });
}

async function start() {
  startTheme();
  // Paper shows what is folded away on a screen.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  const records = JSON.parse(byId("data").textContent);
  const wasm = byId("wasm");
  if (wasm) {
    const core = await loadCore(wasm.textContent);
    let merge = null;
    const stepper = makeStepper(core, () => merge?.show());
    merge = makeMergeView(core, stepper.row);
    merge.show();
    makeCostsView(core, records);
    // For the console: the library's own arithmetic.
    globalThis.runmax = core;
  }
  makeResultsView(records);
  document.documentElement.dataset.ready = "";
}

start().catch((error) => {
  const box = byId("failure");
  box.textContent = `This page could not start: ${error.message}`;
  box.hidden = false;
  throw error;
});
