/**
 * As much of a document's nodes as `morph` touches, for tests in Node; everything else is tested in a real browser.
 */

class FakeNode {
  constructor(nodeName) {
    this.nodeName = nodeName;
    this.parent = null;
    this.children = [];
  }

  get firstChild() {
    return this.children[0] ?? null;
  }

  get nextSibling() {
    return this.parent?.children[this.parent.children.indexOf(this) + 1] ?? null;
  }

  removeChild(child) {
    this.children.splice(this.children.indexOf(child), 1);
    child.parent = null;
  }

  insert(child, index) {
    child.parent?.removeChild(child);
    this.children.splice(index, 0, child);
    child.parent = this;
  }

  appendChild(child) {
    this.insert(child, this.children.length);
  }

  replaceChild(child, old) {
    child.parent?.removeChild(child);
    this.insert(child, this.children.indexOf(old));
    this.removeChild(old);
  }
}

class FakeText extends FakeNode {
  constructor(data) {
    super("#text");
    this.data = data;
    this.appended = [];
  }

  appendData(data) {
    this.data += data;
    this.appended.push(data);
  }

  toString() {
    return this.data;
  }
}

class FakeElement extends FakeNode {
  constructor(nodeName, values, children) {
    super(nodeName);
    this.values = new Map(Object.entries(values));
    for (const child of children) this.appendChild(typeof child === "string" ? new FakeText(child) : child);
  }

  get attributes() {
    return [...this.values].map(([name, value]) => ({ name, value }));
  }

  hasAttribute(name) {
    return this.values.has(name);
  }

  getAttribute(name) {
    return this.values.get(name) ?? null;
  }

  setAttribute(name, value) {
    this.values.set(name, value);
  }

  removeAttribute(name) {
    this.values.delete(name);
  }

  toString() {
    const attributes = this.attributes.map(({ name, value }) => ` ${name}="${value}"`).join("");
    return `<${this.nodeName}${attributes}>${this.children.join("")}</${this.nodeName}>`;
  }
}

Object.assign(globalThis, { Element: FakeElement, Text: FakeText });

/** An element; strings among the children become text nodes. */
export function element(nodeName, values = {}, ...children) {
  return new FakeElement(nodeName, values, children);
}
