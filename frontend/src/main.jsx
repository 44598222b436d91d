import { render } from 'preact'
import { useEffect, useMemo, useReducer, useState } from 'preact/hooks'
import { arrivalOf, difference, items, placeBefore, requestOf, rowsOf, session, takeIn, textOf, turns } from './data.js'
import { VirtualList } from './list.jsx'
import { Memory } from './memory.jsx'
import { Session } from './session.jsx'
import { Chip, colorOf, count, day, SectionDot } from './parts.jsx'

const TABS = [
  ['window', 'Window'],
  ['sent', 'As sent'],
  ['out', 'Left out'],
  ['changes', 'Changes'],
  ['memory', 'Memory'],
  ['session', 'Session'],
]

const tokens = number => `${count(number)} token${number === 1 ? '' : 's'}`

const NO_FILTERS = { section: '', reason: '', source: '', text: '' }

function App() {
  const [, refresh] = useReducer(each => each + 1, 0)
  const [place, setPlace] = useState(turns.length - 1)
  const [other, setOther] = useState(null)
  const [tab, setTab] = useState('window')
  const [filters, setFilters] = useState(NO_FILTERS)
  const [open, setOpen] = useState(null)
  useLive(refresh, before => setPlace(at => (at >= before - 1 ? turns.length - 1 : at)))
  const turn = turns[place]
  const go = next => setPlace(Math.max(0, Math.min(turns.length - 1, next)))
  useEffect(() => {
    const onKey = event => {
      if (event.target.closest('input, select, textarea, [role=listbox], [role=tablist]')) {
        if (event.key === 'Escape') event.target.blur()
        return
      }
      if (event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === 'ArrowLeft') go(place - 1)
      else if (event.key === 'ArrowRight') go(place + 1)
      else if (event.key === 'Escape') setOpen(null)
      else if (event.key === '/') { event.preventDefault(); document.getElementById('find').focus() }
      else if (/^[1-6]$/.test(event.key)) setTab(TABS[event.key - 1][0])
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  })
  if (!turn) return <main class="empty-page"><h1>{session.id}</h1><p>No turn is stored. Open the session with <code>trace=True</code>.</p></main>
  const shared = { turn, place, go, filters, open, setOpen }
  return (
    <>
      <Header turn={turn} place={place} go={go} />
      <main>
        <Budget turn={turn} onSection={name => setFilters({ ...filters, section: filters.section === name ? '' : name })} chosen={filters.section} />
        <Notices turn={turn} />
        <Tabs tab={tab} setTab={setTab} turn={turn} />
        <div class={`work${open ? ' with-details' : ''}`}>
          <section role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`} class="panel">
            {turn.erased && tab !== 'session' && tab !== 'memory'
              ? <p class="empty">This turn showed an item that was erased since. Only its sums are left.</p>
              : <Panel tab={tab} shared={shared} setFilters={setFilters} other={other} setOther={setOther} />}
          </section>
          {open && <Details id={open} turn={turn} close={() => setOpen(null)} setOpen={setOpen} />}
        </div>
      </main>
    </>
  )
}

function Panel({ tab, shared, setFilters, other, setOther }) {
  if (tab === 'sent') return <Sent {...shared} />
  if (tab === 'changes') return <Changes {...shared} other={other} setOther={setOther} />
  if (tab === 'memory') return <Memory {...shared} />
  if (tab === 'session') return <Session {...shared} />
  return <Items {...shared} which={tab === 'out' ? 'out' : 'shown'} setFilters={setFilters} />
}

function useLive(refresh, follow) {
  useEffect(() => {
    if (!session.live) return undefined
    let after = turns.length
    const token = new URLSearchParams(location.search).get('token') || ''
    const ask = async () => {
      try {
        const answer = await fetch(`news?after=${after}`, { headers: { 'X-Token': token } })
        if (!answer.ok) return
        const news = await answer.json()
        if (news.session && news.session.turns.length !== turns.length) { takeIn(news); follow(after); after = turns.length; refresh() }
      } catch { /* the server has ended; the page stays as it is */ }
    }
    const timer = setInterval(ask, 1500)
    return () => clearInterval(timer)
  }, [])
}

function Header({ turn, place, go }) {
  const [theme, setTheme] = useState('auto')
  useEffect(() => { document.documentElement.dataset.theme = theme }, [theme])
  return (
    <header>
      <div class="head">
        <h1><span class="brand">kaosmem</span> <span class="id">{session.id}</span>{session.live && <span class="live">live</span>}</h1>
        <label class="theme">Theme <select value={theme} onChange={event => setTheme(event.currentTarget.value)}>
          <option value="auto">auto</option><option value="light">light</option><option value="dark">dark</option>
        </select></label>
      </div>
      <div class="slider">
        <button type="button" onClick={() => go(place - 1)} disabled={place === 0} aria-label="Previous turn">‹</button>
        <input type="range" min="0" max={turns.length - 1} value={place} aria-label="Turn"
          aria-valuetext={`turn ${turn.n} of ${turns[turns.length - 1].n}`}
          onInput={event => go(Number(event.currentTarget.value))} />
        <button type="button" onClick={() => go(place + 1)} disabled={place === turns.length - 1} aria-label="Next turn">›</button>
        <output>turn <b>{count(turn.n)}</b> of {count(turns[turns.length - 1].n)}</output>
      </div>
      <p class="query" title={turn.query.slice(0, 1000)}><span class="quiet">{day(turn.at, true)}</span> {turn.query.slice(0, 300) || (turn.erased ? '(erased)' : '(no query)')}</p>
    </header>
  )
}

function Budget({ turn, onSection, chosen }) {
  const parts = Object.entries(turn.sections).map(([name, [used]]) => [name, used]).filter(([, used]) => used)
  const free = Math.max(0, turn.budget - turn.used)
  const share = tokens => `${(100 * tokens) / Math.max(1, turn.budget)}%`
  return (
    <section class="budget" aria-label="Tokens of the turn">
      <p class="sums">
        <b>{count(turn.used)}</b> of {count(turn.budget)} tokens
        {turn.window && <> · window <b>{turn.window}</b>, epoch {turn.epoch}</>}
        {turn.rebased ? <> · <span class="rebased">packed anew: {turn.rebased}</span></> : turn.window ? <> · {count(turn.prefix_tokens)} cached, {count(turn.appended)} appended</> : null}
        {turn.seconds != null && <> · {(1000 * turn.seconds).toFixed(1)} ms</>}
      </p>
      <div class="bar" role="img" aria-label={`${parts.map(([name, used]) => `${name} ${used}`).join(', ')}, free ${free}`}>
        {parts.map(([name, used]) => <div key={name} class="part" title={`${name}: ${count(used)} tokens`} style={{ width: share(used), background: colorOf(name) }} />)}
        {turn.frame > 0 && <div class="part frame" title={`layout: ${count(turn.frame)} tokens`} style={{ width: share(turn.frame) }} />}
      </div>
      {turn.prefix_tokens > 0 && <div class="prefix" title={`${count(turn.prefix_tokens)} tokens are the request before: a cache has them`}><div style={{ width: share(turn.prefix_tokens) }} /></div>}
      <ul class="legend">
        {parts.map(([name, used]) => (
          <li key={name}><button type="button" aria-pressed={chosen === name} onClick={() => onSection(name)}><SectionDot name={name} /> {name} <b>{count(used)}</b></button></li>
        ))}
        {turn.frame > 0 && <li class="quiet"><i class="dot frame" /> layout {count(turn.frame)}</li>}
        <li class="quiet"><i class="dot free" /> free {count(free)}</li>
        {turn.prefix_tokens > 0 && <li class="quiet"><i class="dot cached" /> cached {count(turn.prefix_tokens)}</li>}
      </ul>
    </section>
  )
}

function Notices({ turn }) {
  if (turn.erased) return null
  const { notices = [], reports = {} } = rowsOf(turn.n).data
  const sources = Object.entries(reports).map(([name, [status, proposed, error]]) => {
    const answered = ['ok', 'degraded'].includes(status) ? `, ${count(proposed)} proposed` : ''
    return `source ${name}: ${status}${error && ` with ${error}`}${answered}`
  })
  if (!notices.length && !sources.length) return null
  return <ul class="notices">{[...notices, ...sources].map(each => <li key={each}>{each}</li>)}</ul>
}

function Tabs({ tab, setTab, turn }) {
  const onKeyDown = event => {
    const at = TABS.findIndex(([name]) => name === tab)
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (!step) return
    event.preventDefault()
    const next = TABS[(at + step + TABS.length) % TABS.length][0]
    setTab(next)
    document.getElementById(`tab-${next}`).focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label="Views" onKeyDown={onKeyDown}>
      {TABS.map(([name, title], place) => (
        <button key={name} id={`tab-${name}`} type="button" role="tab" aria-selected={tab === name} aria-controls="panel"
          tabindex={tab === name ? 0 : -1} title={`key ${place + 1}`} onClick={() => setTab(name)}>
          {title}{name === 'window' && !turn.erased && <span class="number"> {count(rowsOf(turn.n).shown.length)}</span>}{name === 'out' && !turn.erased && <span class="number"> {count(rowsOf(turn.n).out.length)}</span>}
        </button>
      ))}
    </div>
  )
}

const ROW = () => (innerWidth < 640 ? 86 : 62)

function Items({ turn, which, filters, setFilters, open, setOpen }) {
  const all = rowsOf(turn.n)[which]
  const [asked, setAsked] = useState(filters.text)
  useEffect(() => {
    const timer = setTimeout(() => setFilters({ ...filters, text: asked }), 120)
    return () => clearTimeout(timer)
  }, [asked])
  const rows = useMemo(() => filtered(all, filters), [all, filters])
  const names = [...new Set(all.map(row => row.section))].sort()
  const reasons = [...new Set(all.map(row => row.reason))].sort()
  const sources = [...new Set(all.map(row => (row.item && row.item.source) || ''))].filter(Boolean).sort()
  const choice = (name, values, title) => (
    <label>{title} <select value={filters[name]} onChange={event => setFilters({ ...filters, [name]: event.currentTarget.value })}>
      <option value="">all</option>{[...new Set([...values, filters[name]])].filter(Boolean).map(value => <option key={value} value={value}>{value}</option>)}
    </select></label>
  )
  const sum = rows.reduce((all, row) => all + (row.tokens || 0), 0)
  return (
    <>
      <form class="filters" onSubmit={event => event.preventDefault()}>
        {choice('section', names, 'Section')}
        {choice('reason', reasons, 'Reason')}
        {sources.length > 0 && choice('source', sources, 'Source')}
        <label class="grow">Text <input id="find" type="search" value={asked} placeholder="words of an item" onInput={event => setAsked(event.currentTarget.value)} /></label>
        {Object.values(filters).some(Boolean) && <button type="button" onClick={() => { setAsked(''); setFilters(NO_FILTERS) }}>Clear</button>}
        <output class="quiet">{count(rows.length)} of {count(all.length)}, {count(sum)} tokens</output>
      </form>
      <VirtualList rows={rows} height={ROW()} label={which === 'out' ? 'Items left out, nearest first' : 'Items in the window, in order'}
        selected={open} onSelect={row => setOpen(row.id)} draw={row => <Row row={row} />}
        empty={all.length ? 'No item passes the filters.' : which === 'out' ? 'Nothing that was offered was left out.' : 'The turn shows no item.'} />
    </>
  )
}

function filtered(rows, filters) {
  const words = filters.text.toLowerCase()
  return rows.filter(row =>
    (!filters.section || row.section === filters.section) &&
    (!filters.reason || row.reason === filters.reason) &&
    (!filters.source || (row.item && row.item.source === filters.source)) &&
    (!words || textOf(row.item).toLowerCase().includes(words) || row.id.toLowerCase().includes(words)))
}

function Row({ row, note }) {
  const item = row.item
  return (
    <>
      <span class="meta">
        {row.place && <span class="place">{row.place}</span>}
        <SectionDot name={row.section} /><span class="section">{row.section}</span>
        <Chip reason={row.reason} included={row.included} />
        {note && <span class="note">{note}</span>}
        {item && item.source && <span class="source">{item.source}</span>}
        {item && item.role && <span>{item.role}</span>}
        {item && <span class="quiet">{day(item.date)}</span>}
        <span class="figures">
          {row.rank != null && <span title="rank in its section">#{count(row.rank)}</span>}
          {row.score != null && <span title="score"><meter min="0" max="100" value={Math.min(100, row.score)} aria-label={`score ${row.score.toFixed(1)}`} /> {row.score.toFixed(1)}</span>}
          {row.tokens != null && <span>{count(row.tokens)} tok</span>}
        </span>
      </span>
      <span class="line">{textOf(item).slice(0, 400)}</span>
      {!row.included && (row.gap > 0 || row.lacking != null) && (
        <span class="gap">lacked {[row.lacking != null && tokens(row.lacking), row.gap > 0 && `${row.gap.toFixed(2)} score`].filter(Boolean).join(' or ')}</span>
      )}
    </>
  )
}

function Details({ id, turn, close, setOpen }) {
  const found = turn.erased ? null : [...rowsOf(turn.n).shown, ...rowsOf(turn.n).out].find(row => row.id === id)
  const item = (found && found.item) || items[id]
  const versions = item && item.key ? Object.entries(items).filter(([key, each]) => each.key === item.key && each.section === item.section && !key.includes('\u0000')) : []
  const derived = Object.entries(items).filter(([key, each]) => (each.sources || []).includes(id) && !key.includes('\u0000')).slice(0, 20)
  const arrival = found && found.reason === 'visible' ? arrivalOf(turn.n, id) : null
  const decided = arrival || found
  const signals = decided ? Object.entries(decided.signals).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])) : []
  const most = Math.max(0.001, ...signals.map(([, value]) => Math.abs(value)))
  return (
    <aside aria-label="The item">
      <div class="aside-head"><h2>{item ? item.source || item.key || item.section : 'Item'}</h2><button type="button" onClick={close} aria-label="Close the item">×</button></div>
      {found && <p><Chip reason={found.reason} included={found.included} /> in turn {turn.n}
        {found.rank != null && <>, rank {count(found.rank)}</>}{found.score != null && <>, score {found.score.toFixed(2)}</>}
        {!found.included && found.lacking != null && <>. It lacked {tokens(found.lacking)}{found.gap > 0 && <> or {found.gap.toFixed(2)} score</>}</>}.
        {found.sameAs && <> It gave way to <Link id={found.sameAs} setOpen={setOpen} /></>}</p>}
      {arrival && <p>It came in with turn {count(arrival.n)}: <Chip reason={arrival.reason} included />{arrival.rank != null && <>, rank {count(arrival.rank)}</>}{arrival.score != null && <>, score {arrival.score.toFixed(2)}</>}.</p>}
      {found && <p class="quiet">{session.reasons[decided.reason]}.</p>}
      {!found && <p class="quiet">This turn's sections did not offer it.</p>}
      <pre class="text" tabindex="0">{textOf(item)}</pre>
      {signals.length > 0 && <><h3>Signals</h3><dl class="signals">{signals.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd><i class={value < 0 ? 'minus' : ''} style={{ width: `${(55 * Math.abs(value)) / most}%` }} /> {value.toFixed(2)}</dd></div>
      ))}</dl></>}
      {item && item.quotes && <><h3>Quotes</h3>{item.quotes.map((quote, at) => <blockquote key={at}>{quote}</blockquote>)}</>}
      {item && (item.sources || []).length > 0 && <><h3>Made from</h3><ul class="links">{item.sources.slice(0, 50).map(each => <li key={each}><Link id={each} setOpen={setOpen} /></li>)}</ul></>}
      {derived.length > 0 && <><h3>In summaries</h3><ul class="links">{derived.map(([key]) => <li key={key}><Link id={key} setOpen={setOpen} /></li>)}</ul></>}
      {versions.length > 1 && <><h3>Versions of {item.key}</h3><ol class="links">{versions.sort((a, b) => (a[1].from < b[1].from ? -1 : 1)).map(([key, each]) => <li key={key}><span class="quiet">{day(each.from)}</span> <Link id={key} setOpen={setOpen} /></li>)}</ol></>}
      {item && <dl class="facts">
        {[['id', id], ['section', item.section], ['state', item.state], ['role', item.role], ['source', item.source], ['date', day(item.date, true)], ['tokens', item.tokens], ['key', item.key], ['trust', item.trust], ['tags', (item.tags || []).join(', ')]].filter(([, value]) => value != null && value !== '').map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
      </dl>}
    </aside>
  )
}

export function Link({ id, setOpen }) {
  const item = items[id]
  return <button type="button" class="link" onClick={() => setOpen(id)}>{item ? textOf(item).slice(0, 90) : id}</button>
}

function Sent({ turn, setOpen, open }) {
  const request = requestOf(turn.n)
  const [all, setAll] = useState(false)
  if (!request) return <p class="empty">The request is not kept. A note of the turn says why.</p>
  const skipped = all ? 0 : Math.max(0, request.messages.length - 80)
  const part = (each, at) => each.label ? <span key={at} class="label">{each.label} </span>
    : each.id ? <button key={at} type="button" class={`piece${open === each.id ? ' chosen' : ''}`} onClick={() => setOpen(each.id)}>{each.text}</button>
    : <span key={at} class="layout">{each.text}</span>
  return (
    <div class="sent" tabindex="0" role="region" aria-label="The request as it was sent">
      {request.system && <article><h2>system</h2><div class="body">{request.system.map(part)}</div></article>}
      {skipped > 0 && <button type="button" onClick={() => setAll(true)}>Show {count(skipped)} earlier messages</button>}
      {request.messages.slice(skipped).map((message, offset) => {
        const at = skipped + offset
        return (
          <article key={at} class={at < request.prefix ? 'cached' : ''}>
            <h2>{message.role}{turn.window && <span class="quiet"> {at < request.prefix ? 'as before' : 'appended'}</span>}</h2>
            <div class="body">{message.parts.map(part)}</div>
          </article>
        )
      })}
    </div>
  )
}

function Changes({ turn, place, other, setOther, open, setOpen }) {
  const with_ = other != null && turns[other] ? other : placeBefore(place)
  const base = turns[with_]
  const found = useMemo(() => (base.erased || turn.erased ? null : difference(base.n, turn.n)), [base.n, turn.n])
  const rows = useMemo(() => found ? [
    ...found.came.map(row => ({ ...row, note: 'in' })),
    ...found.replaced.map(row => ({ ...row, note: 'replaced' })),
    ...found.went.map(row => ({ ...row, note: 'out', place: null })),
    ...found.moved.map(row => ({ ...row, note: `moved from ${row.was}` })),
  ] : [], [found])
  return (
    <>
      <form class="filters" onSubmit={event => event.preventDefault()}>
        <label>Compared with turn <input type="number" min={turns[0].n} max={turns[turns.length - 1].n} value={base.n}
          onInput={event => { const at = turns.findIndex(each => each.n === Number(event.currentTarget.value)); if (at >= 0) setOther(at) }} /></label>
        {other != null && <button type="button" onClick={() => setOther(null)}>The turn before</button>}
        {base.window !== turn.window && <span class="note">{base.window ? `of window ${base.window}` : 'of no window'}</span>}
        {found && <output class="quiet">{count(found.came.length)} in, {count(found.went.length)} out, {count(found.replaced.length)} replaced, {count(found.moved.length)} moved, {count(found.same)} as before</output>}
      </form>
      {found ? <VirtualList rows={rows} height={ROW()} label={`Changes from turn ${base.n} to turn ${turn.n}`} selected={open} onSelect={row => setOpen(row.id)}
        draw={row => <Row row={row} note={row.before ? `replaced “${textOf(row.before.item).slice(0, 60)}”` : row.note} />} empty="Both turns show the same items in the same order." />
        : <p class="empty">One of the two turns was erased.</p>}
    </>
  )
}

render(<App />, document.getElementById('app'))
