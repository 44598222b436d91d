// Build the page's script and style into the Python package: `npm ci && npm run build`.
// The first line of the script names the digest of its sources, which a test compares.
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { build } from 'esbuild'

const digest = createHash('sha256')
for (const name of readdirSync('src').sort()) digest.update(readFileSync(`src/${name}`))
const banner = `/* sources ${digest.digest('hex')}; with Preact 11.2.0, copyright (c) 2015-present Jason Miller, MIT licence */`
const out = '../kaosmem/view/assets'

await build({
  entryPoints: ['src/main.jsx'],
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2020',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'ascii',
  banner: { js: banner },
  outfile: `${out}/page.js`,
})
await build({ entryPoints: ['src/page.css'], minify: true, outfile: `${out}/page.css` })
