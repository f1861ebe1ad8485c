// The Markdown of JupyterLab, from its own bundle: `node lab_markdown.cjs STATIC` reads a JSON array of texts from
// standard input, and writes one of pages: each text with its formulas taken out first, as JupyterLab does.
const fs = require("node:fs");
const path = require("node:path");

const directory = process.argv[2];

/** The bundle's module whose code has `sign` in it. */
function moduleWith(sign) {
  for (const name of fs.readdirSync(directory).filter((each) => each.endsWith(".js"))) {
    const code = fs.readFileSync(path.join(directory, name), "utf8");
    if (!code.includes(sign)) continue;
    const page = {};
    new Function("self", "window", code)(page, page);
    const chunks = Object.values(page).find(Array.isArray) ?? [];
    const found = chunks.flatMap((chunk) => Object.values(chunk[1])).find((each) => String(each).includes(sign));
    if (found) return exportsOf(found);
  }
  throw new Error(`No module of JupyterLab has ${sign} in it.`);
}

function exportsOf(definition) {
  const module = { exports: {} };
  const load = () => ({});
  load.d = (target, getters) => {
    for (const name in getters) Object.defineProperty(target, name, { get: getters[name], enumerable: true });
  };
  load.r = () => {};
  load.n = (inner) => () => inner;
  definition(module, module.exports, load);
  return module.exports;
}

globalThis.navigator ??= { appName: "" };
const formulas = Object.values(moduleWith("@@\\d+@@"));
const take = formulas.find((each) => each.length === 1);
const putBack = formulas.find((each) => each.length === 2);
const { parse } = moduleWith("emStrongLDelim");

const pages = JSON.parse(fs.readFileSync(0, "utf8")).map((markdown) => {
  const { text, math } = take(markdown);
  return putBack(parse(text, { gfm: true }), math);
});
process.stdout.write(JSON.stringify(pages));
