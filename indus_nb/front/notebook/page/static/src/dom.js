/**
 * Elements: how they are made, and how their content is replaced.
 *
 * Contract: text becomes text. Nothing here parses HTML; the only place that does is `blocks.js`.
 */

/** @typedef {Record<string, unknown>} Props */

/**
 * Make an element; strings among the children become text, never HTML.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props] attributes, of which `null`, `undefined` and `false` are left out; `on…` are listeners, and
 *   `text` and `value` are set as properties
 * @param {...(Node | string | null)} children of which `null` is left out
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "text") node.textContent = String(value);
    else if (name === "value") Object.assign(node, { value });
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/**
 * Set the text of an element that is hidden while it has none; one that is right already is not touched.
 *
 * @param {HTMLElement} node
 * @param {string | null | undefined} text
 */
export function setText(node, text) {
  const shown = text ?? "";
  if (node.textContent !== shown) node.textContent = shown;
  node.hidden = shown === "";
}

/** An id for an element, different in each view. */
export function uniqueId() {
  return `ia-${Math.random().toString(36).slice(2)}`;
}

/** Elements of ours among those of blocks: `morph` leaves them where they are.
 * @type {WeakSet<Node>} */
const ownNodes = new WeakSet();

/**
 * Protect an element that was added to a block from `morph`.
 *
 * @param {Node} node
 */
export function markOwn(node) {
  ownNodes.add(node);
}

/**
 * Whether an element was added to a block by this page.
 *
 * @param {Node | null} node
 */
export function isOwn(node) {
  return node !== null && ownNodes.has(node);
}

/** The property with the id of the question that an element shows: no HTML can have it, and every bundle finds it. */
const QUESTION = Symbol.for("indus_nb.question");

/**
 * Have an element known as one that shows a question.
 *
 * @param {Element} node
 * @param {string} id
 */
export function markQuestion(node, id) {
  Object.assign(node, { [QUESTION]: id });
}

/**
 * The id of the question that an element shows; `undefined` if it is none of ours.
 *
 * @param {Element} node
 * @returns {string | undefined}
 */
export function questionOf(node) {
  return Reflect.get(node, QUESTION);
}

/**
 * Make the children of `old` those of `fresh`, and keep nodes, so that selection, scroll and focus survive.
 *
 * @param {Node} old
 * @param {Node} fresh loses those of its children that are taken over
 */
export function morph(old, fresh) {
  let before = nextForeign(old.firstChild);
  for (let after = fresh.firstChild; after; ) {
    const next = after.nextSibling;
    if (!before) old.appendChild(after);
    else if (before.nodeName === after.nodeName) {
      morphNode(before, after);
      before = nextForeign(before.nextSibling);
    } else {
      const gone = before;
      before = nextForeign(before.nextSibling);
      old.replaceChild(after, gone);
    }
    after = next;
  }
  while (before) {
    const gone = before;
    before = nextForeign(before.nextSibling);
    old.removeChild(gone);
  }
}

/** @param {ChildNode | null} node */
function nextForeign(node) {
  let next = node;
  while (next && ownNodes.has(next)) next = next.nextSibling;
  return next;
}

/**
 * Make a node what another one of its kind is.
 *
 * @param {Node} before
 * @param {Node} after
 */
function morphNode(before, after) {
  if (before instanceof Text && after instanceof Text) {
    if (after.data.startsWith(before.data)) before.appendData(after.data.slice(before.data.length));
    else before.data = after.data;
  } else if (before instanceof Element && after instanceof Element) {
    morphAttributes(before, after);
    morph(before, after);
  }
}

/**
 * @param {Element} before
 * @param {Element} after
 */
function morphAttributes(before, after) {
  for (const { name } of [...before.attributes]) if (!after.hasAttribute(name)) before.removeAttribute(name);
  for (const { name, value } of after.attributes)
    if (before.getAttribute(name) !== value) before.setAttribute(name, value);
}
