// A list that draws only the rows in sight, so that 100,000 rows cost as much as twenty.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

export function VirtualList({ rows, height, label, draw, selected, onSelect, empty }) {
  const box = useRef(null)
  const [top, setTop] = useState(0)
  const [room, setRoom] = useState(600)
  const [active, setActive] = useState(0)
  useLayoutEffect(() => {
    const measure = () => box.current && setRoom(box.current.clientHeight)
    measure()
    addEventListener('resize', measure)
    return () => removeEventListener('resize', measure)
  }, [])
  useEffect(() => { setActive(0); if (box.current) box.current.scrollTop = 0 }, [rows])
  const go = place => {
    const next = Math.max(0, Math.min(rows.length - 1, place))
    setActive(next)
    const from = next * height
    const element = box.current
    if (from < element.scrollTop) element.scrollTop = from
    else if (from + height > element.scrollTop + element.clientHeight) element.scrollTop = from + height - element.clientHeight
  }
  const onKeyDown = event => {
    const page = Math.max(1, Math.floor(room / height) - 1)
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }
    if (event.key in steps) { event.preventDefault(); event.stopPropagation(); go(active + steps[event.key]) }
    else if ((event.key === 'Enter' || event.key === ' ') && rows[active]) { event.preventDefault(); onSelect(rows[active]) }
  }
  if (!rows.length) return <p class="empty">{empty}</p>
  const first = Math.max(0, Math.floor(top / height) - 6)
  const last = Math.min(rows.length, Math.ceil((top + room) / height) + 6)
  const id = place => `${label.replace(/\W+/g, '-')}-${place}`
  return (
    <div class="list" ref={box} role="listbox" tabindex="0" aria-label={label} onKeyDown={onKeyDown}
      aria-activedescendant={active >= first && active < last ? id(active) : undefined}
      onScroll={event => setTop(event.currentTarget.scrollTop)}>
      <div role="presentation" style={{ height: `${rows.length * height}px`, position: 'relative' }}>
        {rows.slice(first, last).map((row, offset) => {
          const place = first + offset
          return (
            <div key={row.id + place} id={id(place)} role="option" class={`row${place === active ? ' active' : ''}`}
              aria-selected={selected === row.id} aria-setsize={rows.length} aria-posinset={place + 1}
              style={{ position: 'absolute', top: `${place * height}px`, height: `${height}px`, left: 0, right: 0 }}
              onClick={() => { setActive(place); onSelect(row) }}>
              {draw(row)}
            </div>
          )
        })}
      </div>
    </div>
  )
}
