/**
 * The container that JupyterLab loads extensions from: it is given what the application shares, and gives the plugins.
 *
 * Contract: nothing of the extension is evaluated before JupyterLab asks for it, and no library of the application is
 * there twice.
 */

/** A version of a library that the application or an extension shares. */
interface Shared {
  get(): Promise<() => unknown>;
  loaded?: unknown;
}

/** Shared libraries by name and version. */
type ShareScope = Record<string, Record<string, Shared>>;

/** Names of the libraries that the extension takes from the application; the build fills them in. */
declare const SHARED_LIBRARIES: readonly string[];
/** The build has every import of a shared library call this. */
declare const require: { (name: string): unknown; libraries: Record<string, unknown> };

let scope: ShareScope = {};

const container = {
  init(given: ShareScope): void {
    scope = given;
  },

  async get(): Promise<() => unknown> {
    const loaded = await Promise.all(SHARED_LIBRARIES.map(async (name) => [name, await library(name)] as const));
    require.libraries = Object.fromEntries(loaded);
    return () => require("./index.ts");
  },
};

async function library(name: string): Promise<unknown> {
  const versions = Object.entries(scope[name] ?? {});
  const chosen = versions.find(([, { loaded }]) => loaded) ?? versions.sort(newestFirst)[0];
  if (!chosen) throw new Error(`indus_nb needs ${name}, which this application does not share.`);
  return (await chosen[1].get())();
}

function newestFirst([one]: [string, Shared], [other]: [string, Shared]): number {
  return other.localeCompare(one, "en", { numeric: true });
}

const page = globalThis as { _JUPYTERLAB?: Record<string, unknown> };
page._JUPYTERLAB = { ...page._JUPYTERLAB, indus_nb: container };
