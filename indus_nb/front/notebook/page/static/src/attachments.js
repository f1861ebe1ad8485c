/**
 * Images for the next message, and files: chosen, dropped or pasted.
 *
 * Contract: what the kernel would reject is left out here, with a sentence that says why. A file that the kernel can
 * reach, dragged from the front end's list of files, is not copied: its path is written.
 */

import { Changes } from "./changes.js";
import { h } from "./dom.js";
import { relativePath } from "./text.js";

/** @import { DraftImage } from "./draft.js" */
/** @import { Store } from "./store.js" */

const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MAX_IMAGE_BYTES = 5e6;
const MAX_IMAGES = 8;
const MAX_FILE_BYTES = 5e6;
/** What JupyterLab's list of files gives along: paths from the server's root. */
const PATHS_TYPE = "application/x-jupyter-icontents";

/** A drag of JupyterLab's own, which is none of the browser's.
 * @typedef {Event & { mimeData?: { hasData(type: string): boolean, getData(type: string): unknown },
 *   dropAction?: string, proposedAction?: string }} LabDrag
 */

export class Attachments {
  /**
   * @param {Store} store
   * @param {() => void} focusField is called when the button that has the focus goes away
   */
  constructor(store, focusField) {
    this.store = store;
    this.focusField = focusField;
    this.shown = "";
    this.node = h("div", { class: "ia-images" });
    this.input = h("input", {
      type: "file",
      multiple: true,
      hidden: true,
      onchange: () => this.attach([...(this.input.files ?? [])]),
    });
    this.button = h("button", {
      class: "ia-icon",
      type: "button",
      title: "Attach images, or save files in the working directory",
      "aria-label": "Attach images",
      text: "+",
      onclick: () => this.input.click(),
    });
  }

  show() {
    const { images } = this.store.draft;
    this.node.hidden = images.length === 0;
    const shown = images.map((image) => image.id).join();
    if (shown === this.shown) return;
    this.shown = shown;
    this.node.replaceChildren(...images.map((image) => this.thumbnail(image)));
  }

  /** @param {DraftImage} image */
  thumbnail(image) {
    const { draft } = this.store;
    const remove = () => {
      draft.images = draft.images.filter((each) => each !== image);
      this.store.show(new Changes("composer"));
      this.focusField();
    };
    const label = `Remove ${image.name}`;
    return h(
      "div",
      { class: "ia-image" },
      h("img", { src: `data:${image.mimeType};base64,${image.data}`, alt: image.name, title: image.name }),
      h("button", { class: "ia-icon", type: "button", "aria-label": label, text: "✕", onclick: remove }),
    );
  }

  /** @param {File[]} files */
  async attach(files) {
    const { draft } = this.store;
    const problems = [];
    for (const file of files) {
      const isImage = IMAGE_TYPES.includes(file.type);
      const problem = isImage
        ? (imageProblem(file, draft.images.length) ?? (await this.read(file)))
        : (fileProblem(file) ?? (await this.hand(file)));
      if (problem) problems.push(problem);
    }
    this.input.value = "";
    draft.problem = problems.join(" ");
    this.store.show(new Changes("composer"));
  }

  /**
   * @param {File} file
   * @returns {Promise<string | null>} what went wrong
   */
  async read(file) {
    try {
      const url = await dataUrl(file);
      const data = url.slice(url.indexOf(",") + 1);
      this.store.draft.images.push({ id: Math.random(), name: file.name, mimeType: file.type, data });
      return null;
    } catch (error) {
      return `${file.name} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  /**
   * Hand a file to the kernel, which asks whether to save it.
   *
   * @param {File} file
   * @returns {Promise<string | null>} what went wrong
   */
  async hand(file) {
    try {
      const url = await dataUrl(file);
      this.store.send({ kind: "file", name: file.name.slice(-255), data: url.slice(url.indexOf(",") + 1) });
      return null;
    } catch (error) {
      return `${file.name} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  /**
   * Write the paths of files that are dragged here from JupyterLab's list of files.
   *
   * @param {LabDrag} event
   */
  acceptPaths(event) {
    const paths = event.mimeData?.hasData(PATHS_TYPE) ? event.mimeData.getData(PATHS_TYPE) : null;
    if (!Array.isArray(paths)) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.type !== "lm-drop") {
      event.dropAction = "copy";
      return;
    }
    event.dropAction = "copy";
    const notebook = this.store.path;
    for (const path of paths) this.store.draft.add(mention(relativePath(String(path), notebook)));
    this.store.show(new Changes("composer"));
    this.focusField();
  }

  /**
   * Take over files that are dropped on an element.
   *
   * @param {HTMLElement} node
   */
  acceptDrops(node) {
    node.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      node.classList.add("ia-dropping");
    });
    for (const type of ["lm-dragenter", "lm-dragover", "lm-drop"])
      node.addEventListener(type, (event) => {
        this.acceptPaths(event);
        node.classList.toggle("ia-dropping", type !== "lm-drop" && event.defaultPrevented);
      });
    node.addEventListener("lm-dragleave", () => node.classList.remove("ia-dropping"));
    node.addEventListener("dragleave", () => node.classList.remove("ia-dropping"));
    node.addEventListener("drop", (event) => {
      node.classList.remove("ia-dropping");
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      event.stopPropagation();
      this.attach([...event.dataTransfer.files]);
    });
  }

  /**
   * Take over pasted files.
   *
   * @param {ClipboardEvent} event
   */
  acceptPaste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    this.attach(files);
  }
}

/**
 * Say why a file cannot be attached; `null` if it can.
 *
 * @param {{ name: string, type: string, size: number }} file `size` in bytes
 * @param {number} attached how many images are attached already
 */
export function imageProblem({ name, type, size }, attached) {
  if (!IMAGE_TYPES.includes(type)) return `${name} is no PNG, JPEG, GIF or WebP image.`;
  if (size > MAX_IMAGE_BYTES) {
    const limit = MAX_IMAGE_BYTES / 1e6;
    return `${name} has ${(size / 1e6).toFixed(1)} MB; an image may have ${limit} MB.`;
  }
  if (attached >= MAX_IMAGES) return `${name} was left out: a message may hold ${MAX_IMAGES} images.`;
  return null;
}

/**
 * Say why a file cannot be saved beside the notebook; `null` if it can.
 *
 * @param {{ name: string, size: number }} file `size` in bytes
 */
export function fileProblem({ name, size }) {
  if (size <= MAX_FILE_BYTES) return null;
  const limit = MAX_FILE_BYTES / 1e6;
  return `${name} has ${(size / 1e6).toFixed(1)} MB; more than ${limit} MB go into the list of files, and from there here.`;
}

/**
 * Write a path as a prompt mentions it.
 *
 * @param {string} path
 */
function mention(path) {
  return /\s/.test(path) ? `"${path}"` : `@${path}`;
}

/**
 * @param {File} file
 * @returns {Promise<string>}
 */
function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
