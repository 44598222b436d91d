// What the session knows beside its turns: versions of facts, summaries with their originals, the graph.
import { useMemo, useState } from 'preact/hooks'
import { items, textOf } from './data.js'
import { count, day, SectionDot } from './parts.jsx'

const plain = () => Object.entries(items).filter(([key]) => !key.includes('\u0000'))

export function Memory({ setOpen }) {
  const facts = useMemo(factsOf, [items])
  const made = useMemo(() => plain().filter(([, item]) => !item.edge && ((item.sources || []).length || item.quotes)), [items])
  const edges = useMemo(() => plain().filter(([, item]) => item.edge).map(([id, item]) => ({ id, ...item.edge })), [items])
  return (
    <div class="memory" tabindex="0" role="region" aria-label="What the session knows">
      <h2>Facts that changed <span class="number">{count(facts.length)}</span></h2>
      {facts.length ? <TimeLines facts={facts} setOpen={setOpen} /> : <p class="empty">No key has more than one version.</p>}
      <h2>Summaries and formed memories <span class="number">{count(made.length)}</span></h2>
      {made.length ? made.slice(0, 200).map(([id, item]) => <Made key={id} id={id} item={item} setOpen={setOpen} />) : <p class="empty">No item was made from others.</p>}
      <h2>Graph <span class="number">{count(edges.length)}</span></h2>
      {edges.length ? <Neighbours edges={edges} setOpen={setOpen} /> : <p class="empty">The session has no relationships.</p>}
    </div>
  )
}

function factsOf() {
  const byKey = new Map()
  for (const [id, item] of plain()) {
    if (!item.key) continue
    const name = `${item.section}\u0000${item.key}`
    byKey.set(name, [...(byKey.get(name) || []), { id, ...item }])
  }
  const facts = [...byKey.values()].filter(versions => versions.length > 1)
  for (const versions of facts) versions.sort((a, b) => (a.from < b.from ? -1 : 1))
  return facts
}

// Each fact has its own line, as its versions may be years or seconds apart.
function TimeLines({ facts, setOpen }) {
  return (
    <ul class="lines">
      {facts.slice(0, 100).map(versions => {
        const times = versions.map(each => Date.parse(each.from))
        const span = Math.max(1, times[times.length - 1] - times[0])
        const exact = versions.some((each, place) => place && day(each.from) === day(versions[place - 1].from))
        return (
          <li key={versions[0].id}>
            <p><SectionDot name={versions[0].section} /> <b>{versions[0].key}</b> <span class="quiet">{versions[0].section}, {count(versions.length)} versions</span></p>
            <div class="line-of-time">
              {versions.map((each, place) => {
                const next = times[place + 1]
                const grow = next == null ? 0.4 : Math.max(0.1, (next - times[place]) / span)
                return <button key={each.id} type="button" class={next == null ? 'now' : 'past'} style={{ flexGrow: grow }}
                  title={`from ${day(each.from, true)}`} onClick={() => setOpen(each.id)}><span class="quiet">{day(each.from, exact)}</span> {textOf(each).slice(0, 80)}</button>
              })}
            </div>
            <ol class="versions">{versions.map(each => <li key={each.id}><span class="quiet">{day(each.from, exact)}</span> <button type="button" class="link" onClick={() => setOpen(each.id)}>{textOf(each).slice(0, 120)}</button></li>)}</ol>
          </li>
        )
      })}
    </ul>
  )
}

function Made({ id, item, setOpen }) {
  const originals = (item.sources || []).map(each => [each, items[each]])
  return (
    <details class="made">
      <summary><SectionDot name={item.section} /> <span class="quiet">{item.section}, {day(item.date)}{originals.length > 0 && <>, from {count(originals.length)} {originals.length === 1 ? 'item' : 'items'}</>}{item.quotes && <>, {count(item.quotes.length)} {item.quotes.length === 1 ? 'quote' : 'quotes'}</>}</span> {textOf(item).slice(0, 140)}</summary>
      <pre class="text" tabindex="0">{textOf(item)}</pre>
      <button type="button" onClick={() => setOpen(id)}>Open</button>
      {item.quotes && item.quotes.map((quote, place) => <blockquote key={place}>{quote}</blockquote>)}
      {originals.length > 0 && <ol class="originals">{originals.slice(0, 200).map(([each, original]) => (
        <li key={each}><button type="button" class="link" onClick={() => setOpen(each)}>{original ? textOf(original).slice(0, 140) : each}</button></li>
      ))}</ol>}
    </details>
  )
}

function Neighbours({ edges, setOpen }) {
  const names = useMemo(() => {
    const degrees = new Map()
    for (const edge of edges) for (const name of [edge.from, edge.to]) degrees.set(name, (degrees.get(name) || 0) + 1)
    return [...degrees].sort((a, b) => b[1] - a[1])
  }, [edges])
  const [center, setCenter] = useState(names[0][0])
  const near = edges.filter(edge => edge.from === center || edge.to === center).slice(0, 16)
  const places = [...new Set(near.map(edge => (edge.from === center ? edge.to : edge.from)))].filter(name => name !== center)
  const middle = innerWidth < 640 ? 175 : 320
  const spot = new Map(places.map((name, place) => {
    const angle = (2 * Math.PI * place) / places.length - Math.PI / 2
    return [name, [middle + 0.7 * middle * Math.cos(angle), 170 + 130 * Math.sin(angle)]]
  }))
  spot.set(center, [middle, 170])
  const short = name => (name.length > 22 ? `${name.slice(0, 21)}…` : name)
  return (
    <div class="graph">
      <label>Around <select value={center} onChange={event => setCenter(event.currentTarget.value)}>{names.slice(0, 500).map(([name, degree]) => <option key={name} value={name}>{name} ({degree})</option>)}</select></label>
      <svg viewBox={`0 0 ${2 * middle} 340`} role="img" aria-label={`${center} and ${places.length} neighbours`}>
        {near.map(edge => {
          const [x1, y1] = spot.get(edge.from)
          const [x2, y2] = spot.get(edge.to)
          return <g key={edge.id}><line x1={x1} y1={y1} x2={x2} y2={y2} /><text x={(x1 + x2) / 2} y={(y1 + y2) / 2 - 4} class="edge">{short(edge.type)}</text></g>
        })}
        {[...spot].map(([name, [x, y]]) => <g key={name}><circle cx={x} cy={y} r={name === center ? 8 : 6} class={name === center ? 'center' : ''} /><text x={x} y={y + 22}>{short(name)}</text></g>)}
      </svg>
      <ul class="links">{near.map(edge => <li key={edge.id}><button type="button" class="link" onClick={() => setOpen(edge.id)}>{edge.from} – {edge.type} → {edge.to}</button> {[edge.from, edge.to].filter(name => name !== center).map(name => <button key={name} type="button" onClick={() => setCenter(name)} aria-label={`Go to ${name}`}>go</button>)}</li>)}</ul>
    </div>
  )
}
