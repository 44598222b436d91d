// The data of the page: one script of JSON for the session, one for the items, one for each turn.
// A turn is parsed when it is first looked at.

const parsed = new Map()
const read = id => {
  const element = document.getElementById(id)
  return element ? JSON.parse(element.textContent) : null
}

export const session = read('session')
export const items = read('items')
Object.values(items).forEach(derive)
export const turns = session.turns

// The quotes that a formed memory rests on, and the relationship that an item of a graph is.
function derive(item) {
  const { quotes, quote, relationship } = item.metadata || {}
  const given = [quotes ?? quote ?? []].flat().filter(each => typeof each === 'string')
  item.quotes = given.length ? given : null
  const ends = [relationship?.source, relationship?.type, relationship?.target]
  item.edge = ends.every(each => typeof each === 'string') ? { from: ends[0], type: ends[1], to: ends[2] } : null
}

export function turnData(number) {
  if (!parsed.has(number)) parsed.set(number, read(`turn-${number}`) || {})
  return parsed.get(number)
}

export function itemOf(id, digest) {
  return (digest && items[`${id}\u0000${digest}`]) || items[id] || null
}

export const textOf = item => (item ? item.text : '(not in the session any more)')

// What a live page got from its server since it was opened.
export function takeIn(news) {
  Object.values(news.items).forEach(derive)
  Object.assign(items, news.items)
  for (const [number, data] of Object.entries(news.data)) parsed.set(Number(number), data)
  turns.splice(0, turns.length, ...news.session.turns)
  Object.assign(session, { ...news.session, turns })
}

// One row of a list for each item that a turn shows, in order, then for each that it left out.
const rows = new Map()
export function rowsOf(number) {
  if (rows.has(number)) return rows.get(number)
  const data = turnData(number)
  const decided = new Map()
  for (const row of data.decisions || []) decided.set(row[0], rowOf(row, data.signals))
  // A window may show items that have left their section since: they stand before the others.
  const earlier = (data.earlier || []).map(id => [id, null])
  const shown = [...earlier, ...(data.shown || [])].map(([id, digest], place) => {
    const item = itemOf(id, digest)
    const row = decided.get(id) || { id, section: item ? item.section : '', reason: 'visible', signals: {} }
    return { ...row, item, place: place + 1, included: true, isEarlier: place < earlier.length }
  })
  const ids = new Set(shown.map(row => row.id))
  const out = [...decided.values()].filter(row => !ids.has(row.id)).map(row => ({ ...row, item: itemOf(row.id) }))
  const lowest = {}
  for (const row of shown) if (row.score != null) lowest[row.section] = Math.min(row.score, lowest[row.section] ?? row.score)
  for (const row of out) row.gap = row.score == null || lowest[row.section] == null ? null : lowest[row.section] - row.score
  out.sort((a, b) => (a.gap ?? Infinity) - (b.gap ?? Infinity) || (a.lacking ?? 1e9) - (b.lacking ?? 1e9) || (a.rank ?? 1e9) - (b.rank ?? 1e9))
  const found = { shown, out, data }
  rows.set(number, found)
  if (rows.size > 40) rows.delete(rows.keys().next().value)
  return found
}

function rowOf([id, section, reason, rank, score, tokens, lacking, sameAs, signals], names) {
  const parts = {}
  signals.forEach((value, place) => { if (value) parts[names[place]] = value })
  return { id, section, reason, rank, score, tokens, sameAs, lacking, signals: parts }
}

// The turn of a window's epoch in which an item came in, with its reason then: later turns only say
// that it is visible.
export function arrivalOf(number, id) {
  const at = turns.findIndex(each => each.n === number)
  for (let place = at; place >= 0; place--) {
    const turn = turns[place]
    if (turn.window !== turns[at].window || turn.erased) continue
    if (turn.epoch !== turns[at].epoch) return null
    const { decisions = [], signals } = turnData(turn.n)
    for (const row of decisions)
      if (row[0] === id && row[2] !== 'visible') return { n: turn.n, ...rowOf(row, signals) }
  }
  return null
}

// The messages of a request as parts: texts, and slices of items. Of a window, the first `prefix`
// messages are those of the turn before.
export function requestOf(number) {
  const { request, shown } = turnData(number)
  if (!request) return null
  const { form, parts } = request
  const digests = new Map(shown)
  // A text of the form is short, or the number of its parts after a zero character.
  const own = text => (text.startsWith('\u0000') ? parts[Number(text.slice(1))] : [text]).map(each => partOf(each, digests))
  if (typeof form === 'string') return { messages: [{ role: 'text', parts: own(form) }], system: null, prefix: 0 }
  const messages = (form.messages || []).map(each => messageOf(each, own))
  return { messages, system: form.system ? own(form.system) : null, prefix: prefixOf(number, messages) }
}

// The place of the turn before in the same window, or of the turn before where the window has none.
export function placeBefore(place) {
  const { window } = turns[place]
  for (let at = place - 1; at >= 0; at--) if (turns[at].window === window) return at
  return Math.max(0, place - 1)
}

function prefixOf(number, messages) {
  const at = turns.findIndex(each => each.n === number)
  const { window, rebased } = turns[at]
  const before = turns[placeBefore(at)]
  if (!window || rebased || before.window !== window || before.n === number) return 0
  const { request } = turnData(before.n)
  return request && request.form.messages ? Math.min(request.form.messages.length, messages.length) : 0
}

function partOf(part, digests) {
  if (typeof part === 'string') return { text: part }
  const [id, leaf, start, stop] = part
  const item = itemOf(id, digests.get(id))
  if (!item) return { text: '(erased or not in the session)', id }
  return { text: slice(item.leaves ? item.leaves[leaf] : item.text, start, stop), id }
}

// Offsets count characters, as in Python. JavaScript counts those beyond U+FFFF twice.
function slice(text, start, stop) {
  return /[\ud800-\udfff]/.test(text) ? [...text].slice(start, stop).join('') : text.slice(start, stop)
}

const textOfParts = parts => parts.map(each => each.text).join('')

function messageOf(message, own) {
  const parts = []
  const walk = (value, name) => {
    if (typeof value === 'string') {
      if (name === 'type') parts.push({ label: textOfParts(own(value)) })
      else if (name !== 'role') {
        if (!['', 'content', 'text'].includes(name)) parts.push({ label: `${name}:` })
        parts.push(...own(value))
        if (!['', 'content', 'text'].includes(name)) parts.push({ text: '\n' })
      }
    } else if (Array.isArray(value)) value.forEach(each => walk(each, name))
    else if (value && typeof value === 'object') Object.entries(value).forEach(([key, inner]) => walk(inner, key))
  }
  const { role, ...rest } = message
  walk(rest, '')
  return { role: role || (message.type ? textOfParts(own(message.type)) : ''), parts }
}

// What came, went, was replaced by a newer version, or moved between two turns.
export function difference(from, to) {
  const before = rowsOf(from).shown.filter(row => !row.isEarlier)
  const after = rowsOf(to).shown.filter(row => !row.isEarlier)
  const old = new Map(before.map((row, place) => [row.id, place]))
  const now = new Set(after.map(row => row.id))
  const came = after.filter(row => !old.has(row.id))
  const went = before.filter(row => !now.has(row.id))
  const keyed = new Map(came.filter(row => row.item && row.item.key).map(row => [`${row.section}\u0000${row.item.key}`, row]))
  const replaced = []
  const gone = []
  for (const row of went) {
    const next = row.item && row.item.key ? keyed.get(`${row.section}\u0000${row.item.key}`) : null
    if (next) replaced.push({ ...next, before: row })
    else gone.push(row)
  }
  const newer = new Set(replaced.map(row => row.id))
  const common = after.filter(row => old.has(row.id))
  const stay = longestRun(common.map(row => old.get(row.id)))
  const moved = common.filter((_, place) => !stay.has(place)).map(row => ({ ...row, was: old.get(row.id) + 1 }))
  return { came: came.filter(row => !newer.has(row.id)), went: gone, replaced, moved, same: common.length - moved.length }
}

// The places of a longest increasing run: items there did not move.
function longestRun(values) {
  const tails = []
  const links = values.map((value, place) => {
    let low = 0
    let high = tails.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (values[tails[middle]] < value) low = middle + 1
      else high = middle
    }
    const link = low ? tails[low - 1] : -1
    tails[low] = place
    return link
  })
  const kept = new Set()
  for (let at = tails.length ? tails[tails.length - 1] : -1; at >= 0; at = links[at]) kept.add(at)
  return kept
}
