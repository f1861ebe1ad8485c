/**
 * Builds the extension of JupyterLab from indus_nb/lab/src into a directory.
 *
 *     node tests/labextension.mjs TOOLS OUTPUT VERSION
 *
 * TOOLS holds the node_modules of package.json. What the application shares is taken from it and never bundled.
 */

import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [tools, output, version] = process.argv.slice(2);
const lab = join(dirname(dirname(fileURLToPath(import.meta.url))), "indus_nb", "lab");
const { build } = createRequire(join(tools, "package.json"))("esbuild");

const options = {
  entryPoints: [join(lab, "src", "container.ts")],
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  format: "cjs",
  target: "es2021",
  charset: "utf8",
  legalComments: "none",
  nodePaths: [join(tools, "node_modules")],
  loader: { ".css": "text", ".svg": "text" },
  external: ["@jupyterlab/*", "@lumino/*", "@jupyter/ydoc", "yjs", "react", "react-dom"].concat(
    ["state", "view", "language"].map((name) => `@codemirror/${name}`),
    ["common", "highlight"].map((name) => `@lezer/${name}`),
  ),
  banner: { js: "(()=>{const require=(name)=>require.libraries[name];" },
  footer: { js: "})();" },
};
const first = await build({ ...options, define: { SHARED_LIBRARIES: "[]" } });
const imports = Object.values(first.metafile.outputs).flatMap((made) => made.imports);
const shared = [...new Set(imports.filter(({ external }) => external).map(({ path }) => path))].sort();
const made = await build({ ...options, define: { SHARED_LIBRARIES: JSON.stringify(shared) } });
const { text } = made.outputFiles[0];
const [{ inputs }] = Object.values(made.metafile.outputs);
const bundled = Object.keys(inputs).filter((path) => inputs[path].bytesInOutput > 0);
const entry = `static/remoteEntry.${createHash("sha256").update(text).digest("hex").slice(0, 16)}.js`;
const description = {
  name: "indus_nb",
  version,
  description: "A coding agent in the notebook's own kernel",
  license: "MIT",
  jupyterlab: { extension: true, schemaDir: "schema", _build: { load: entry, extension: "./extension" } },
};

rmSync(output, { recursive: true, force: true });
mkdirSync(join(output, "static"), { recursive: true });
writeFileSync(join(output, entry), text);
writeFileSync(join(output, "package.json"), `${JSON.stringify(description, null, 2)}\n`);
writeFileSync(join(output, "static", "third-party-licenses.json"), licensesOf(bundled));
cpSync(join(lab, "schema"), join(output, "schemas", "indus_nb"), { recursive: true });
cpSync(join(lab, "install.json"), join(output, "install.json"));

/** The licences of the libraries in the bundle, in the format that JupyterLab shows below Help. */
function licensesOf(paths) {
  const libraries = paths
    .filter((path) => path.includes("node_modules/"))
    .map((path) => path.split("node_modules/")[1]);
  const names = libraries.map((path) => path.split("/", path.startsWith("@") ? 2 : 1).join("/"));
  const packages = [...new Set(names)].sort().map((name) => {
    const place = join(tools, "node_modules", name);
    const { license, version } = JSON.parse(readFileSync(join(place, "package.json"), "utf8"));
    const extractedText = readFileSync(join(place, "LICENSE"), "utf8");
    return { name, versionInfo: version, licenseId: license, extractedText };
  });
  return `${JSON.stringify({ packages }, null, 2)}\n`;
}
