// Puts the page together: build_page.mjs FOLDER_OF_NODE_MODULES OUTPUT.cpp
// The page's modules become one script, since a page opened from disk cannot import other files.
import {readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {Script} from 'node:vm';

const here = dirname(fileURLToPath(import.meta.url));
const [packages, output] = process.argv.slice(2);
const kEntry = 'main.js';
const kPartBytes = 16000;  // a literal of 64 KiB is portable; escapes are longer than their bytes

function fail(message) {
  console.error(`build_page: ${message}`);
  process.exit(1);
}

// Modules in the order in which they must run.
function modulesFrom(entry) {
  const order = [];
  const seen = new Set();
  const visit = (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    const text = readFileSync(join(here, 'src', name), 'utf8');
    for (const [, other] of text.matchAll(/^import [^;]*? from '\.\/([\w.]+)';$/gm)) visit(other);
    order.push({name, text});
  };
  visit(entry);
  return order;
}

// 'columns.js' -> 'columns_module'
const variable = (name) => `${name.replace(/\W.*$/, '')}_module`;

// Each module is a function that returns what it exports.
function bundle(modules) {
  const parts = modules.map(({name, text}) => {
    const exported = [];
    for (const [, word] of text.matchAll(
             /^export (?:async )?(?:function\*?|const|let|class) (\w+)/gm)) {
      exported.push(word);
    }
    const body = text.replace(
                         /^import (\{[^}]*\}) from '\.\/([\w.]+)';$/gm,
                         (_, names, from) => `const ${names} = ${variable(from)};`)
                     .replace(/^export /gm, '');
    if (/^import /m.test(body)) fail(`${name}: only import {names} from './file.js' is understood`);
    return `const ${variable(name)} = (() => {\n${body}return {${exported.join(', ')}};\n})();\n`;
  });
  return `'use strict';\n(() => {\n${parts.join('')}})();`;
}

const uplot = join(packages, 'uplot');
const {version} = JSON.parse(readFileSync(join(uplot, 'package.json'), 'utf8'));
const licence = readFileSync(join(uplot, 'LICENSE'), 'utf8').trim();
const pieces = {
  notice: `uPlot ${version}, https://github.com/leeoniya/uPlot\n\n${licence}`,
  style: readFileSync(join(uplot, 'dist/uPlot.min.css'), 'utf8') +
      readFileSync(join(here, 'style.css'), 'utf8'),
  uplot: readFileSync(join(uplot, 'dist/uPlot.iife.min.js'), 'utf8'),
  script: bundle(modulesFrom(kEntry)),
};
for (const name of ['uplot', 'script']) {
  if (/<\/script/i.test(pieces[name])) fail(`${name} would end its own script element`);
}
new Script(pieces.script);  // throws where it is no JavaScript
let page = readFileSync(join(here, 'page.html'), 'utf8');
for (const [name, text] of Object.entries(pieces)) {
  const mark = `{{${name}}}`;
  if (page.split(mark).length !== 2) fail(`page.html must hold ${mark} once`);
  page = page.split(mark).join(text);
}

// As C++: escaped byte by byte, three octal digits so that no digit can follow an escape.
const bytes = Buffer.from(page, 'utf8');
const literals = [];
for (let i = 0; i < bytes.length; i += kPartBytes) {
  let literal = '';
  for (const byte of bytes.subarray(i, i + kPartBytes)) {
    const c = String.fromCharCode(byte);
    if (c === '\n')
      literal += '\\n';
    else if (c === '"' || c === '\\' || c === '?')
      literal += `\\${c}`;
    else if (byte < 32 || byte > 126)
      literal += `\\${byte.toString(8).padStart(3, '0')}`;
    else
      literal += c;
  }
  literals.push(`    "${literal}",\n`);
}
writeFileSync(output, `#include "plots/report/page.hpp"

#include <array>

namespace tidemark {
namespace {
constexpr std::array<std::string_view, ${literals.length}> kParts{
${literals.join('')}};
}

std::span<const std::string_view> page_parts() {
  return kParts;
}

}  // namespace tidemark
`);
