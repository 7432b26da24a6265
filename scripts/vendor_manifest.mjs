// Writes the icons that the console uses, the licences, and the manifest with versions and hashes; run by scripts/vendor.
import {createHash} from "node:crypto";
import {readFileSync, writeFileSync} from "node:fs";

const [modules, out] = process.argv.slice(2);
const ICONS = (
  "activity text-align-start arrow-down arrow-left arrow-right arrow-up bell book book-open bot brain chart-line check " +
  "chevron-down chevron-right chevron-up circle-alert circle-check circle-question-mark clock cloud copy corner-down-right database " +
  "download ellipsis external-link eye file file-clock file-text flask-conical folder folder-tree globe grip-vertical " +
  "inbox key languages layers layout-dashboard link list-tree lock log-out megaphone menu message-square " +
  "message-square-text monitor moon network package panel-left pencil play plug plus quote receipt-text refresh-cw rotate-ccw " +
  "save scale scroll-text search send server settings shapes share-2 shield sliders-horizontal sparkles square star sun tag " +
  "trash triangle-alert undo-2 upload user users waypoints wrench x zap"
).split(" ");
const PACKAGES = {
  lit: ["lit", ["lit.js"]],
  uplot: ["uplot", ["uplot.js", "uplot.css"]],
  lucide: ["lucide-static", ["icons.js"]],
  inter: ["@fontsource-variable/inter", ["inter.woff2"]],
};

const read = (path) => readFileSync(`${modules}/${path}`, "utf8");
const nodes = JSON.parse(read("lucide-static/icon-nodes.json"));
const lines = ICONS.map((name) => {
  if (!nodes[name]) throw new Error(`lucide has no icon ${name}`);
  return `  ${JSON.stringify(name)}: ${JSON.stringify(nodes[name])},`;
});
writeFileSync(`${out}/icons.js`, `export const ICONS = {\n${lines.join("\n")}\n};\n`);

const manifest = Object.entries(PACKAGES).map(([name, [source, files]]) => {
  const about = JSON.parse(read(`${source}/package.json`));
  writeFileSync(`${out}/${name}.LICENSE.txt`, read(`${source}/LICENSE`));
  const hashes = files.map((file) => [file, createHash("sha256").update(readFileSync(`${out}/${file}`)).digest("hex")]);
  return {name, package: source, version: about.version, licence: about.license, sha256: Object.fromEntries(hashes)};
});
writeFileSync(`${out}/manifest.json`, `${JSON.stringify(manifest, null, 2)}\n`);
