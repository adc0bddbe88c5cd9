// What can be taken along: the address, the command, files.

import { save } from "./dom.js";

const pipe = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const MOST_CHARACTERS = 60_000;
const MOST_BYTES = 1_000_000;

/** The part of the address behind `#`: the scenario's text (contestants and seed are in it) and the text of one's own controllers. */
export const address = async ({ scenario, own }) => {
  const bytes = new TextEncoder().encode(JSON.stringify(own ? { scenario, own } : { scenario }));
  return `s=${base64(await pipe(bytes, new CompressionStream("deflate-raw")))}`;
};

/** What such an address says: { preset } or { scenario, own }; undefined if it says nothing that can be read. */
export const fromAddress = async (hash) => {
  const [, kind, value] = /^#?(s|preset)=([\w-]+)$/.exec(hash) ?? [];
  if (kind === "preset") return { preset: value };
  if (!kind || value.length > MOST_CHARACTERS) return undefined;
  try {
    const bytes = Uint8Array.from(atob(value.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
    const text = new TextDecoder().decode(await pipe(bytes, new DecompressionStream("deflate-raw")));
    if (text.length > MOST_BYTES) return undefined;
    const { scenario, own = "" } = JSON.parse(text);
    return typeof scenario === "string" && typeof own === "string" ? { scenario, own } : undefined;
  } catch {
    return undefined;
  }
};

/** The command that gives the same records, for a scenario saved as this file. */
export const command = (file) => `paceline race scenarios/${file} --json records.jsonl --digests -`;

/** The picture as SVG, or as PNG with twice as many pixels. */
export const savePicture = async (picture, name, kind) => {
  const { text, width, height } = picture;
  if (kind === "svg") return save(`${name}.svg`, `<?xml version="1.0" encoding="UTF-8"?>\n${text}\n`, "image/svg+xml");
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * 2, height * 2];
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.drawImage(image, 0, 0);
  return canvas.toBlob((blob) => save(`${name}.png`, blob));
};
