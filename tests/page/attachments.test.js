import assert from "node:assert/strict";
import { test } from "node:test";
import { imageProblem } from "../../indus_nb/front/notebook/page/static/src/attachments.js";

const image = { name: "a.png", type: "image/png", size: 1000 };

test("images that the kernel takes are attached, up to eight", () => {
  assert.equal(imageProblem(image, 7), null);
  assert.equal(imageProblem({ ...image, size: 5e6 }, 0), null);
  assert.equal(imageProblem(image, 8), "a.png was left out: a message may hold 8 images.");
});

test("what is too large or no image is left out with a reason", () => {
  assert.equal(imageProblem({ ...image, size: 6.25e6 }, 0), "a.png has 6.3 MB; an image may have 5 MB.");
  const problem = "a.svg is no PNG, JPEG, GIF or WebP image.";
  assert.equal(imageProblem({ name: "a.svg", type: "image/svg+xml", size: 10 }, 0), problem);
});
