declare module "*.css" {
  const text: string;
  export default text;
}

/** The text of a picture. */
declare module "*.svg" {
  const svg: string;
  export default svg;
}
