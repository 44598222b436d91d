// All turns at a glance: tokens by section, rebases, and what they cost with and without a cache.
import { useMemo, useState } from 'preact/hooks'
import { turns } from './data.js'
import { VirtualList } from './list.jsx'
import { colorOf, count, day } from './parts.jsx'

const COLUMNS = 160

export function Session({ place, go }) {
  const [price, setPrice] = useState(3)
  const [cached, setCached] = useState(10)
  const cost = turn => (price / 1e6) * (turn.used - turn.prefix_tokens * (1 - cached / 100))
  const money = value => value.toLocaleString('en-US', { minimumFractionDigits: 4, maximumFractionDigits: 4 })
  const sent = turns.reduce((sum, turn) => sum + turn.used, 0)
  const reused = turns.reduce((sum, turn) => sum + turn.prefix_tokens, 0)
  const rebases = turns.filter(turn => turn.rebased).length
  const total = turns.reduce((sum, turn) => sum + cost(turn), 0)
  const rows = useMemo(() => turns.map((turn, at) => ({ ...turn, id: `turn-${turn.n}`, at_: at })).reverse(), [turns.length])
  return (
    <div class="session">
      <dl class="totals">
        <div><dt>turns</dt><dd>{count(turns.length)}</dd></div>
        <div><dt>tokens sent</dt><dd>{count(sent)}</dd></div>
        <div><dt>of these cached</dt><dd>{count(reused)} <span class="quiet">{((100 * reused) / Math.max(1, sent)).toFixed(0)} %</span></dd></div>
        <div><dt>rebases</dt><dd>{count(rebases)}</dd></div>
        <div><dt>cost without cache</dt><dd>{money((price / 1e6) * sent)}</dd></div>
        <div><dt>cost with cache</dt><dd>{money(total)}</dd></div>
      </dl>
      <form class="filters" onSubmit={event => event.preventDefault()}>
        <label>Price of a million tokens <input type="number" min="0" step="0.1" value={price} onInput={event => setPrice(Number(event.currentTarget.value))} /></label>
        <label>Cached tokens cost, % of it <input type="number" min="0" max="100" value={cached} onInput={event => setCached(Number(event.currentTarget.value))} /></label>
      </form>
      <p class="sums">Turn {count(turns[place].n)} cost <b>{money(cost(turns[place]))}</b> with cache and {money((price / 1e6) * turns[place].used)} without, replies not counted.</p>
      <Chart place={place} go={go} />
      <VirtualList rows={rows} height={38} label="Turns, newest first" selected={`turn-${turns[place].n}`} onSelect={row => go(row.at_)} empty=""
        draw={row => (
          <span class="meta turn-row"><span class="place">{row.n}</span><span class="quiet">{day(row.at, true)}</span>
            {row.rebased && <span class="rebased">packed anew: {row.rebased}</span>}
            <span class="line">{row.erased ? '(erased)' : row.query.slice(0, 300)}</span>
            <span class="figures"><span>{count(row.used)} tok</span><span class="quiet">{count(row.prefix_tokens)} cached</span><span title="cost with cache">{money(cost(row))}</span><span class="quiet" title="cost without cache">{money((price / 1e6) * row.used)}</span></span></span>
        )} />
    </div>
  )
}

function Chart({ place, go }) {
  const step = Math.max(1, Math.ceil(turns.length / COLUMNS))
  const columns = []
  for (let at = 0; at < turns.length; at += step) {
    const among = turns.slice(at, at + step)
    const largest = among.reduce((best, turn) => (turn.used > best.used ? turn : best), among[0])
    columns.push({ at, turn: largest, rebased: among.some(turn => turn.rebased), current: place >= at && place < at + step })
  }
  const most = Math.max(1, ...columns.map(({ turn }) => Math.max(turn.used, turn.budget)))
  const wide = 800 / columns.length
  return (
    <figure class="chart">
      <svg viewBox="0 0 800 150" preserveAspectRatio="none" role="img" aria-label={`Tokens by section over ${turns.length} turns`}
        onClick={event => {
          const box = event.currentTarget.getBoundingClientRect()
          const column = columns[Math.min(columns.length - 1, Math.floor((columns.length * (event.clientX - box.left)) / box.width))]
          go(column.at)
        }}>
        {columns.map(({ at, turn, rebased, current }, column) => {
          let top = 140
          return (
            <g key={at}>
              {current && <rect class="current" x={column * wide} y="0" width={wide} height="150" />}
              {[...Object.entries(turn.sections), ['', [turn.frame]]].map(([name, [used]]) => {
                const tall = (130 * used) / most
                top -= tall
                return <rect key={name} class={name ? '' : 'frame'} x={column * wide + 0.08 * wide} y={top} width={0.84 * wide} height={tall} fill={name ? colorOf(name) : undefined} />
              })}
              {turn.prefix_tokens > 0 && <line class="prefix-line" x1={column * wide} x2={(column + 1) * wide} y1={140 - (130 * turn.prefix_tokens) / most} y2={140 - (130 * turn.prefix_tokens) / most} />}
              {rebased && <rect class="rebase-mark" x={column * wide} y="142" width={Math.max(1.5, 0.84 * wide)} height="6" />}
            </g>
          )
        })}
      </svg>
      <figcaption class="quiet">Tokens by section and of the layout{step > 1 && `, the largest of ${step} turns a column`}. The line is the cached prefix; marks below are rebases. Click to go to a turn.</figcaption>
    </figure>
  )
}
