/**
 * A file that the kernel hands over, to be saved by the user.
 *
 * Contract: a browser never opens it in the front end's name, where its scripts could do what the user can: its type is
 * one that is only saved. At most one file is held.
 */

import { h } from "./dom.js";

export class Download {
  constructor() {
    /** @type {{ name: string, href: string } | null} */
    this.offered = null;
    /** Whether the user has just asked for a file, which is then saved without another click. */
    this.wanted = false;
  }

  /**
   * Hold a file, instead of the one before.
   *
   * @param {{ name: string, html: string }} file
   */
  offer({ name, html }) {
    this.forget();
    this.offered = { name, href: URL.createObjectURL(new Blob([html], { type: "application/octet-stream" })) };
    if (this.wanted) h("a", { href: this.offered.href, download: name }).click();
    this.wanted = false;
  }

  forget() {
    if (this.offered) URL.revokeObjectURL(this.offered.href);
    this.offered = null;
  }
}
